"""How `draftmeter watch` shows a watch: a live panel in a terminal, a plain line now and then
elsewhere.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from draftmeter.formats.counters import Counters
from draftmeter.measure.watch.durations import show_duration
from draftmeter.measure.watch.status import Status, Totals, View
from draftmeter.stats.acceptance import CountsError, accepted_over_drafted, chance_at, tokens_per_step

PLAIN_EVERY_S = 60.0
BARS = "▁▂▃▄▅▆▇█"
UNKNOWN = "–"
# A terminal prints ^C behind the panel; without room for it the line would wrap, and the panel be
# drawn one line too low.
ECHO_COLUMNS = 4


@contextmanager
def shown(console: Console) -> Iterator[View]:
    """For the time of the block: a panel in a terminal, plain lines anywhere else. Nothing that it
    does ends a watch.
    """
    if not console.is_terminal:
        yield Surviving(PlainLines(console), console)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield Surviving(LivePanel(live), console)


class Surviving:
    """A view whose terminal or pipe may go away: the record matters more, so that nothing is shown
    from then on.
    """

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
            # Whatever else would be written, the interpreter's own last flush included, goes
            # nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._console.file.fileno())
            os.close(nowhere)


class PlainLines:
    """One line at the beginning, one a minute (or every scrape if these are slower), and one at the
    end.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: float | None = None

    def show(self, status: Status, totals: Totals, *, last: bool = False) -> None:
        """A line, if it is time for one."""
        now = time.monotonic()
        if self._last is None:
            self.say(f"watching {status.url}, a scrape every {status.every_s:g} s; record: {status.record}")
        elif not last and now - self._last < PLAIN_EVERY_S - status.every_s / 2:
            return
        else:
            self.say(plain_line(status, totals, time.time()))
        self._last = now

    def say(self, sentence: str) -> None:
        """A line with its time."""
        self._console.file.write(f"{time.strftime('%H:%M:%S')} {sentence}\n")
        self._console.file.flush()


class LivePanel:
    """A panel that is drawn anew in place."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, status: Status, totals: Totals, *, last: bool = False) -> None:  # noqa: ARG002  the panel stays anyway
        """Draw the panel."""
        drawn = panel(status, totals, time.time())
        drawn.width = max(self._live.console.width - ECHO_COLUMNS, 1)
        self._live.update(drawn, refresh=True)

    def say(self, sentence: str) -> None:
        """A line above the panel."""
        self._live.console.print(Text(f"{time.strftime('%H:%M:%S')} {sentence}"))


def plain_line(status: Status, totals: Totals, now: float) -> str:
    """The figures of this session in one line."""
    counted = totals.counted
    by_position = " ".join(_number(chance, 3) for chance in chances(counted)) or UNKNOWN
    parts = [
        f"accepted {_percent(acceptance(counted))}",
        f"chance by position {by_position}",
        f"tokens per step {_number(per_step(counted), 2)}",
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


def panel(status: Status, totals: Totals, now: float) -> Panel:
    """The figures of this session, and the last minutes of acceptance as a sparkline."""
    counted = totals.counted
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("accepted", f"[bold]{_percent(acceptance(counted))}[/] of {_count(counted.draft_tokens)} draft tokens")
    by_position = "   ".join(f"{k}: {_number(chance, 3)}" for k, chance in enumerate(chances(counted), start=1))
    table.add_row("chance by position", by_position or UNKNOWN)
    table.add_row("tokens per step", f"[bold]{_number(per_step(counted), 3)}[/] in {_count(counted.drafts)} drafts")
    table.add_row("requests", f"running {_count(totals.running)}   waiting {_count(totals.waiting)}")
    ratios = [acceptance(bucket) for bucket in totals.recent(now)]
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
    """One character a part of time, between the lowest and the highest; a space where nothing was
    drafted.
    """
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


def acceptance(counted: Counters) -> float | None:
    """Accepted over drafted tokens; None where one is not known, or where no server can have
    counted both.
    """
    if counted.accepted is None or counted.draft_tokens is None:
        return None
    try:
        return accepted_over_drafted(counted.accepted, counted.draft_tokens).value
    except CountsError:
        return None


def chances(counted: Counters) -> list[float | None]:
    """The chance at each position; none at all where the counts are not known, or no server can
    have counted them.
    """
    if counted.drafts is None or counted.accepted_per_position is None:
        return []
    try:
        return [ratio.value for ratio in chance_at(counted.drafts, counted.accepted_per_position)]
    except CountsError:
        return []


def per_step(counted: Counters) -> float | None:
    """Tokens per step of the verifier; None where a count is not known."""
    if counted.drafts is None or counted.accepted is None:
        return None
    return tokens_per_step(counted.drafts, counted.accepted).value
