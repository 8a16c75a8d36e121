"""Counts of a server's drafts, from counters or from intervals, of one source or of several.

The rules for intervals of a log that do not show everything stand here once, and so do the guards
against counting a draft twice. A count that cannot be known is None, with its reason; a missing
count is never a zero.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from draftmeter.stats.acceptance import CountsError, accepted_over_drafted, chance_at, tokens_per_step

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SOURCES = {"counters": "server counters", "lines": "sums of log lines"}
COUNTED = ("drafts", "draft_tokens", "accepted", "generation_tokens", "prompt_tokens", "requests_finished")
# More values of K in a row than this are not told one by one.
MOST_CHANGES = 4
# What a log does not show, whatever the version of the server.
NOT_IN_LOG = dict.fromkeys(("generation_tokens", "prompt_tokens", "requests_finished", "restarts"), "log lines do not show it")
NO_DRAFTS = "no interval shows its drafts"
NO_POSITIONS = "no interval shows its acceptance by position"
NO_K = "no interval shows how many tokens a draft holds"
_WORDS = {
    "accepted": "accepted tokens",
    "accepted_of_drafts": "accepted tokens",
    "drafted_of_drafts": "draft tokens",
    "accepted_at": "acceptance by position",
    "generation_tokens": "generated tokens",
    "requests_finished": "finished requests",
    "k": "how many tokens a draft holds",
    "seconds": "the time that it covers",
}


class Unknown(Exception):
    """A quantity cannot be known; the message is the reason."""


@dataclass(frozen=True)
class Counts:
    """What a server counted; a None is unknown, and `unknown` says why, by the field's name.

    `drafted_of_drafts` and `accepted_of_drafts` are the tokens of `drafts`: not all of
    `draft_tokens` and `accepted` where some intervals of a log do not show their drafts.
    `accepted_at` and `eligible_at` have K entries.
    """

    counted_by: Literal["counters", "lines"]
    """A log can miss intervals: sums over its lines are no counters."""
    k: int | None
    """Draft tokens per draft; None where it is unknown, or not the same for all drafts."""
    drafts: float | None
    draft_tokens: float | None
    accepted: float | None
    accepted_of_drafts: float | None
    accepted_at: tuple[float, ...] | None
    drafted_of_drafts: float | None = None
    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    requests_finished: float | None = None
    seconds: float | None = None
    restarts: int | None = None
    longest: int | None = None
    """The largest K where there are several; None where `k` says it."""
    eligible_at: tuple[float, ...] | None = None
    """Drafts that hold a token at 1..K with all before it accepted, where requests say it."""
    fell: str | None = None
    """Which counter fell, in words."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """What a reader must know of these counts."""
    records: int = 1
    detail: str = ""
    """What was left out or recovered, in words that follow the name of the source."""

    @property
    def source(self) -> str:
        """Where the counts come from, in words."""
        return SOURCES[self.counted_by] + self.detail

    def reason(self, name: str) -> str:
        """Why the field `name` is None."""
        return self.unknown.get(name, f"the source does not show {in_words(name)}")

    def need(self, name: str) -> float:
        """The count `name`; raise :class:`Unknown` where it is None."""
        value: float | None = getattr(self, name)
        if value is None:
            raise Unknown(self.reason(name))
        return float(value)

    def positions(self) -> FloatArray:
        """Drafts accepted through 1..K, shape (K,); raise :class:`Unknown` where they are None."""
        if self.accepted_at is None:
            raise Unknown(self.reason("accepted_at"))
        return np.array(self.accepted_at, dtype=np.float64)

    @cached_property
    def contradiction(self) -> str | None:
        """Why no server can have produced these counts; None where one can."""
        return "; ".join(dict.fromkeys(self._contradictions())) or None

    def _contradictions(self) -> Iterator[str]:
        if self.fell is not None:
            yield self.fell
            return
        found = {name: getattr(self, name) for name in COUNTED}
        negative = [f"{value:g} {in_words(name)}" for name, value in found.items() if (value or 0) < 0]
        if negative:
            yield f"found {', '.join(negative)}; counts cannot be negative"
            return
        checks: list[Callable[[], object]] = []
        if self.accepted is not None and self.draft_tokens is not None:
            checks.append(lambda: accepted_over_drafted(self.need("accepted"), self.need("draft_tokens")))
        if self.drafts is not None and self.accepted_of_drafts is not None:
            checks.append(lambda: tokens_per_step(self.need("drafts"), self.need("accepted_of_drafts")))
        if self.drafts is not None and self.accepted_at is not None:
            checks.append(lambda: chance_at(self.need("drafts"), self.positions()))
        for check in checks:
            try:
                check()
            except CountsError as error:
                yield str(error)

    @classmethod
    def none(cls, counted_by: Literal["counters", "lines"], k: int | None, records: int) -> "Counts":
        """Counts of which nothing is known."""
        return cls(counted_by, k, None, None, None, None, None, records=records)


@dataclass(frozen=True)
class IntervalSeries:
    """Intervals of one source in their order, shapes (n,) and (n, K); an unknown number is nan."""

    drafts: FloatArray
    drafted: FloatArray
    accepted: FloatArray
    accepted_at: FloatArray
    exact: BoolArray
    """Whether drafts and positions follow exactly, and are no estimates from rounded numbers."""
    window_s: FloatArray
    k: FloatArray
    counters: bool = False
    """Whether the intervals are differences of counters, and no log lines."""

    def __len__(self) -> int:
        """Number of intervals."""
        return len(self.drafted)

    @classmethod
    def of(cls, column: Callable[[str], FloatArray], k: int, *, counters: bool = False) -> "IntervalSeries":
        """From the columns of the table intervals, nan for null, with accepted_1..K for K = `k`.

        A server whose counters lack drafted or accepted tokens shows nothing that a quantity could
        be made of: such rows are left out.
        """
        drafted, accepted = column("drafted"), column("accepted")
        kept = np.isfinite(drafted) & np.isfinite(accepted)
        at = np.empty((len(drafted), k))
        for position in range(k):
            at[:, position] = column(f"accepted_{position + 1}")
        return cls(
            drafts=column("drafts")[kept],
            drafted=drafted[kept],
            accepted=accepted[kept],
            accepted_at=at[kept],
            exact=((column("drafts_exact") == 1) & (column("accepted_k_exact") == 1))[kept],
            window_s=column("window_s")[kept],
            k=column("k")[kept],
            counters=counters,
        )

    @property
    def ks(self) -> list[int]:
        """Every K in the order in which it came, one entry for each time that it changed."""
        known = self.k[np.isfinite(self.k)].astype(int)
        changed = np.diff(known, prepend=-1) != 0
        return [int(value) for value in known[changed]]


def by_draft(drafts: FloatArray, accepted_at: FloatArray, k: int) -> BoolArray:
    """Which of n intervals everything by draft is made of, shape (n,); `k` is their K, 0 for none.

    Those that show drafts and acceptance by position, of shapes (n,) and (n, K); where no interval
    shows both, those that show drafts. Drafts and shares must be of the same intervals: else a
    share would not be over the drafts beside it.
    """
    shown = np.isfinite(drafts)
    placed: BoolArray = shown & (k > 0) & np.isfinite(accepted_at[:, :k]).all(axis=1)
    return placed if placed.any() else shown


def in_words(name: str) -> str:
    """The field `name` of the counts as a reason calls it."""
    return _WORDS.get(name, name.replace("_", " "))


def counts_of_row(row: Mapping[str, Any], k: int | None, unknown: Mapping[str, str], *, name: str) -> Counts:
    """A row of the table counters of the source `name`, K = `k`; None or no column: unknown."""
    positions = [f"accepted_{position}" for position in range(1, (k or 0) + 1)]
    values = {column: None if row.get(column) is None else float(row[column]) for column in (*COUNTED, *positions)}
    found = {column: value for column, value in values.items() if value is not None}
    at = [found[column] for column in positions if column in found]
    fell = [f"counter {column} fell by {-value:g} during {name}" for column, value in found.items() if value < 0]
    return Counts(
        counted_by=row["counted_by"],
        k=k,
        drafts=values["drafts"],
        draft_tokens=values["draft_tokens"],
        accepted=values["accepted"],
        drafted_of_drafts=values["draft_tokens"],
        accepted_of_drafts=values["accepted"],
        accepted_at=tuple(at) if at and len(at) == k else None,
        generation_tokens=values["generation_tokens"],
        prompt_tokens=values["prompt_tokens"],
        requests_finished=values["requests_finished"],
        seconds=row.get("seconds"),
        restarts=row.get("restarts"),
        fell="; ".join(fell) or None,
        unknown=unknown,
    )


def counts_of_series(series: IntervalSeries, k: int | None, seconds: float | None) -> Counts:
    """What a log adds up to; `k` is K where its intervals do not show it.

    Accepted over drafted is over all intervals; everything by draft is over :func:`by_draft`. Over
    several K drafts, tokens and tokens per step still mean what they say; what is by position does
    not.
    """
    ks = series.ks
    several = len(set(ks)) > 1
    one = (ks[0] if ks else k) if not several else None
    used = by_draft(series.drafts, series.accepted_at, one or 0)
    some, n, hidden = bool(used.any()), len(series), int((~used).sum())
    at = series.accepted_at[used, : one or 0]
    placed = bool(one and some and np.isfinite(at).all())
    changed = f"K changed from {' to '.join(map(str, ks))}"
    if len(ks) > MOST_CHANGES:
        changed = f"the intervals have K = {', '.join(map(str, sorted(set(ks))))}, in turn"
    why_no_position = changed if several else NO_DRAFTS if not some else NO_K if not one else NO_POSITIONS
    estimated = int((used & ~series.exact).sum())
    notes, detail = [], ""
    if several:
        notes.append(f"{changed}: drafts, tokens and tokens per step are over all of them, and nothing is by position")
    if some and hidden:
        share = float(series.drafted[~used].sum() / series.drafted.sum())
        what = "their drafts" + ("" if np.isnan(series.drafts[~used]).all() else " or their acceptance by position")
        notes.append(
            f"{hidden} of {n} intervals, with {share:.2%} of the draft tokens, do not show {what}: they are left out of "
            "everything by draft or by position"
        )
        detail = f" ({hidden} of {n}, not showing it, left out of all that is by draft)"
    if some and estimated:
        notes.append(f"in {estimated} of {n} intervals, drafts or accepted tokens by position are estimates from rounded figures")
    unknown = dict.fromkeys(("drafts", "accepted_of_drafts", "drafted_of_drafts"), NO_DRAFTS)
    return Counts(
        counted_by="lines",
        k=one,
        longest=max(ks) if several else None,
        drafts=float(series.drafts[used].sum()) if some else None,
        draft_tokens=float(series.drafted.sum()),
        accepted=float(series.accepted.sum()),
        drafted_of_drafts=float(series.drafted[used].sum()) if some else None,
        accepted_of_drafts=float(series.accepted[used].sum()) if some else None,
        accepted_at=tuple(map(float, at.sum(axis=0))) if placed else None,
        seconds=seconds,
        unknown={**NOT_IN_LOG, **unknown, "accepted_at": why_no_position, "k": changed if several else NO_K},
        notes=notes,
        detail=detail + recovered(estimated),
    )


def recovered(count: int) -> str:
    """The words for so many lines whose counts do not follow exactly; empty for none."""
    return f" ({count} with counts recovered from rounded numbers)" if count else ""


@dataclass(frozen=True)
class Part:
    """One source of a pool. `start` and `end` (Unix seconds or None) bound what its counts cover.

    `since_start`: the counts are all since the server's start, at `start_time`, up to a moment that
    is unknown.
    """

    name: str
    model: str | None
    counts: Counts
    series: IntervalSeries | None
    start: float | None
    end: float | None
    since_start: bool
    start_time: float | None

    @classmethod
    def of_row(
        cls, name: str, row: Mapping[str, Any], counts: Counts, series: IntervalSeries | None, *, since_start: bool
    ) -> Self:
        """The source `name` with its row of the table counters, from which its times come."""
        start, began = row.get("start"), row.get("start_time")
        began = began or (start if since_start else None)
        return cls(name, row.get("model"), counts, series, start, row.get("end"), since_start, began)


def pooled(parts: Sequence[Part]) -> tuple[Counts, IntervalSeries | None] | str:
    """The sources (at least one) added up, with all intervals; or, in words, why they cannot be."""
    if len(parts) == 1:
        return parts[0].counts, parts[0].series
    reason = _why_not(parts)
    if reason is not None:
        return f"not pooled: {reason}"
    series = _joined([part.series for part in parts if part.series is not None])
    counts = [part.counts for part in parts]
    k = next((one.longest or one.k for one in counts if one.longest or one.k), None)
    if counts[0].counted_by == "lines" and series is not None:
        together = counts_of_series(series, k, _total([one.seconds for one in counts]))
        return replace(together, records=sum(one.records for one in counts)), series
    return _sum(counts, k), series


def _why_not(parts: Sequence[Part]) -> str | None:
    models = sorted({part.model for part in parts if part.model is not None})
    if len(models) > 1:
        return f"the sources are of the models {', '.join(models)}, and acceptance is pooled over one model only"
    ks = sorted({k for part in parts for k in (part.counts.longest, part.counts.k) if k is not None})
    if len(ks) > 1:
        return f"the sources have K = {', '.join(map(str, ks))}, and acceptance is pooled over one K only"
    if len({part.counts.counted_by for part in parts}) > 1:
        return "some sources are counted by counters and others by log lines, which may be of the same drafts"
    return next(_counted_twice(parts), None)


def _counted_twice(parts: Sequence[Part]) -> Iterator[str]:
    for one, other in combinations(parts, 2):
        names = f"{one.name} and {other.name}"
        if one.counts.counted_by == "lines":
            if one.series is not None and other.series is not None and _alike(one.series, other.series):
                yield f"{names} hold the same intervals"
        elif one.since_start or other.since_start:
            if one.start_time is None or other.start_time is None:
                yield f"{names} may be of one server, whose drafts would count twice: the counters do not show their start"
            elif one.start_time == other.start_time:
                yield f"{names} are of one server process, and the counts of the earlier one are part of the later one's"
        elif one.start_time is not None and one.start_time == other.start_time and _overlap(one, other):
            yield f"{names} are of one server process at the same time"


def _alike(one: IntervalSeries, other: IntervalSeries) -> bool:
    return len(one) > 0 and np.array_equal(one.drafted, other.drafted) and np.array_equal(one.accepted, other.accepted)


def _overlap(one: Part, other: Part) -> bool:
    if one.start is None or one.end is None or other.start is None or other.end is None:
        return True
    return max(one.start, other.start) < min(one.end, other.end)


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if len(known) == len(values) else None


def _sum(parts: Sequence[Counts], k: int | None) -> Counts:
    """Added up, and of each field that a part lacks the reason of the first such part."""
    names = (*COUNTED, "accepted_of_drafts", "drafted_of_drafts", "accepted_at", "seconds", "restarts", "k")
    unknown = {name: part.reason(name) for part in reversed(parts) for name in names if getattr(part, name) is None}

    def total(name: str) -> float | None:
        return _total([getattr(part, name) for part in parts])

    positions = [part.accepted_at for part in parts if part.accepted_at is not None]
    restarts, several = total("restarts"), any(part.longest is not None for part in parts)
    return Counts(
        counted_by=parts[0].counted_by,
        k=None if several else k,
        longest=k if several else None,
        drafts=total("drafts"),
        draft_tokens=total("draft_tokens"),
        accepted=total("accepted"),
        drafted_of_drafts=total("drafted_of_drafts"),
        accepted_of_drafts=total("accepted_of_drafts"),
        accepted_at=tuple(map(sum, zip(*positions, strict=True))) if len(positions) == len(parts) else None,
        generation_tokens=total("generation_tokens"),
        prompt_tokens=total("prompt_tokens"),
        requests_finished=total("requests_finished"),
        seconds=total("seconds"),
        restarts=None if restarts is None else int(restarts),
        fell=next((part.fell for part in parts if part.fell is not None), None),
        unknown=unknown,
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        records=sum(part.records for part in parts),
    )


def _joined(series: Sequence[IntervalSeries]) -> IntervalSeries | None:
    if not series:
        return None
    k = max(one.accepted_at.shape[1] for one in series)
    widened = [np.pad(one.accepted_at, ((0, 0), (0, k - one.accepted_at.shape[1])), constant_values=np.nan) for one in series]
    names = ("drafts", "drafted", "accepted", "exact", "window_s", "k")
    columns = {name: np.concatenate([getattr(one, name) for one in series]) for name in names}
    return IntervalSeries(**columns, accepted_at=np.concatenate(widened), counters=all(one.counters for one in series))
