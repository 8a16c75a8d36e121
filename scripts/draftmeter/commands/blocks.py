"""How `report` shows figures in a terminal: a block for each source and one for all, or a table of many sources."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

Figures = Mapping[str, Mapping[str, Any]]
UNKNOWN = "unknown"
MOST_BLOCKS = 3
NARROWEST = 16
HEADINGS = ("K", "drafts", "accepted", "chance by position", "per step", "intervals", "P10 to P90")
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
    yield ["K", _count(figures["k"])]
    yield ["drafts", _count(figures["drafts"])]
    yield ["draft tokens", _count(figures["draft_tokens"])]
    yield ["accepted", f"{_count(figures['accepted'])} ({_percent(figures['accepted_over_drafted'])} of the draft tokens)"]
    yield ["tokens per step", f"{_real(figures['tokens_per_step'])} (emitted: {_real(figures['emitted_tokens_per_step'])})"]
    if figures["restarts"]["value"]:
        yield ["restarts", _count(figures["restarts"])]
    if figures["intervals"]["value"]:
        yield ["intervals", f"{_count(figures['intervals'])}, {_count(figures['qualifying'])} of them with enough drafts"]
        yield ["acceptance, P10 to P90", _spread(figures)]
    if figures["lines_against_counters"]["value"] is not None:
        yield ["lines against counters", f"{100 * figures['lines_against_counters']['value']:+.2f}%"]


def _by_position(figures: Figures, k: int) -> Iterator[list[str]]:
    yield ["share through", *(_percent(figures[f"share_through_{n}"]) for n in range(1, k + 1)), "of all drafts"]
    yield ["chance", *(_percent(figures[f"chance_{n}"]) for n in range(1, k + 1)), "of those accepted so far"]
    lengths = [figures[f"tokens_per_step_at_{n}"] for n in range(1, k)] + [figures["tokens_per_step"]]
    yield ["tokens per step", *map(_real, lengths), POLICY]


def _rows_of_many(sources: Sequence[Mapping[str, Any]], below: str) -> list[list[str]]:
    rows = [["source", *HEADINGS]]
    for source in sources:
        name = source["source"].removeprefix(below)
        figures: Figures = source["figures"]
        k = int(figures["k"]["value"] or 0)
        rows.append(
            [
                name if source["model"] is None else f"{name} {source['model']}",
                _count(figures["k"]),
                _count(figures["drafts"]),
                _percent(figures["accepted_over_drafted"]),
                " ".join(_percent(figures[f"chance_{n}"]) for n in range(1, k + 1)),
                _real(figures["tokens_per_step"]),
                f"{_count(figures['qualifying'])} of {_count(figures['intervals'])}",
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
    return f"{_percent(figures['p10'])} to {_percent(figures['p90'])}" if known else UNKNOWN


def _reasons(figures: Figures) -> Iterator[str]:
    """Why figures are unknown, each reason once."""
    reasons: dict[str, list[str]] = {}
    for name, figure in figures.items():
        if (
            figure["value"] is None
            and figure["unknown"]
            and name not in {"lines_against_counters", "hours", "restarts", "seconds"}
        ):
            reasons.setdefault(figure["unknown"], []).append(name.replace("_", " "))
    for reason, names in reasons.items():
        shown = names if len(names) <= MOST_BLOCKS else [*names[:MOST_BLOCKS], "..."]
        yield f"unknown: {', '.join(shown)}: {reason}"


def _count(figure: Mapping[str, Any]) -> str:
    return UNKNOWN if figure["value"] is None else f"{figure['value']:,.0f}"


def _real(figure: Mapping[str, Any]) -> str:
    return UNKNOWN if figure["value"] is None else f"{figure['value']:.2f}"


def _percent(figure: Mapping[str, Any]) -> str:
    return UNKNOWN if figure["value"] is None else f"{100 * figure['value']:.1f}%"


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
