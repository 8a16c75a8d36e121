"""What one engine of a server has counted, and the sum of several."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

ALL = "all"


class EngineKey(NamedTuple):
    """Who counted: `model` and `engine` as labelled ("" without such a label); `replica`, the other labels, "" if there are none.

    Replicas are servers of their own within one text: those of Ray, or of a text that was joined from several.
    """

    model: str
    engine: str
    replica: str

    @property
    def label(self) -> str:
        """The engine as tables name it: its number, and the replica if there is one."""
        return f"{self.engine} {self.replica}".strip()


@dataclass(frozen=True, slots=True)
class Counters:
    """Whole numbers, since a start or between two scrapes; null: not shown, or not to be trusted.

    `accepted_per_position` has K entries: drafts of which at least k tokens were accepted, k = 1..K.
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
        """K: draft tokens per step; null without counters by position."""
        return len(self.accepted_per_position) if self.accepted_per_position else None

    @property
    def shares(self) -> tuple[float, ...] | None:
        """Share through k for k = 1..K; null without drafts or positions."""
        if not self.drafts or self.accepted_per_position is None:
            return None
        return tuple(count / self.drafts for count in self.accepted_per_position)


SPECULATION = ("drafts", "draft_tokens", "accepted")
SCALARS = tuple(field.name for field in fields(Counters) if field.name != "accepted_per_position")


@dataclass(frozen=True, slots=True)
class EngineReading:
    """One engine's counters since its start and its gauges of the moment; with the engine ``all``, a sum (KV usage: the mean).

    `start_time` is the start of its server process, `created` the time from which its counters count, both in Unix
    seconds and null where the text does not show them. `kv_cache_usage` is a fraction of 1.
    """

    key: EngineKey
    counters: Counters
    running: int | None = None
    waiting: int | None = None
    kv_cache_usage: float | None = None
    start_time: float | None = None
    created: float | None = None

    @property
    def began(self) -> float | None:
        """What tells one life of a server process from the next: the start of the process, else of its counters."""
        return self.created if self.start_time is None else self.start_time


def total(readings: Sequence[EngineReading]) -> EngineReading:
    """The sum over engines of one model; a value that one of them lacks is null, and positions also if K differs."""
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
    )


def add_up(counters: Sequence[Counters]) -> Counters:
    """The sum of each count; null where one is null, positions also if K differs or there is nothing to add."""
    positions = [one.accepted_per_position for one in counters if one.accepted_per_position is not None]
    alike = len(positions) == len(counters) and len({len(one) for one in positions}) == 1
    return Counters(
        accepted_per_position=tuple(map(sum, zip(*positions, strict=True))) if alike else None,
        **{name: add_up_known(getattr(one, name) for one in counters) for name in SCALARS},
    )


def add_up_known(values: Iterable[int | None]) -> int | None:
    """The sum, or null if one is null."""
    result = 0
    for value in values:
        if value is None:
            return None
        result += value
    return result
