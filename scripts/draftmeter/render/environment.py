"""Jinja for Markdown and LaTeX: undefined names are errors, and every inserted text is escaped unless marked safe.

Labels, model names and reasons come from configs, servers and file names: they are data, whatever they contain.
Escaping is therefore the rule (through `finalize`) and not a filter that a template might forget.
"""

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from draftmeter.render import numbers
from draftmeter.render.facts import RenderError

# Characters with a meaning anywhere in a line of pandoc's or GitHub's Markdown.
_MARKDOWN_ANYWHERE = re.compile(r"([\\`*_{}\[\]<>|~^@$&#])")
# What only matters where a line begins: bullets, definitions, fenced divs, rules and setext underlines, numbered lists.
_MARKDOWN_AT_START = re.compile(r"^([-+:=%])(?=[-+:=%\s]|$)")
_MARKDOWN_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # an opening bracket or a star right after \\ would be read as its argument
    "*": "{*}",
    numbers.MINUS: "$-$",
}


def plain_line(text: str) -> str:
    """One line of printable text: line breaks, control and direction-changing characters become single spaces."""
    kept = (" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join("".join(kept).split())


def escape_markdown(text: str) -> str:
    """`text` so that Markdown shows it literally: no markup, HTML, table cell, citation or list can come of it."""
    text = _MARKDOWN_ANYWHERE.sub(r"\\\1", plain_line(text))
    return _MARKDOWN_NUMBERED.sub(r"\1\\\2", _MARKDOWN_AT_START.sub(r"\\\1", text))


def escape_latex(text: str) -> str:
    """`text` so that LaTeX typesets it literally."""
    return "".join(_LATEX.get(char, char) for char in plain_line(text))


def latex_formula(k: int) -> Markup:
    """1 + a + ... + a^K as LaTeX mathematics."""
    powers = ["1", "a", *(f"a^{{{power}}}" for power in range(2, k + 1))][: k + 1]
    return Markup("$" + " + ".join(powers) + "$")


def markdown_environment(folder: Path) -> jinja2.Environment:
    """Templates of `folder` that make Markdown, with the usual delimiters."""
    environment = _environment(folder, escape_markdown)
    environment.filters["formula"] = numbers.geometric_formula
    return environment


def latex_environment(folder: Path) -> jinja2.Environment:
    r"""Templates of `folder` that make LaTeX, with the delimiters \VAR{}, \BLOCK{} and \#{}."""
    environment = _environment(
        folder,
        escape_latex,
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
        raise RenderError(f"{name}: no such template in paper/") from error
    except jinja2.TemplateSyntaxError as error:
        raise RenderError(f"{name}, line {error.lineno}: {error.message}") from error
    except jinja2.UndefinedError as error:
        raise RenderError(f"{name}: {error.message}; a template may use only what the facts hold") from error


def _environment(folder: Path, escape: Callable[[str], str], **delimiters: str) -> jinja2.Environment:
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
    for function in (
        numbers.number,
        numbers.cell,
        numbers.interval,
        numbers.with_interval,
        numbers.with_known_interval,
        numbers.count,
        numbers.percent,
        numbers.decimal,
        numbers.short_number,
        numbers.value,
        numbers.plain,
        numbers.or_unknown,
    ):
        environment.filters[function.__name__] = function
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
