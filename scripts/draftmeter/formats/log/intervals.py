"""Raw batches to the interval table: what needed the whole file is settled here."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from draftmeter.formats.log.clock import Calendar
from draftmeter.formats.log.gather import RawBatch
from draftmeter.formats.log.recovered import ABSENT, Floats, Inferred, Ints, PrintedLines, infer
from draftmeter.formats.log.wordings import APRIL_2025, MARCH_2025, RATES_CUT, RATES_LAST, THROUGHPUTS

_BEFORE_POSITIONS = (
    ("offset", pa.int64()),
    ("process", pa.string()),
    ("engine", pa.string()),
    ("start", pa.float64()),
    ("end", pa.float64()),
    ("window_s", pa.float64()),
    ("since_last_line_s", pa.float64()),
    ("k", pa.int64()),
    ("drafts", pa.int64()),
    ("drafts_exact", pa.bool_()),
    ("drafted", pa.int64()),
    ("accepted", pa.int64()),
)
_AFTER_POSITIONS = (
    ("accepted_k_exact", pa.bool_()),
    ("running", pa.int64()),
    ("waiting", pa.int64()),
    ("prompt_tokens_per_s", pa.float64()),
    ("generation_tokens_per_s", pa.float64()),
    ("kv_cache_usage", pa.float64()),
    ("prefix_cache_hit_rate", pa.float64()),
    ("wording", pa.string()),
    ("extra", pa.string()),
)


@dataclass(frozen=True, slots=True)
class Settled:
    """What the whole file says: texts and numbers by the codes of the raw batches.

    `windows` are seconds by process (nan: unknown); `shown_k` counts how many whole speculation lines of a process show so many
    positions; `known_k` is the user's K; `positions` the width of the table.
    """

    calendar: Calendar
    processes: Sequence[str]
    engines: Sequence[str]
    wordings: Sequence[str]
    windows: Floats
    shown_k: Mapping[int, Mapping[int, int]]
    known_k: int | None
    positions: int

    def usual(self, raw: RawBatch) -> Ints:
        """The K of each line's process if all its whole lines have the same, else the user's; ABSENT without either."""
        given = self.known_k or ABSENT
        shown = [self.shown_k.get(code, {}) for code in range(len(self.processes))]
        by_process = np.array([next(iter(ks)) if len(ks) == 1 else given for ks in shown], np.int64)
        # The first versions print no rates, so the K of other versions in the same file says nothing about theirs.
        without = [code for code, wording in enumerate(self.wordings) if wording in (APRIL_2025, MARCH_2025)]
        return np.where(np.isin(raw.speculation["wording"], without), given, by_process[raw.speculation["process"]])


def schema(positions: int) -> pa.Schema:
    """The interval table's columns with accepted_1 ... accepted_K for this K."""
    accepted = [(f"accepted_{position}", pa.int64()) for position in range(1, positions + 1)]
    return pa.schema([*_BEFORE_POSITIONS, *accepted, *_AFTER_POSITIONS])


@dataclass(frozen=True, slots=True)
class Batch:
    """A piece of the interval table, and which of its rows are contradictory."""

    table: pa.Table
    inferred: Inferred
    k: Ints


