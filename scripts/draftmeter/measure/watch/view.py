"""What a watch shows: a live panel in a terminal, a plain line now and then elsewhere."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from draftmeter.formats.counters import Counters
from draftmeter.measure.watch.durations import show_duration
from draftmeter.measure.watch.totals import Totals

PLAIN_EVERY_S = 60.0
BARS = "▁▂▃▄▅▆▇█"
UNKNOWN = "–"
# A terminal prints ^C behind the panel; without room for it the line would wrap, and the panel be drawn one line too low.
ECHO_COLUMNS = 4


@dataclass(frozen=True)
class Formulas:
    """Ratios from counts, given by the caller, for measuring knows no statistics; null where a ratio does not exist."""

    acceptance: Callable[[Counters], float | None]
    chances: Callable[[Counters], Sequence[float | None]]
    tokens_per_step: Callable[[Counters], float | None]


@dataclass
class Status:
    """What the view shows besides the counts. Times are Unix seconds."""

    url: str
    record: str
    every_s: float
    started: float
    ends: float | None
    engine: str = ""
    """Model, K and version of the engine in one phrase."""
    scrapes: int = 0
    failed: int = 0
    skipped: int = 0
    lines: int | None = None
    """Statistics lines stored; null if no log is followed."""
    error: str | None = None
    """Why the last scrape failed; null if it did not."""


class View(Protocol):
    """Something that shows a watch."""

    def show(self, status: Status, totals: Totals, *, last: bool = False) -> None:
        """Show how things stand now; `last`: nothing comes after it."""

    def say(self, sentence: str) -> None:
        """Show a sentence that stays."""


@contextmanager
def shown(console: Console, formulas: Formulas) -> Iterator[View]:
    """For the time of the block: a panel in a terminal, plain lines anywhere else. Nothing that it does ends a watch."""
    if not console.is_terminal:
        yield Surviving(PlainLines(console, formulas), console)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield Surviving(LivePanel(live, formulas), console)


class Surviving:
    """A view whose terminal or pipe may go away: the record matters more, so that nothing is shown from then on."""

    def __init__(self, view: View, console: Console) -> None:
        self._view = view
        self._console = console

    def show(self, status: Status, totals: Totals, *, last: bool = False) -> None:
        """Show how things stand now."""
        with self._surviving():
            self._view.show(status, totals, last=last)

    def say(self, sentence: str) -> None:
        """Show a sentence that stays."""
        with self._surviving():
            self._view.say(sentence)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            # Whatever else would be written, the interpreter's own last flush included, goes nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._console.file.fileno())
            os.close(nowhere)


class PlainLines:
    """One line at the beginning, one a minute (or every scrape if these are slower), and one at the end."""

    def __init__(self, console: Console, formulas: Formulas) -> None:
        self._console = console
        self._formulas = formulas
        self._last: float | None = None

    def show(self, status: Status, totals: Totals, *, last: bool = False) -> None:
        """A line, if it is time for one."""
        now = time.monotonic()
        if self._last is None:
            self.say(f"watching {status.url}, a scrape every {status.every_s:g} s; record: {status.record}")
        elif not last and now - self._last < PLAIN_EVERY_S - status.every_s / 2:
            return
        else:
            self.say(plain_line(status, totals, self._formulas, time.time()))
        self._last = now

    def say(self, sentence: str) -> None:
        """A line with its time."""
        self._console.file.write(f"{time.strftime('%H:%M:%S')} {sentence}\n")
        self._console.file.flush()


class LivePanel:
    """A panel that is drawn anew in place."""

    def __init__(self, live: Live, formulas: Formulas) -> None:
        self._live = live
        self._formulas = formulas

    def show(self, status: Status, totals: Totals, *, last: bool = False) -> None:  # noqa: ARG002  the panel stays anyway
        """Draw the panel."""
        drawn = panel(status, totals, self._formulas, time.time())
        drawn.width = max(self._live.console.width - ECHO_COLUMNS, 1)
        self._live.update(drawn, refresh=True)

    def say(self, sentence: str) -> None:
        """A line above the panel."""
        self._live.console.print(Text(f"{time.strftime('%H:%M:%S')} {sentence}"))


def plain_line(status: Status, totals: Totals, formulas: Formulas, now: float) -> str:
    """The figures of this session in one line."""
    counted = totals.counted
    chances = " ".join(_number(chance, 3) for chance in formulas.chances(counted)) or UNKNOWN
    parts = [
        f"accepted {_percent(formulas.acceptance(counted))}",
        f"chance by position {chances}",
        f"tokens per step {_number(formulas.tokens_per_step(counted), 2)}",
        f"running {_count(totals.running)}",
        _scrapes(status),
        f"restarts {totals.restarts}",
    ]
    if status.lines is not None:
        parts.append(f"log lines {status.lines}")
    parts.append(_time_left(status, now))
    if status.error is not None:
        parts.append(f"no answer now: {status.error}")
    return ", ".join(parts)


def panel(status: Status, totals: Totals, formulas: Formulas, now: float) -> Panel:
    """The figures of this session, and the last minutes of acceptance as a sparkline."""
    counted = totals.counted
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("accepted", f"[bold]{_percent(formulas.acceptance(counted))}[/] of {_count(counted.draft_tokens)} draft tokens")
    chances = "   ".join(f"{k}: {_number(chance, 3)}" for k, chance in enumerate(formulas.chances(counted), start=1))
    table.add_row("chance by position", chances or UNKNOWN)
    table.add_row(
        "tokens per step", f"[bold]{_number(formulas.tokens_per_step(counted), 3)}[/] in {_count(counted.drafts)} drafts"
    )
    table.add_row("requests", f"running {_count(totals.running)}   waiting {_count(totals.waiting)}")
    ratios = [formulas.acceptance(bucket) for bucket in totals.recent(now)]
    table.add_row(f"last {totals.recent_s / 60:g} minutes", _sparkline(ratios))
    table.add_row("scrapes", f"{_scrapes(status, word='')}   restarts of the server: {totals.restarts}")
    if status.lines is not None:
        table.add_row("log", f"{status.lines:,} statistics lines")
    table.add_row("time", _time_left(status, now))
    parts: list[Table | Text] = [table]
    if status.error is not None:
        parts.append(Text(f"no answer now: {status.error}", style="bold red"))
    title = Text(f"{status.url}  {status.engine}".rstrip())
    return Panel(Group(*parts), title=title, subtitle=Text(f"record: {status.record}"), title_align="left", subtitle_align="left")


def _sparkline(ratios: Sequence[float | None]) -> str:
    """One character a part of time, between the lowest and the highest; a space where nothing was drafted."""
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return UNKNOWN
    low, high = min(known), max(known)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    bars = "".join(" " if ratio is None else BARS[round((ratio - low) * scale)] for ratio in ratios)
    return f"{_percent(low)} {bars.lstrip()} {_percent(high)}" if high > low else f"{bars.lstrip()} {_percent(low)}"


def _scrapes(status: Status, word: str = "scrapes ") -> str:
    skipped = f", {status.skipped} skipped" if status.skipped else ""
    return f"{word}{status.scrapes:,} ok, {status.failed:,} failed{skipped}"


def _time_left(status: Status, now: float) -> str:
    watched = f"{show_duration(now - status.started)} watched"
    return watched if status.ends is None else f"{watched}, {show_duration(max(status.ends - now, 0))} left"


def _percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{100 * ratio:.1f}%"


def _number(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"
