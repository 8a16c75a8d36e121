"""What one engine of a server has counted: sums over engines and over lives, rises, and what fell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

ALL = "all"
SAME_START_S = 1.0
"""Starts that differ by no more are one: the process and its counters do not begin at one moment."""


class EngineKey(NamedTuple):
    """Who counted: `model` and `engine` as labelled ("" without such a label).

    `replica` holds the other labels, "" if there are none. Replicas are servers of their own within
    one text: those of Ray, or of a text that was joined from several.
    """

    model: str
    engine: str
    replica: str

    @property
    def label(self) -> str:
        """The engine as tables name it: its number, and the replica if there is one."""
        return f"{self.engine} {self.replica}".strip()

    def spoken(self, *, with_model: bool) -> str:
        """The engine as sentences name it."""
        return f"engine {self.label or 'without a number'}" + (f" (model {self.model})" if with_model else "")


@dataclass(frozen=True, slots=True)
class Counters:
    """Whole numbers, since a start or between two scrapes; None: not shown, or not to be trusted.

    `accepted_per_position` has K entries: drafts of which at least k tokens were accepted, k = 1..K.
    `accepted` and `accepted_per_position` are the verifier's, before a reply is cut at its end;
    `generation_tokens` is what left the server. `requests_finished` counts every finish reason.
    """

    drafts: int | None = None
    draft_tokens: int | None = None
    accepted: int | None = None
    accepted_per_position: tuple[int, ...] | None = None
    generation_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    prefix_cache_queries: int | None = None
    requests_finished: int | None = None
    preemptions: int | None = None

    @property
    def k(self) -> int | None:
        """K: draft tokens per step; None without counters by position."""
        return len(self.accepted_per_position) if self.accepted_per_position else None

    @property
    def shares(self) -> tuple[float, ...] | None:
        """Share through k for k = 1..K; None without drafts or positions."""
        if not self.drafts or self.accepted_per_position is None:
            return None
        return tuple(count / self.drafts for count in self.accepted_per_position)


SPECULATION = ("drafts", "draft_tokens", "accepted")
SCALARS = tuple(one.name for one in fields(Counters) if one.name != "accepted_per_position")


@dataclass(frozen=True, slots=True)
class EngineReading:
    """One engine's counters since its start and its gauges of the moment.

    With the engine ``all`` it is a sum (KV usage: the mean). `start_time` is the start of its server
    process in Unix seconds, None where the text does not show it. `kv_cache_usage` is a fraction of 1.
    """

    key: EngineKey
    counters: Counters
    running: int | None = None
    waiting: int | None = None
    kv_cache_usage: float | None = None
    start_time: float | None = None
    created_by_counter: Mapping[str, float] = field(default_factory=dict, compare=False)
    """For each counter that shows it, when its first series was created, in Unix seconds.

    No part of what makes two readings equal: what is kept of a text shows fewer of these times.
    """

    @property
    def created(self) -> float | None:
        """The time from which the counters count: the earliest creation of any of them; None if unknown.

        A series may be created later than its server, when its labels first occur; none is earlier.
        """
        return min(self.created_by_counter.values(), default=None)

    @property
    def began(self) -> float | None:
        """What tells one life of a server from the next: the start of its process, else of its counters."""
        return self.created if self.start_time is None else self.start_time


def total(readings: Sequence[EngineReading]) -> EngineReading:
    """The sum over engines of one model; a value that one of them lacks is None, positions also if K differs."""
    first = readings[0]
    key = EngineKey(first.key.model, ALL, "")
    if len(readings) == 1:
        return replace(first, key=key)
    usage = [reading.kv_cache_usage for reading in readings if reading.kv_cache_usage is not None]
    alike = len({reading.start_time for reading in readings}) == 1
    return EngineReading(
        key=key,
        counters=add_up([reading.counters for reading in readings]),
        running=add_up_known(reading.running for reading in readings),
        waiting=add_up_known(reading.waiting for reading in readings),
        kv_cache_usage=sum(usage) / len(usage) if len(usage) == len(readings) else None,
        start_time=first.start_time if alike else None,
        created_by_counter=_created_alike(readings),
    )


def _created_alike(readings: Sequence[EngineReading]) -> dict[str, float]:
    """The creation of each counter that all engines show, where they began together."""
    shared = [name for name in readings[0].created_by_counter if all(name in one.created_by_counter for one in readings)]
    times = {name: [one.created_by_counter[name] for one in readings] for name in shared}
    return {name: min(each) for name, each in times.items() if max(each) - min(each) <= SAME_START_S}


def add_up(counters: Sequence[Counters]) -> Counters:
    """The sum of each count; None where one is None, positions also if K differs or there is nothing to add."""
    return Counters(
        accepted_per_position=_sum_positions(counters),
        **{name: add_up_known(getattr(one, name) for one in counters) for name in SCALARS},
    )


def add_up_lives(increases: Sequence[Counters]) -> Counters:
    """The sum over lives of one server, of which some may have run without speculation: those add no drafts.

    Any other count that a life lacks makes the sum None. Positions are None if K differs between
    lives that drafted, or one of them lacks positions.
    """
    sums: dict[str, int | None] = {}
    for name in SCALARS:
        values = [getattr(increase, name) for increase in increases]
        known = [value for value in values if value is not None]
        sums[name] = sum(known) if known and (name in SPECULATION or len(known) == len(values)) else None
    drafted = [increase for increase in increases if increase.drafts]
    return Counters(
        accepted_per_position=_sum_positions(drafted or [one for one in increases if one.drafts is not None][:1]), **sums
    )


def add_up_known(values: Iterable[int | None]) -> int | None:
    """The sum, or None if one is None."""
    result = 0
    for value in values:
        if value is None:
            return None
        result += value
    return result


def rise(before: Counters, after: Counters, *, unshown: int | None = 0) -> Counters:
    """After minus before; a count that was not shown before was `unshown`: None makes its rise None.

    0 is right within a series: Ray shows a counter only from its first count on. K must not fall.
    """
    new, old = after.accepted_per_position, before.accepted_per_position
    positions = new
    if new is not None and old is not None:
        positions = tuple(count - was for count, was in zip(new, old + (0,) * (len(new) - len(old)), strict=True))
    elif unshown is None and before.drafts != 0:
        positions = None
    changes: dict[str, int | None] = {}
    for name in SCALARS:
        count, was = getattr(after, name), getattr(before, name)
        was = unshown if was is None else was
        changes[name] = None if count is None or was is None else count - was
    return Counters(accepted_per_position=positions, **changes)


def fallen(before: Counters, after: Counters) -> list[str]:
    """The names of the counts that are lower in `after` (positions: ``accepted_1`` ...); those not in both are left out."""
    scalars = [
        name
        for name in SCALARS
        if (old := getattr(before, name)) is not None and (new := getattr(after, name)) is not None and new < old
    ]
    positions = zip(before.accepted_per_position or (), after.accepted_per_position or (), strict=False)
    return scalars + [f"accepted_{k}" for k, (old, new) in enumerate(positions, start=1) if new < old]


def lacks(before: Counters, after: Counters) -> bool:
    """Whether a count or a position that was shown before is not shown after."""
    if len(before.accepted_per_position or ()) > len(after.accepted_per_position or ()):
        return True
    return any(getattr(before, name) is not None and getattr(after, name) is None for name in SCALARS)


def _sum_positions(counters: Sequence[Counters]) -> tuple[int, ...] | None:
    positions = [one.accepted_per_position for one in counters if one.accepted_per_position is not None]
    alike = len(positions) == len(counters) and len(set(map(len, positions))) == 1
    return tuple(map(sum, zip(*positions, strict=True))) if alike else None