def make_batch(raw: RawBatch, settled: Settled) -> Batch:
    """The interval rows of a raw batch."""
    speculation, engine = raw.speculation, raw.engine
    lines = _lines(raw, settled)
    inferred = infer(lines)
    lines, inferred = _doubt_last_rates(raw, settled, lines, inferred)
    end = settled.calendar.unix(raw.stamps, raw.years)
    window = settled.windows[speculation["process"]]
    with np.errstate(divide="ignore", invalid="ignore"):
        since = speculation["drafted"] / np.where(speculation["drafted_speed"] > 0, speculation["drafted_speed"], np.nan)
    accepted = {f"accepted_{position + 1}": _counts(inferred.at[:, position]) for position in range(settled.positions)}
    values = accepted | {
        "offset": pa.array(speculation["offset"]),
        "process": _texts(settled.processes, speculation["process"]),
        "engine": _texts(settled.engines, engine["engine"]),
        "start": _reals(end - window),
        "end": _reals(end),
        "window_s": _reals(window),
        "since_last_line_s": _reals(since),
        "k": _counts(lines.k),
        "drafts": _counts(inferred.drafts),
        "drafts_exact": pa.array(inferred.drafts_exact),
        "drafted": pa.array(speculation["drafted"]),
        "accepted": pa.array(speculation["accepted"]),
        "accepted_k_exact": pa.array(inferred.at_exact),
        "running": _counts(engine["running"]),
        "waiting": _counts(engine["waiting"]),
        "prompt_tokens_per_s": _reals(engine["prompt_speed"]),
        "generation_tokens_per_s": _reals(engine["generation_speed"]),
        "kv_cache_usage": _reals(np.round(engine["kv_usage"] / 100, 9)),
        "prefix_cache_hit_rate": _reals(np.round(engine["prefix_hits"] / 100, 9)),
        "wording": _texts(settled.wordings, speculation["wording"]),
        "extra": pa.array([extra or None for extra in raw.extra], pa.string()),
    }
    layout = schema(settled.positions)
    return Batch(pa.table([values[field.name] for field in layout], schema=layout), inferred, lines.k)


def _lines(raw: RawBatch, settled: Settled) -> PrintedLines:
    rates = np.full((len(raw.speculation["offset"]), settled.positions), ABSENT, np.int64)
    rates[np.arange(settled.positions) < raw.n_rates[:, None]] = raw.rates
    usual = settled.usual(raw)
    whole = (raw.n_rates > 0) & (raw.speculation["rates_end"] != RATES_CUT)
    k = np.where(whole, raw.n_rates, np.where(raw.n_rates <= usual, usual, ABSENT))
    return PrintedLines(
        drafted=raw.speculation["drafted"],
        accepted=raw.speculation["accepted"],
        mean=raw.speculation["mean"],
        rates=rates,
        share=raw.speculation["share"],
        accepted_speed=raw.speculation["accepted_speed"],
        drafted_speed=raw.speculation["drafted_speed"],
        k=k,
        whole=whole,
        with_bonus=np.isin(
            raw.speculation["wording"], [code for code, wording in enumerate(settled.wordings) if wording == THROUGHPUTS]
        ),
    )


def _doubt_last_rates(raw: RawBatch, settled: Settled, lines: PrintedLines, inferred: Inferred) -> tuple[PrintedLines, Inferred]:
    """Rates that end a line may have lost some. They are all if the counts confirm it, or if other lines of the process
    have as many and (at the end of the file) none has another number."""
    speculation, usual = raw.speculation, settled.usual(raw)
    # Where nothing was accepted, rates of 0 agree with any number of positions.
    doubtful = (speculation["rates_end"] == RATES_LAST) & ~(inferred.drafts_exact & (lines.accepted > 0))
    if not doubtful.any():
        return lines, inferred
    processes_and_ks = zip(speculation["process"].tolist(), lines.k.tolist(), strict=True)
    others = np.array([settled.shown_k.get(process, {}).get(k, 0) >= 2 for process, k in processes_and_ks])
    missing = inferred.contradictory & (lines.mean - 100 > np.maximum(lines.rates, 0).sum(axis=1) / 10)
    doubtful &= (lines.k < usual) | ~others | missing | (speculation["last"] & (lines.k != usual))
    k = np.where(doubtful, np.where(lines.k < usual, usual, ABSENT), lines.k)
    lines = dataclasses.replace(lines, k=k, whole=lines.whole & ~doubtful)
    return lines, infer(lines)


def _counts(values: Ints) -> pa.Array:
    return pa.array(values, mask=values < 0)


def _reals(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _texts(texts: Sequence[str], codes: Ints) -> pa.Array:
    """The texts of these codes; null for an empty one."""
    return pa.array([text or None for text in texts], pa.string()).take(pa.array(codes))
