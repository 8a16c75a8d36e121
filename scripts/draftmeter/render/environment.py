"""Jinja for Markdown and LaTeX: undefined names are errors, and every inserted text is escaped unless marked safe.

Escaping is the rule (through `finalize`) and not a filter that a template might forget.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from draftmeter.render import printing
from draftmeter.render.facts import RenderError
from draftmeter.render.printing import Printer, escape_bibtex, escape_latex, escape_markdown


def latex_formula(k: int) -> Markup:
    """1 + a + ... + a^K as LaTeX mathematics; a `k` of 0 is unknown."""
    if k == 0:
        return Markup(r"$1 + a + \dots + a^K$")
    powers = ["1", "a", *(f"a^{{{power}}}" for power in range(2, k + 1))][: k + 1]
    return Markup("$" + " + ".join(powers) + "$")


def markdown_environment(folder: Path, *, linked: bool = False, places: Mapping[str, str] | None = None) -> jinja2.Environment:
    """Templates of `folder` that make Markdown, with the usual delimiters.

    `linked`: figures are links to the appendix of facts. `places`: ids of the reasons in that appendix, by their text.
    """
    environment = _environment(folder, escape_markdown, Printer(escape_markdown, linked=linked, places=places))
    environment.filters["formula"] = printing.geometric_formula
    return environment


def latex_environment(folder: Path) -> jinja2.Environment:
    r"""Templates of `folder` that make LaTeX, with the delimiters \VAR{}, \BLOCK{} and \#{}."""
    environment = _environment(
        folder,
        escape_latex,
        Printer(escape_latex),
        variable_start_string=r"\VAR{",
        variable_end_string="}",
        block_start_string=r"\BLOCK{",
        block_end_string="}",
        comment_start_string=r"\#{",
        comment_end_string="}",
    )
    environment.filters["formula"] = latex_formula
    return environment


def render_template(environment: jinja2.Environment, name: str, **context: Any) -> str:
    """Render template `name`; an undefined name or a missing template becomes a :class:`RenderError` with its place."""
    try:
        return environment.get_template(name).render(**context)
    except jinja2.TemplateNotFound as error:
        raise RenderError(f"{error.name}: no such template in paper/") from error
    except jinja2.TemplateSyntaxError as error:
        raise RenderError(f"{error.name or name}, line {error.lineno}: {error.message}") from error
    except jinja2.UndefinedError as error:
        raise RenderError(f"{name}: {error.message}; a template may use only what the facts hold") from error


def _environment(folder: Path, escape: Callable[[str], str], printer: Printer, **delimiters: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=_finalize(escape),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **delimiters,  # type: ignore[arg-type]
    )
    for of_fact in (
        printer.number,
        printer.value,
        printer.things,
        printer.cell,
        printer.interval,
        printer.with_interval,
        printer.cell_with_interval,
        printer.row_value,
        printer.row_interval,
        printer.because,
        printer.see,
        printer.anchor,
    ):
        environment.filters[of_fact.__name__] = of_fact
    for of_number in (printing.count, printing.counted, printing.percent, printing.decimal, printing.plain, printing.or_unknown):
        environment.filters[of_number.__name__] = of_number
    environment.filters["bibtex"] = lambda text: Markup(escape_bibtex(text))
    environment.globals["why"] = printer.why
    return environment


def _finalize(escape: Callable[[str], str]) -> Callable[[Any], Any]:
    def finalize(value: Any) -> Any:
        if isinstance(value, Markup | jinja2.Undefined):
            return value
        if isinstance(value, str):
            return Markup(escape(value))
        if isinstance(value, int) and not isinstance(value, bool):
            return Markup(str(value))
        raise RenderError(f"a template prints {value!r} as it is; figures go through a number filter")

    return finalize
