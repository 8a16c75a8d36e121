"""Many scrapes of one server: what its counters gained over all of them, restarts included, and interval by interval.

Increases are added up as Prometheus' ``increase`` does it, but never extrapolated. Counters only rise
within one life of a server process, and begin anew with the next. A new life shows by the start time
of the process (or of its counters), else by a count that fell. After a restart all that the new
process counted is added; what the old one counted after its last scrape is unknown, and said to be.
Where one address is answered by several processes in turn, each keeps its own life.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from draftmeter.formats.counters import (
    ALL,
    SAME_START_S,
    Counters,
    EngineKey,
    EngineReading,
    add_up,
    add_up_lives,
    fallen,
    lacks,
    rise,
    total,
)
from draftmeter.formats.metrics import Metrics

Row = dict[str, Any]
WORDING = "counters"
GAP_PACES = 1.5
SHORT_PACES = 0.5
CLOCKS_APART_S = 60.0
"""How far the clock of a server may be behind that of the scrapes."""
LISTED = 20
SUSPICIOUS_RESTARTS = 5
SUSPICIOUS_SHARE = 0.02


@dataclass(slots=True, eq=False)
class Life:
    """One engine between the first and the last scrape that saw it in one life of its process. Times are Unix seconds."""

    began: float | None
    """Start of the process, else of its counters; None where the scrapes do not show it."""
    with_group: bool
    """Whether engines of its server that were there before restarted at its first scrape."""
    first_t: float
    first: Counters
    last_t: float
    last: Counters


class Restart(NamedTuple):
    """A restart between the scrapes at `after` and `before`; `began` is None where the scrapes do not show it. Unix seconds."""

    replica: str
    after: float
    before: float
    began: float | None


class Counted(NamedTuple):
    """What a life adds to the total: all that it counted if `whole`, else what its counts rose by after its first scrape.

    `in_turn`: another process answered before and after this one first did, or this one began before the series did.
    """

    life: Life
    whole: bool
    restart: Restart | None
    in_turn: bool

    @property
    def increase(self) -> Counters:
        """The counts to be added up."""
        return self.life.last if self.whole else rise(self.life.first, self.life.last)


class _Lifetimes:
    """Sorts the readings of one series of scrapes into lives."""

    def __init__(self) -> None:
        self._lives: dict[EngineKey, list[Life]] = {}
        self._start: float | None = None

    @property
    def keys(self) -> list[EngineKey]:
        """The engines that were seen, in the order in which they first were."""
        return list(self._lives)

    def see(self, t: float, readings: Sequence[EngineReading]) -> dict[EngineKey, Life] | None:
        """The life of each engine in the scrape at `t`; None (and no change) if a count is missing that was there before."""
        found = {reading.key: self._life_of(reading) for reading in readings}
        for reading in readings:
            life = found[reading.key]
            if life is not None and lacks(life.last, reading.counters):
                return None
        restarted = {key.replica for key, life in found.items() if life is None and key in self._lives}
        self._start = t if self._start is None else self._start
        lives: dict[EngineKey, Life] = {}
        for reading in readings:
            life, group = found[reading.key], reading.key.replica in restarted
            if life is None or (group and reading.began is None):
                life = Life(reading.began, group, t, reading.counters, t, reading.counters)
                self._lives.setdefault(reading.key, []).append(life)
            life.last_t, life.last = t, reading.counters
            life.began = reading.began if life.began is None else life.began
            lives[reading.key] = life
        return lives

    def counted(self, key: EngineKey) -> list[Counted]:
        """The lives of an engine, in order of their first scrapes."""
        result: list[Counted] = []
        start = -math.inf if self._start is None else self._start
        for n, life in enumerate(self._lives[key]):
            last_t = max((other.last_t for other in self._lives[key][:n]), default=-math.inf)
            # The clocks of server and scrapes may differ: what the first scrape shows began before it, whatever it says.
            began_within = life.began is not None and life.first_t > start and life.began > start
            began_before = life.began is not None and life.began < start - CLOCKS_APART_S
            in_turn = n > 0 and (last_t > life.first_t or began_before)
            restart = Restart(key.replica, last_t, life.first_t, life.began) if n > 0 and not in_turn else None
            with_group = life.with_group and life.began is None and not in_turn
            result.append(Counted(life, restart is not None or began_within or with_group, restart, in_turn))
        return result

    def _life_of(self, reading: EngineReading) -> Life | None:
        """The life that a reading continues; None if it begins one."""
        lives = self._lives.get(reading.key, [])
        if reading.began is not None:
            lives = [life for life in lives if life.began is None or abs(life.began - reading.began) <= SAME_START_S]
        latest = max(lives, key=lambda life: life.last_t, default=None)
        return None if latest is None or fallen(latest.last, reading.counters) else latest


@dataclass(frozen=True, slots=True)
class Part:
    """What one engine counted, or (engine ``all``) all engines of a model, between the scrapes at `start` and `end`.

    Times are Unix seconds. `restarts` counts those of its server; `start_time` is when the process that was seen last (or
    its counters) began, None where the scrapes do not show it or the engines differ.
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
        self._lifetimes = _Lifetimes()
        self._windows: dict[str, _Window] = {}
        self._tally: Counter[str] = Counter()
        self._problems: Counter[str] = Counter()
        self._last_t: float | None = None

    def add(self, t: float, metrics: Metrics) -> list[Row]:
        """The intervals that end with the scrape at `t` (Unix seconds): one for each model, if it drafted anything.

        A row has the columns of the table of intervals, without `source`. `process` names the model if there are several.
        """
        self._tally["scrapes"] += 1
        self._problems.update(metrics.problems)
        if self._last_t is not None and t <= self._last_t:
            self._tally["not later"] += 1
            return []
        lives = None if metrics.cut or not metrics.engines else self._lifetimes.see(t, metrics.engines)
        if lives is None:
            self._tally["incomplete"] += 1
            return []
        self._last_t = t
        rows: list[Row] = []
        outcomes: set[str] = set()
        models = metrics.models
        for model in models:
            readings = [reading for reading in metrics.engines if reading.key.model == model]
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
        notes = _notes_of(self._pace_s, self._tally, self._problems, counted)
        return CounterResult(tuple(parts), tuple(sorted(restarts, key=lambda one: one.before)), notes)


