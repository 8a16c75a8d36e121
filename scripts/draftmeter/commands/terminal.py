"""How `report` prints quantities: a block for each source and one for all, or one table."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from draftmeter.units import AS_PERCENTAGE, DIGITS, is_signed

Figures = Mapping[str, Mapping[str, Any]]
UNKNOWN = "unknown"
MOST_BLOCKS = 3
NARROWEST = 16
HEADINGS = ("K", "drafts", "accepted", "chance by position", "per step", "intervals", "P10 to P90")
# Of all quantities, those that a block shows.
_SHOWN = re.compile(
    r"k|drafts|draft_tokens|accepted|accepted_over_drafted|(share_through|chance|tokens_per_step_at)_\d+"
    r"|(emitted_)?tokens_per_step|qualifying|p10|p90"
)
POLICY = "at this draft length, if the draft policy is unchanged"


def show(reported: Mapping[str, Any], out: TextIO) -> None:
    """Print what :func:`draftmeter.commands.report.report` made."""
    sources, pool = reported["sources"], reported["pooled"]
    screen = _Screen(out)
    if len(sources) > MOST_BLOCKS:
        below = _common_folder([source["source"] for source in sources])
        screen.line(f"{len(sources)} sources" + (f" in {below}" if below else ""), strong=True)
        screen.table(_rows_of_many(sources, below))
        screen.line("")
    else:
        for source in sources:
            _block(_title(source), source, screen)
    if pool is not None and pool["figures"] is None:
        screen.line(pool["unknown"])
    elif pool is not None:
        _block(f"all {len(sources)} sources (by {pool['counted_by']})", pool, screen)


def _title(source: Mapping[str, Any]) -> str:
    model = "" if source["model"] is None else f", model {source['model']}"
    by = "counted by its log lines" if source["counted_by"] == "lines" else "counters"
    return f"{source['source']} ({source['kind']}{model}; {by})"


def _block(title: str, source: Mapping[str, Any], screen: "_Screen") -> None:
    figures: Figures = source["figures"]
    screen.line(title, strong=True)
    screen.table(list(_rows(figures)))
    k = figures["k"]["value"]
    if k is not None:
        screen.table([["position, or draft length", *map(str, range(1, int(k) + 1)), ""], *_by_position(figures, int(k))])
    for note in [*source["notes"], *source.get("warnings", []), *_reasons(figures)]:
        screen.line(f"- {note}")
    screen.line("")


def _rows(figures: Figures) -> Iterator[list[str]]:
    def shown(name: str) -> str:
        return _printed(figures, name)

    yield ["K", shown("k")]
    yield ["drafts", shown("drafts")]
    yield ["draft tokens", shown("draft_tokens")]
    yield ["accepted", f"{shown('accepted')} ({shown('accepted_over_drafted')} of the draft tokens)"]
    yield ["tokens per step", f"{shown('tokens_per_step')} (emitted: {shown('emitted_tokens_per_step')})"]
    if figures["emitted_tokens_per_step"]["value"] is None and figures["tokens_per_decode_step"]["value"] is not None:
        yield ["tokens per decode step", f"at most {shown('tokens_per_decode_step')}, over steps with and without a draft"]
    if figures["restarts"]["value"]:
        yield ["restarts", shown("restarts")]
    if figures["intervals"]["value"]:
        yield ["intervals", f"{shown('intervals')}, {shown('qualifying')} of them with enough drafts"]
        yield ["acceptance, P10 to P90", _spread(figures)]
    if figures["lines_against_counters"]["value"] is not None:
        yield ["lines against counters", shown("lines_against_counters")]


def _by_position(figures: Figures, k: int) -> Iterator[list[str]]:
    yield ["share through", *(_printed(figures, f"share_through_{n}") for n in range(1, k + 1)), "of all drafts"]
    yield ["chance", *(_printed(figures, f"chance_{n}") for n in range(1, k + 1)), "of those accepted so far"]
    lengths = [*(f"tokens_per_step_at_{n}" for n in range(1, k)), "tokens_per_step"]
    yield ["tokens per step", *(_printed(figures, name) for name in lengths), POLICY]


def _rows_of_many(sources: Sequence[Mapping[str, Any]], below: str) -> list[list[str]]:
    rows = [["source", *HEADINGS]]
    for source in sources:
        name = source["source"].removeprefix(below)
        figures: Figures = source["figures"]
        k = int(figures["k"]["value"] or 0)
        rows.append(
            [
                name if source["model"] is None else f"{name} {source['model']}",
                _printed(figures, "k"),
                _printed(figures, "drafts"),
                _printed(figures, "accepted_over_drafted"),
                " ".join(_printed(figures, f"chance_{n}") for n in range(1, k + 1)),
                _printed(figures, "tokens_per_step"),
                f"{_printed(figures, 'qualifying')} of {_printed(figures, 'intervals')}",
                _spread(figures),
            ]
        )
    return rows


def _common_folder(names: Sequence[str]) -> str:
    """The folder that all names lie in, with its slash; empty if there is none."""
    folders = [os.path.dirname(name) for name in names]  # noqa: PTH120  names as given, which a Path would rewrite
    if len({os.path.isabs(folder) for folder in folders}) > 1:  # noqa: PTH117
        return ""
    common = os.path.commonpath(folders)
    return f"{common}/" if common else ""


def _spread(figures: Figures) -> str:
    known = figures["p10"]["value"] is not None
    return f"{_printed(figures, 'p10')} to {_printed(figures, 'p90')}" if known else UNKNOWN


def _reasons(figures: Figures) -> Iterator[str]:
    """Why quantities that a block shows are unknown, each reason once."""
    reasons: dict[str, list[str]] = {}
    for name, figure in figures.items():
        if figure["value"] is None and figure["unknown"] and _SHOWN.fullmatch(name):
            reasons.setdefault(figure["unknown"], []).append(name.replace("_", " "))
    for reason, names in reasons.items():
        shown = names if len(names) <= MOST_BLOCKS else [*names[:MOST_BLOCKS], "..."]
        yield f"unknown: {', '.join(shown)}: {reason}"


def _printed(figures: Figures, name: str) -> str:
    """A quantity with the digits and the sign of its unit and its name; K is a whole number."""
    value, unit = figures[name]["value"], figures[name]["unit"]
    if value is None:
        return UNKNOWN
    sign, digits = "+" if is_signed(name, unit) else "", 0 if name == "k" else DIGITS.get(unit, 0)
    return f"{100 * value:{sign},.{digits}f}%" if unit in AS_PERCENTAGE else f"{value:{sign},.{digits}f}"


class _Screen:
    """A terminal with rich tables, or plain aligned text for anything else."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._console: Any = None
        if out.isatty():
            from rich.console import Console  # noqa: PLC0415  only a terminal needs it

            self._console = Console(file=out, highlight=False)

    def line(self, text: str, *, strong: bool = False) -> None:
        if self._console is None:
            print(text, file=self._out)
        else:
            self._console.print(text, style="bold" if strong else None, markup=False)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows of cells; all columns but the first and the last are aligned to the right."""
        last = max(map(len, rows)) - 1
        if self._console is not None:
            from rich.table import Table  # noqa: PLC0415

            table = Table(show_header=False, box=None, padding=(0, 0, 0, 2))
            for number in range(last + 1):
                justify: Any = "left" if number in (0, last) else "right"
                table.add_column(
                    justify=justify, overflow="fold", no_wrap=number > 0, min_width=NARROWEST if number == 0 else None
                )
            for row in rows:
                table.add_row(*row)
            self._console.print(table)
            return
        widths = [max(len(row[at]) for row in rows if at < len(row)) for at in range(last + 1)]
        for row in rows:
            cells = [cell.ljust(widths[at]) if at in (0, last) else cell.rjust(widths[at]) for at, cell in enumerate(row)]
            print("  " + "  ".join(cells).rstrip(), file=self._out)
