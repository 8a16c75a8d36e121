"""Many scrapes of one server: what its counters gained over all of them, restarts included, and interval by interval.

Increases are added up as Prometheus' ``increase`` does it, but never extrapolated: after a restart all that the new
process counted is added. What the old one counted after its last scrape is unknown, and said to be.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from draftmeter.formats.counter_notes import notes_of
from draftmeter.formats.counters import ALL, Counters, EngineKey, EngineReading, add_up, total
from draftmeter.formats.exposition import Exposition
from draftmeter.formats.lifetimes import Counted, Life, Lifetimes, Restart, joined, rise

Row = dict[str, Any]
WORDING = "counters"
GAP_PACES = 1.5
SHORT_PACES = 0.5


@dataclass(frozen=True, slots=True)
class Part:
    """What one engine counted, or (engine ``all``) all engines of a model, between the scrapes at `start` and `end`.

    Times are Unix seconds. `restarts` counts those of its server; `start_time` is when the process that was seen last (or
    its counters) began, null where the scrapes do not show it or the engines differ.
    """

    model: str
    engine: str
    counters: Counters
    start: float
    end: float
    restarts: int
    start_time: float | None

    @property
    def seconds(self) -> float:
        """From the first scrape to the last."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class CounterResult:
    """`parts`: for each model the sum, then each engine if there are several. `notes` are sentences for the reader."""

    parts: tuple[Part, ...]
    restarts: tuple[Restart, ...]
    notes: tuple[str, ...]


class CounterSeries:
    """Takes scrapes one by one, in order of time; `pace_s` is their nominal spacing in seconds.

    A pair of scrapes over a restart, or further apart than 1.5 times the pace, gives no interval, but its increase counts
    in the result. Scrapes closer than half the pace are joined to one interval.
    """

    def __init__(self, pace_s: float) -> None:
        if not pace_s > 0:
            raise ValueError(f"pace of the scrapes: found {pace_s} s; expected more than 0")
        self._pace_s = pace_s
        self._lifetimes = Lifetimes()
        self._windows: dict[str, _Window] = {}
        self._tally: Counter[str] = Counter()
        self._problems: Counter[str] = Counter()
        self._last_t: float | None = None

    def add(self, t: float, exposition: Exposition) -> list[Row]:
        """The intervals that end with the scrape at `t` (Unix seconds): one for each model, if it drafted anything.

        A row has the columns of the table of intervals, without `source`. `process` names the model if there are several.
        """
        self._tally["scrapes"] += 1
        self._problems.update(exposition.problems)
        if self._last_t is not None and t <= self._last_t:
            self._tally["not later"] += 1
            return []
        lives = None if exposition.cut or not exposition.engines else self._lifetimes.see(t, exposition.engines)
        if lives is None:
            self._tally["incomplete"] += 1
            return []
        self._last_t = t
        rows: list[Row] = []
        outcomes: set[str] = set()
        models = exposition.models
        for model in models:
            readings = [reading for reading in exposition.engines if reading.key.model == model]
            outcome, row = self._windows.setdefault(model, _Window(self._pace_s)).step(t, readings, lives)
            outcomes.add(outcome)
            if row is not None:
                rows.append({"process": f"model {model}" if len(models) > 1 else None, **row})
        self._tally.update(outcomes)
        return rows

    def result(self) -> CounterResult:
        """Everything up to the last scrape; more may be added afterwards."""
        counted = {key: self._lifetimes.counted(key) for key in self._lifetimes.keys}
        restarts = {one.restart for lives in counted.values() for one in lives if one.restart is not None}
        parts: list[Part] = []
        for model in sorted({key.model for key in counted}):
            keys = sorted((key for key in counted if key.model == model), key=lambda key: (key.engine.zfill(9), key.replica))
            parts.append(_part(model, ALL, [counted[key] for key in keys]))
            parts += [_part(model, key.label, [counted[key]]) for key in keys] if len(keys) > 1 else []
        notes = notes_of(self._pace_s, self._tally, self._problems, counted)
        return CounterResult(tuple(parts), tuple(sorted(restarts, key=lambda one: one.before)), notes)


