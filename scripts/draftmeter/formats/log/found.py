"""What a log turned out to be: where values come from, what cannot be known, and what is odd about it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from draftmeter.formats.log.gather import Gatherer
from draftmeter.formats.log.intervals import Batch, Settled
from draftmeter.formats.log.known import Known
from draftmeter.formats.log.wordings import APRIL_2025, CUMULATIVE, MARCH_2025

MOST_REFUSED = 1000


class RefusedEntry(TypedDict):
    """A place that looked like an entry and is not read: its byte in the (decompressed) file, and why."""

    offset: int
    reason: str


@dataclass(slots=True)
class LogFound:
    """What a log turned out to be. Each `..._from` says where the value beside it comes from.

    `wordings` counts the speculation lines by version family, `prefixes` all entries by what stood
    before them or happened to them; `cumulative` are lines of V0 engines, whose counts run since the
    server's start and are never summed. `refused` has the first 1000 of `refused_count`. `unknown`
    names what cannot be known, and why; a zone that had to be taken as UTC is in it.
    """

    format: str = "no statistics lines"
    wordings: dict[str, int] = field(default_factory=dict)
    prefixes: dict[str, int] = field(default_factory=dict)
    k: int | None = None
    k_from: str = ""
    intervals: int = 0
    engine_lines: int = 0
    processes: list[str] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)
    log_interval_s: float | None = None
    log_interval_from: str = ""
    zone: str = "+00:00"
    zone_from: str = ""
    year_from: str = ""
    cumulative: int = 0
    refused: list[RefusedEntry] = field(default_factory=list)
    refused_count: int = 0
    unknown: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """Numbers of intervals, summed over the batches."""

    rows: int = 0
    exact: int = 0
    estimated: int = 0
    without_drafts: int = 0
    at_exact: int = 0
    without_k: int = 0
    without_running: int = 0
    without_engine: int = 0
    without_process: int = 0
    without_time: int = 0
    without_window: int = 0
    contradictory: int = 0
    first_contradictory: int | None = None
    other_k: int = 0
    k: Counter[int] = field(default_factory=Counter)

    def add(self, batch: Batch, known: Known) -> None:
        """Add a batch."""
        table, inferred = batch.table, batch.inferred
        self.rows += table.num_rows
        self.exact += int(inferred.drafts_exact.sum())
        self.estimated += int((~inferred.drafts_exact & (inferred.drafts >= 0)).sum())
        self.without_drafts += int((inferred.drafts < 0).sum())
        self.at_exact += int(inferred.at_exact.sum())
        self.without_k += int((batch.k < 0).sum())
        self.without_running += table["running"].null_count
        self.without_engine += table["engine"].null_count
        self.without_process += table["process"].null_count
        self.without_time += table["end"].null_count
        self.without_window += table["window_s"].null_count
        self.k.update(batch.k[batch.k > 0].tolist())
        self.other_k += 0 if known.k is None else int(((batch.k > 0) & (batch.k != known.k)).sum())
        odd = np.flatnonzero(inferred.contradictory)
        self.contradictory += len(odd)
        if len(odd) and self.first_contradictory is None:
            self.first_contradictory = table["offset"][int(odd[0])].as_py()


def describe(found: LogFound, gatherer: Gatherer, known: Known, settled: Settled, tally: Tally) -> None:
    """Fill in what the whole file says."""
    found.intervals = tally.rows
    if tally.rows or found.engine_lines or found.cumulative:
        found.format = "vLLM log"
    found.processes = [name for name in dict.fromkeys(settled.processes) if name]
    found.engines = [engine for engine in settled.engines if engine]
    _describe_k(found, known, tally)
    _describe_window(found, known, settled)
    calendar = settled.calendar
    found.zone, found.zone_from, found.year_from = calendar.zone, calendar.zone_from, calendar.year_from
    _describe_unknown(found, settled, tally)
    found.warnings += calendar.problems
    found.warnings += _warnings(found, gatherer, known, tally)


def _describe_k(found: LogFound, known: Known, tally: Tally) -> None:
    if tally.k:
        found.k = tally.k.most_common(1)[0][0]
        if known.k == found.k and not tally.other_k:
            found.k_from = "given, and the number of positions in the lines"
        elif len(tally.k) > 1:
            found.k_from = "the number of positions in most lines; others have " + ", ".join(
                str(k) for k in sorted(tally.k) if k != found.k
            )
        else:
            found.k_from = "the number of positions in the lines"
        if known.k is not None and set(found.wordings) <= {APRIL_2025, MARCH_2025, CUMULATIVE}:
            found.k_from = "given; the lines do not show it"
    else:
        found.k, found.k_from = known.k, "nothing shows it" if known.k is None else "given; the lines do not show it"


def _describe_window(found: LogFound, known: Known, settled: Settled) -> None:
    seconds = settled.windows[np.isfinite(settled.windows)]
    if known.log_interval_s is not None:
        found.log_interval_s, found.log_interval_from = known.log_interval_s, "given"
    elif len(seconds):
        values, counts = np.unique(seconds, return_counts=True)
        found.log_interval_s = float(values[counts.argmax()])
        found.log_interval_from = "the usual spacing of the lines of a process"
        if len(values) > 1:
            found.log_interval_from += "; it differs between the processes"
    else:
        found.log_interval_from = "nothing shows it: no two spacings between the lines of a process agree"


def _describe_unknown(found: LogFound, settled: Settled, tally: Tally) -> None:
    if found.zone_from.startswith("nothing"):
        found.unknown["zone"] = "the lines do not name their time zone; their times are read as UTC"
    if settled.calendar.first_year is None and tally.rows:
        found.unknown["year"] = f"{found.year_from}: start and end of the intervals are null"
    rows = tally.rows
    if not rows:
        return
    parts = []
    if tally.estimated:
        parts.append(
            f"of {rows} intervals, {tally.exact} have drafts that every printed ratio confirms (Drafted / K); {tally.estimated} "
            "have them estimated, from accepted / (mean - 1) to the rounding of the mean, or as Drafted / K"
        )
    if tally.without_drafts:
        parts.append(f"{tally.without_drafts} of {rows} intervals do not show their drafts")
    if parts:
        found.unknown["drafts"] = "; ".join(parts)
    if tally.at_exact < rows:
        found.unknown["accepted by position"] = (
            f"{rows - tally.at_exact} of {rows} intervals give it only to the rounding of the printed rates, or not at all"
        )
    reasons = {
        "k": (tally.without_k, "show no rates by position, and K was not given"),
        "running requests": (tally.without_running, "have no Engine line beside them"),
        "engine": (tally.without_engine, "have no Engine line with a number beside them"),
        "process": (tally.without_process, "do not name the process that printed them"),
        "window lengths": (tally.without_window, f"have no known log interval ({found.log_interval_from})"),
        "times": (tally.without_time if settled.calendar.first_year is not None else 0, "show no time of a known day"),
    }
    for name, (count, reason) in reasons.items():
        if count:
            found.unknown[name] = f"{count} of {rows} intervals {reason}"


def _warnings(found: LogFound, gatherer: Gatherer, known: Known, tally: Tally) -> list[str]:
    warnings = []
    matching = gatherer.matching
    if tally.contradictory:
        warnings.append(
            f"contradictory: in {tally.contradictory} lines (the first at byte {tally.first_contradictory}) the printed ratios "
            "do not follow from the printed counts; the counts are used"
        )
    if matching.backwards and tally.rows:
        warnings.append(
            f"time runs backwards {matching.backwards} times (the first at byte {matching.first_backwards}); "
            "the rows stay in file order"
        )
    names = gatherer.processes.texts()
    named = {names[code] for code in matching.processes} - {"\0"}
    if len(named) > 1:
        warnings.append(f"several servers or API servers in one file: {len(named)} processes print statistics")
    for code, process in list(matching.processes.items())[:20]:
        if process.waiting and process.lines[False]:
            who = names[code].partition("\0")[2] or "the log"
            warnings.append(
                f"the last window is missing: {who} ends with an Engine line of a server that generated, "
                "without its speculation line"
            )
    if found.refused_count:
        warnings.append(f"{found.refused_count} places look like statistics lines and were refused")
    if found.cumulative:
        warnings.append(
            f"{found.cumulative} statistics lines of a V0 engine count since the server's start; "
            "they are recognised and never summed"
        )
    if tally.other_k:
        warnings.append(f"{tally.other_k} lines show another K than the given {known.k}; each line's own is used")
    return warnings