def counter_series(
    times: Sequence[float], readings: Iterable[Metrics], pace_s: float | None = None
) -> tuple[CounterResult, list[Row]]:
    """A whole series at once: the result and all intervals; `pace_s` None: the usual spacing of `times` (Unix seconds)."""
    series = CounterSeries(pace_s or scrape_pace(times) or 1.0)
    rows = [row for t, metrics in zip(times, readings, strict=True) for row in series.add(t, metrics)]
    return series.result(), rows


def scrape_pace(times: Sequence[float]) -> float | None:
    """The median spacing of scrapes in seconds, to a tenth from one second on; None for fewer than two different times."""
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
        counters=add_up_lives([one.increase for one in lives]),
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


def _notes_of(
    pace_s: float, tally: Mapping[str, int], problems: Counter[str], counted: Mapping[EngineKey, Sequence[Counted]]
) -> tuple[str, ...]:
    """The sentences, the most general first. `tally` counts scrapes and pairs of scrapes by what became of them."""
    scrapes = tally["scrapes"]
    found = [
        *(_of(problem, n, scrapes) for problem, n in problems.most_common(LISTED)),
        *_more(len(problems)),
        *_pairs(pace_s, tally),
        *_restarts(counted, scrapes),
        *_comings_and_goings(counted),
    ]
    return tuple(found)


def _of(problem: str, n: int, scrapes: int) -> str:
    return problem if n == scrapes else f"{problem} (in {n} of {scrapes} scrapes)"


def _more(n: int) -> list[str]:
    return [f"... and {n - LISTED} more"] if n > LISTED else []


def _pairs(pace_s: float, tally: Mapping[str, int]) -> list[str]:
    pace = f"the pace of {pace_s:g} s"
    sentences = {
        "not later": "{n} were not later than the one before and are not used",
        "incomplete": "{n} were cut short or lacked counts that others have, and are not used",
        "gap": f"{{n}} followed the one before after more than 1.5 times {pace}: no interval, but the increase is in the totals",
        "changed": "{n} found a server restarted or another set of engines: no interval, but the increase is in the totals",
        "joined": f"{{n}} followed the one before within half of {pace}: joined to the next interval",
        "idle": "{n} ended an interval without a draft: not listed",
    }
    return [f"of {tally['scrapes']} scrapes, {text.format(n=tally[name])}" for name, text in sentences.items() if tally[name]]


def _restarts(counted: Mapping[EngineKey, Sequence[Counted]], scrapes: int) -> list[str]:
    lives = [one for each in counted.values() for one in each]
    restarts = sorted({one.restart for one in lives if one.restart is not None}, key=lambda one: one.before)
    sentences = []
    for restart in restarts[:LISTED]:
        who = f"the server {restart.replica}" if restart.replica else "the server"
        began = f" (it began at {_time(restart.began)})" if restart.began is not None else ""
        sentences.append(
            f"{who} restarted between {_time(restart.after)} and {_time(restart.before)}{began}: "
            "what it counted between the last scrape and its end is unknown"
        )
    sentences += _more(len(restarts))
    unexplained = sum(restart.began is None for restart in restarts)
    if unexplained >= max(SUSPICIOUS_RESTARTS, SUSPICIOUS_SHARE * scrapes):
        sentences.append(
            f"counts fell {unexplained} times: perhaps several servers answer in turn at this address (a load balancer); "
            "the totals are then wrong: read each server at its own address"
        )
    if any(one.in_turn for one in lives):
        sentences.append(
            "several server processes answer in turn at this address (a load balancer?): each was counted by itself, "
            "from its first scrape to its last"
        )
    ks = list(dict.fromkeys(one.life.last.k for one in lives if one.life.last.drafts and one.life.last.k is not None))
    if len(ks) > 1:
        sentences.append(f"K is not the same throughout ({', '.join(map(str, ks))}): sums over different K have no positions")
    return sentences


def _comings_and_goings(counted: Mapping[EngineKey, Sequence[Counted]]) -> list[str]:
    if not counted:
        return []
    first = min(lives[0].life.first_t for lives in counted.values())
    last = max(one.life.last_t for lives in counted.values() for one in lives)
    sentences = []
    for key, lives in counted.items():
        who = key.spoken(with_model=len({one.model for one in counted}) > 1)
        if lives[0].life.first_t > first:
            how = "began within the series and is counted whole"
            if not lives[0].whole:
                how = "is counted from there: what it had counted before is not included"
            sentences.append(f"{who} first appears at {_time(lives[0].life.first_t)} and {how}")
        seen_last = max(one.life.last_t for one in lives)
        if seen_last < last:
            sentences.append(f"{who} is last seen at {_time(seen_last)}; what it counted after that is unknown")
    return sentences[:LISTED] + _more(len(sentences))


def _time(t: float | None) -> str:
    return "an unknown time" if t is None else datetime.fromtimestamp(t, UTC).isoformat(timespec="seconds")
