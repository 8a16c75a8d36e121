"""Several sources as one: their counts added up, but only where no draft can count twice and all have one K."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from draftmeter.analyse.headline import Counts, FloatArray, Lines


@dataclass(frozen=True)
class Part:
    """One source of a pool. `start` and `end` (Unix seconds, null where unknown) bound what its counts cover.

    `since_start`: the counts are all since the server's start, at `start`, up to a moment that is unknown.
    """

    name: str
    model: str | None
    counts: Counts
    lines: Lines | None
    start: float | None
    end: float | None
    since_start: bool
    start_time: float | None


def pooled(parts: Sequence[Part]) -> tuple[Counts, Lines | None] | str:
    """The counts of several sources added up, with all intervals; or, as a sentence, why that would mean nothing."""
    ks = sorted({part.counts.k for part in parts if part.counts.k is not None})
    if len(ks) > 1:
        return f"not pooled: the sources have K = {', '.join(map(str, ks))}, and acceptance is pooled over one K only"
    if len({part.counts.counted_by for part in parts}) > 1:
        return "not pooled: some sources are counted by counters and others by log lines, which may be of the same drafts"
    twice = next(_counted_twice(parts), None)
    if twice is not None:
        return f"not pooled: {twice}"
    return _sum([part.counts for part in parts], ks[0] if ks else None), _joined(parts)


def _counted_twice(parts: Sequence[Part]) -> Iterator[str]:
    for one, other in combinations(parts, 2):
        names = f"{one.name} and {other.name}"
        if one.model != other.model:
            continue
        if one.counts.counted_by == "lines":
            if one.lines is not None and other.lines is not None and _alike(one.lines, other.lines):
                yield f"{names} hold the same intervals"
        elif one.since_start or other.since_start:
            if one.start_time is None or other.start_time is None:
                yield f"{names} may be of one server, whose drafts would count twice: the counters do not show their start"
            elif one.start_time == other.start_time:
                yield f"{names} are of one server process, and the counts of the earlier one are part of the later one's"
        elif one.start_time is not None and one.start_time == other.start_time and _overlap(one, other):
            yield f"{names} are of one server process at the same time"


def _alike(one: Lines, other: Lines) -> bool:
    return len(one.drafted) > 0 and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("drafted", "accepted")
    )


def _overlap(one: Part, other: Part) -> bool:
    if one.start is None or one.end is None or other.start is None or other.end is None:
        return True
    return max(one.start, other.start) < min(one.end, other.end)


def _sum(parts: Sequence[Counts], k: int | None) -> Counts:
    unknown = {name: reason for part in parts for name, reason in part.unknown.items()}

    def total(name: str) -> float | None:
        values = [getattr(part, name) for part in parts]
        if any(value is None for value in values):
            unknown.setdefault(name, "a source does not show it")
            return None
        return float(sum(values))

    positions = [part.accepted_at for part in parts if part.accepted_at is not None]
    if len(positions) < len(parts):
        unknown.setdefault("accepted_at", "a source does not show acceptance by position")
    restarts = total("restarts")
    return Counts(
        counted_by=parts[0].counted_by,
        k=k,
        drafts=total("drafts"),
        draft_tokens=total("draft_tokens"),
        accepted=total("accepted"),
        accepted_of_drafts=total("accepted_of_drafts"),
        accepted_at=tuple(map(sum, zip(*positions, strict=True))) if len(positions) == len(parts) else None,
        generation_tokens=total("generation_tokens"),
        requests_finished=total("requests_finished"),
        seconds=total("seconds"),
        restarts=None if restarts is None else int(restarts),
        unknown=unknown,
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _joined(parts: Sequence[Part]) -> Lines | None:
    lines = [part.lines for part in parts if part.lines is not None]
    if not lines:
        return None
    k = max(one.accepted_at.shape[1] for one in lines)
    return Lines(
        drafts=np.concatenate([one.drafts for one in lines]),
        exact=np.concatenate([one.exact for one in lines]),
        drafted=np.concatenate([one.drafted for one in lines]),
        accepted=np.concatenate([one.accepted for one in lines]),
        accepted_at=np.concatenate([_widened(one.accepted_at, k) for one in lines]),
        window_s=np.concatenate([one.window_s for one in lines]),
        counters=all(one.counters for one in lines),
    )


def _widened(accepted_at: FloatArray, k: int) -> FloatArray:
    lacking = np.full((len(accepted_at), k - accepted_at.shape[1]), np.nan)
    return np.hstack([accepted_at, lacking])