def counter_series(
    times: Sequence[float], expositions: Iterable[Exposition], pace_s: float | None = None
) -> tuple[CounterResult, list[Row]]:
    """A whole series at once: the result and all intervals; `pace_s` null: the usual spacing of `times` (Unix seconds)."""
    series = CounterSeries(pace_s or scrape_pace(times) or 1.0)
    rows = [row for t, exposition in zip(times, expositions, strict=True) for row in series.add(t, exposition)]
    return series.result(), rows


def scrape_pace(times: Sequence[float]) -> float | None:
    """The median spacing of scrapes in seconds, to a tenth from one second on; null for fewer than two different times."""
    spacings = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    if not spacings:
        return None
    usual = median(spacings)
    return round(usual, 1) if usual >= 1 else usual


def _part(model: str, engine: str, engines: Sequence[Sequence[Counted]]) -> Part:
    lives = [one for each in engines for one in each]
    starts = {max(each, key=lambda one: one.life.last_t).life.began for each in engines}
    return Part(
        model=model,
        engine=engine,
        counters=joined([one.increase for one in lives]),
        start=min(one.life.first_t for one in lives),
        end=max(one.life.last_t for one in lives),
        restarts=len({one.restart for one in lives if one.restart is not None}),
        start_time=starts.pop() if len(starts) == 1 else None,
    )


class _Window:
    """The interval of one model that is under way."""

    def __init__(self, pace_s: float) -> None:
        self._pace_s = pace_s
        self._since: tuple[float, dict[EngineKey, tuple[Life, Counters]]] | None = None
        self._last_t = 0.0

    def step(self, t: float, readings: Sequence[EngineReading], lives: dict[EngineKey, Life]) -> tuple[str, Row | None]:
        """What became of the scrape at `t`, in one word, and the interval that ends with it, if one does."""
        now = {reading.key: (lives[reading.key], reading.counters) for reading in readings}
        apart, self._last_t = t - self._last_t, t
        before, self._since = self._since, (t, now)
        if before is None:
            return "first", None
        since_t, since = before
        if apart > GAP_PACES * self._pace_s:
            return "gap", None
        if {key: life for key, (life, _) in now.items()} != {key: life for key, (life, _) in since.items()}:
            return "changed", None
        if t - since_t < SHORT_PACES * self._pace_s:
            self._since = before
            return "joined", None
        gained = add_up([rise(since[key][1], counters) for key, (_, counters) in now.items()])
        if gained.drafts is None:
            return "without speculation", None
        return ("interval", self._row(since_t, t, gained, readings)) if gained.drafts else ("idle", None)

    def _row(self, start: float, end: float, gained: Counters, readings: Sequence[EngineReading]) -> Row:
        moment = total(readings)
        positions = gained.accepted_per_position
        queries, hits = gained.prefix_cache_queries, gained.cached_prompt_tokens
        return {
            "offset": None,
            "engine": readings[0].key.label or None if len(readings) == 1 else f"{len(readings)} aggregated",
            "start": start,
            "end": end,
            "window_s": self._pace_s,
            "since_last_line_s": None,
            "k": gained.k,
            "drafts": gained.drafts,
            "drafts_exact": True,
            "drafted": gained.draft_tokens,
            "accepted": gained.accepted,
            **{f"accepted_{k}": count for k, count in enumerate(positions or (), start=1)},
            "accepted_k_exact": True if positions is not None else None,
            "running": moment.running,
            "waiting": moment.waiting,
            "prompt_tokens_per_s": _pace(gained.prompt_tokens, end - start),
            "generation_tokens_per_s": _pace(gained.generation_tokens, end - start),
            "kv_cache_usage": moment.kv_cache_usage,
            "prefix_cache_hit_rate": hits / queries if queries and hits is not None else None,
            "wording": WORDING,
            "extra": None,
        }


def _pace(count: int | None, seconds: float) -> float | None:
    return None if count is None else count / seconds
