"""A /metrics text read as far as it can be: every engine by itself, and sentences about what is missing.

:func:`read_metrics` takes any server, any version and any stored text, and never fails.
:func:`read_strict`, for servers that draftmeter itself started, is the same reading, and refuses what
has problems. :func:`relation` says what two readings are to each other, :func:`difference` what was
counted between them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from draftmeter.formats.counters import (
    SAME_START_S,
    SCALARS,
    SPECULATION,
    Counters,
    EngineKey,
    EngineReading,
    fallen,
    rise,
    total,
)
from draftmeter.formats.families import (
    COUNTERS,
    DIFFUSION_FAMILIES,
    GAUGES,
    START_TIME,
    V0_FAMILIES,
    BadLine,
    Series,
    has_samples,
    read_values,
)

_POSITIONS = "accepted_per_position"
# The label that splits the counts of one engine, for the counters that have one. Any label but these,
# model and engine tells servers apart.
_SPLIT_BY = {_POSITIONS: "position", "requests_finished": "finished_reason"}
_EXPECTED = ("generation_tokens", "prompt_tokens", "requests_finished")
_NAMES = {name: f"vllm:{family}_total" for family, name in COUNTERS.items()}
_GAUGE_NAMES = {name: f"vllm:{family}" for family, name in GAUGES.items()}

OFF = "speculation is off"
TORN = "the accepted tokens by position do not add up to all accepted: the text was made while the server counted"


class MetricsError(ValueError):
    """A /metrics text that cannot be used: what was found, what would be right."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a /metrics text says. `problems` are whole sentences.

    `cut`: its last line has no line feed and was not used.
    """

    engines: tuple[EngineReading, ...]
    problems: tuple[str, ...]
    cut: bool

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models, sorted."""
        return tuple(sorted({reading.key.model for reading in self.engines}))

    @property
    def k(self) -> int | None:
        """K, if all engines have the same."""
        found = {reading.counters.k for reading in self.engines}
        return found.pop() if len(found) == 1 else None

    def rows(self) -> list[EngineReading]:
        """For each model the sum of its engines (engine ``all``), then each engine if there are several."""
        rows: list[EngineReading] = []
        for model in self.models:
            engines = [reading for reading in self.engines if reading.key.model == model]
            rows.append(total(engines))
            rows += engines if len(engines) > 1 else []
        return rows


def read_metrics(text: str) -> Metrics:
    """Read a /metrics text, whole or reduced to its relevant lines. Never raises: see `problems`."""
    problems: list[str] = []
    cut = bool(text) and not text.endswith(("\n", "\n# EOF"))
    if cut:
        problems.append("the text ends without a line feed: it was cut short, and its last line is not used")
    values: dict[Series, float] = {}
    repeated = False
    for value in read_values(text):
        if isinstance(value, BadLine):
            problems.append(value.problem)
            continue
        repeated = repeated or value.series in values
        values[value.series] = value.number
    if repeated:
        problems.append("the text shows the same series more than once (several scrapes in one text?): the last one is used")
    reader = _Reader(problems)
    for series, number in values.items():
        reader.take(series, number)
    engines = reader.engines(cut)
    problems += reader.missing(cut) if engines else [_why_nothing(text)]
    return Metrics(engines, tuple(dict.fromkeys(problems)), cut)


def read_strict(text: str, *, speculation: bool = True) -> Metrics:
    """As :func:`read_metrics`, but raise :class:`MetricsError` if the text has problems.

    It must hold one model, its gauges included. Without `speculation`, of a server that is known to
    run so, it must have no counter of drafts: such a server made 0, which is what the reading says.
    A text that was made while the server counted is no problem: later texts will add up.
    """
    metrics = read_metrics(text)
    off = any(problem.startswith(OFF) for problem in metrics.problems)
    problems = [problem for problem in metrics.problems if problem != TORN and (speculation or not problem.startswith(OFF))]
    if metrics.engines:
        if len(metrics.models) > 1:
            problems.append(f"found the models {', '.join(metrics.models)}; expected one")
        if not speculation and not off:
            problems.append(f"found {_NAMES['drafts']}: this server speculates")
        for name in ("running", "waiting"):
            if any(getattr(reading, name) is None for reading in metrics.engines):
                problems.append(f"there is no {_GAUGE_NAMES[name]}")
    if problems:
        right = "the /metrics text of a vLLM server, 0.9.2 or later"
        right = f"{right}, started with --speculative-config" if speculation else f"one without speculation: {right}"
        raise MetricsError(f"{'; '.join(problems)}; expected {right}")
    if speculation:
        return metrics
    return replace(metrics, engines=tuple(replace(one, counters=_without_drafts(one.counters)) for one in metrics.engines))


def _without_drafts(counters: Counters) -> Counters:
    return replace(counters, drafts=0, draft_tokens=0, accepted=0, accepted_per_position=())


def quiet(before: str, after: str, *, speculation: bool = True) -> bool:
    """True if nothing runs or waits in both texts and no counter moved between them.

    A server sends a reply before it records the reply's last step, so an idle gauge alone is not enough.
    Raises as :func:`read_strict`.
    """
    first, second = (read_strict(text, speculation=speculation).engines for text in (before, after))
    still = [(one.key, one.counters, one.start_time) for one in first] == [
        (one.key, one.counters, one.start_time) for one in second
    ]
    return still and all(one.running == one.waiting == 0 for one in (*first, *second))


def difference(earlier: Metrics, later: Metrics) -> dict[EngineKey, Counters]:
    """Later minus earlier for each engine, as it is; a count that one of the two does not show is None.

    Raises :class:`MetricsError` if the engines or the number of positions changed. Whether both read
    one process is :func:`relation`'s question.
    """
    before, after = ({reading.key: reading.counters for reading in one.engines} for one in (earlier, later))
    if before.keys() != after.keys():
        labels = [", ".join(key.spoken(with_model=True) for key in one) or "none" for one in (before, after)]
        raise MetricsError(f"found the engines {labels[0]} before, {labels[1]} after; they must be the same")
    for key, old in before.items():
        new = after[key]
        if old.k is not None and new.k is not None and old.k != new.k:
            raise MetricsError(f"{_NAMES[_POSITIONS]}: {old.k} positions before, {new.k} after; K must not change")
    return {key: rise(before[key], after[key], unshown=None) for key in before}


class Relation(StrEnum):
    """What two readings of since-start counters, a and b, are to each other."""

    OTHER_SERVERS = "other servers"
    """Their labels of model, engine or replica differ: each counts by itself, and they may be added."""
    A_THEN_B = "same server, a then b"
    B_THEN_A = "same server, b then a"
    """What was counted between the two is their difference; to add them would count the earlier one twice."""
    SAME_READING = "the same reading"
    RESTART_OR_TWO_SERVERS = "restart or two servers"
    """Labels cannot tell which; neither a sum nor a difference of the two is safe."""


class EngineRelation(NamedTuple):
    """The relation for one engine; `sentences` name the engine and the sign."""

    key: EngineKey
    relation: Relation
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Related:
    """What two readings are to each other: on the whole, and engine by engine."""

    relation: Relation
    engines: tuple[EngineRelation, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Those of all engines; a is "the first text" and b "the second"."""
        return tuple(sentence for one in self.engines for sentence in one.sentences)


def relation(a: Metrics, b: Metrics) -> Related:
    """Compare two readings engine by engine; on the whole they are one server's only if no engine objects.

    Two servers with the same labels, no start shown and counts of which one is never below the other
    cannot be told from one server read twice: they are taken for that.
    """
    first, second = ({reading.key: reading for reading in one.engines} for one in (a, b))
    several = len({*a.models, *b.models}) > 1
    engines = [_relation_of(first[key], second[key], several) for key in first if key in second]
    shared = {one.relation for one in engines}
    for keys, others, where in ((first, second, "first"), (second, first, "second")):
        engines += [
            EngineRelation(key, Relation.OTHER_SERVERS, (f"{key.spoken(with_model=several)} is only in the {where} text",))
            for key in keys
            if key not in others
        ]
    moved = shared - {Relation.SAME_READING}
    if not shared:
        overall = Relation.OTHER_SERVERS
    elif len(engines) > len(first.keys() & second.keys()) or len(moved) > 1:
        # Some engines are in both texts and some are not, or they disagree about which text is the earlier one.
        overall = Relation.RESTART_OR_TWO_SERVERS
    else:
        overall = moved.pop() if moved else Relation.SAME_READING
    return Related(overall, tuple(engines))


def _relation_of(a: EngineReading, b: EngineReading, several: bool) -> EngineRelation:
    who = a.key.spoken(with_model=several)
    starts = [_start_sentence(who, START_TIME, a.start_time, b.start_time)]
    for name in sorted(a.created_by_counter.keys() & b.created_by_counter.keys()):
        family = _NAMES[name].removesuffix("_total") + "_created"
        starts.append(_start_sentence(who, family, a.created_by_counter[name], b.created_by_counter[name]))
    signs = [sentence for sentence in starts if sentence is not None]
    old, new = a.counters, b.counters
    lower, higher = fallen(old, new), fallen(new, old)
    if old.drafts and new.drafts and None not in (old.k, new.k) and old.k != new.k:
        signs.append(f"{who}: K is {old.k} in the first text and {new.k} in the second")
    if lower and higher:
        signs.append(f"{who}: {', '.join(lower)} fell from the first text to the second while {', '.join(higher)} rose")
    elif signs and lower:
        signs.append(f"{who}: {', '.join(lower)} fell from the first text to the second")
    if not any(None not in (getattr(old, name), getattr(new, name)) for name in SCALARS):
        signs.append(f"{who}: there is no count that both texts show")
    if signs:
        return EngineRelation(a.key, Relation.RESTART_OR_TWO_SERVERS, tuple(signs))
    if not lower and not higher:
        return EngineRelation(a.key, Relation.SAME_READING, (f"{who} has the same counts in both texts",))
    found, later = (Relation.A_THEN_B, "second") if higher else (Relation.B_THEN_A, "first")
    names = higher or lower
    sentence = f"{who} counted on: {', '.join(names)} {'is' if len(names) == 1 else 'are'} higher in the {later} text"
    return EngineRelation(a.key, found, (sentence,))


def _start_sentence(who: str, name: str, a: float | None, b: float | None) -> str | None:
    if a is None or b is None or abs(b - a) <= SAME_START_S:
        return None
    later = "second" if b > a else "first"
    return f"{who}: {name} is {abs(b - a):.0f} s later in the {later} text ({a:.0f} in the first, {b:.0f} in the second)"


def _why_nothing(text: str) -> str:
    nothing = "no metric of vLLM is in this text"
    if not text.strip():
        return f"{nothing}: it is empty or was cut short"
    return nothing if has_samples(text) else f"{nothing}: it is not a Prometheus text"


@dataclass(slots=True)
class _Found:
    """What was found of one engine so far; None is a number that is no count."""

    totals: dict[str, int | None] = field(default_factory=dict)
    bare: dict[str, int | None] = field(default_factory=dict)
    """Counters spelled without ``_total``: used only where the other spelling is not there."""
    positions: dict[str, dict[str, int | None]] = field(default_factory=lambda: {"_total": {}, "": {}})
    gauges: dict[str, float] = field(default_factory=dict)
    created: dict[str, float] = field(default_factory=dict)


class _Reader:
    """Sorts samples by the engine that they belong to; tells what is wrong with them in `problems`."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._found: dict[EngineKey, _Found] = {}
        self._start_times: dict[str, float] = {}
        self._shown: dict[str, set[str]] = {}
        """The counters that a model's engines show, by model."""
        self._refused: set[str] = set()

    def take(self, series: Series, number: float) -> None:
        """Sort one sample in."""
        key, split = _identify(series.labels)
        if series.family == START_TIME:
            self._start_times[key.replica] = number
            return
        name = COUNTERS.get(series.family)
        if series.suffix == "_created" and name is None:
            return
        found = self._found.setdefault(key, _Found())
        shown = self._shown.setdefault(key.model, set())
        if series.family in GAUGES:
            found.gauges[GAUGES[series.family]] = number
        elif name is None:
            self._refused.add(series.family)
        elif series.suffix == "_created":
            found.created[name] = min(number, found.created.get(name, math.inf))
        else:
            shown.add(name)
            at, into = name, found.totals if series.suffix else found.bare
            if name == _POSITIONS:
                at, into = split.get("position", ""), found.positions[series.suffix]
            whole, before = self._whole(series, number), into.get(at, 0)
            if strange := split.keys() - {_SPLIT_BY.get(name)}:
                self._problems.append(f"{_NAMES[name]}: found the label {min(strange)}, which it must not have: not used")
                whole = None
            into[at] = None if whole is None or before is None else before + whole

    def engines(self, cut: bool) -> tuple[EngineReading, ...]:
        """The engines, sorted by model, number and replica."""
        keys = sorted(self._found, key=lambda key: (key.model, key.engine.zfill(9), key.replica))
        return tuple(self._engine(key, set() if cut else self._shown[key.model]) for key in keys)

    def _engine(self, key: EngineKey, shown: set[str]) -> EngineReading:
        found = self._found[key]
        # Ray shows a counter from its first count on: what another engine of the model shows has counted nothing here.
        counts = {**dict.fromkeys(shown - {_POSITIONS}, 0), **found.bare, **found.totals}
        by_position = found.positions["_total"] or found.positions[""]
        positions = self._positions(by_position, counts) if by_position or _POSITIONS in shown else None
        if self._refused:
            positions = None
            counts = {name: count for name, count in counts.items() if name not in SPECULATION}
        gauges = {name: value for name, value in found.gauges.items() if math.isfinite(value)}
        running, waiting = gauges.get("running"), gauges.get("waiting")
        return EngineReading(
            key=key,
            counters=Counters(accepted_per_position=positions, **counts),
            running=None if running is None else int(running),
            waiting=None if waiting is None else int(waiting),
            kv_cache_usage=gauges.get("kv_cache_usage", gauges.get("kv_cache_usage_old_name")),
            start_time=self._start_times.get(key.replica),
            created_by_counter=found.created,
        )

    def _positions(self, found: Mapping[str, int | None], counts: Mapping[str, int | None]) -> tuple[int, ...] | None:
        numbers = {int(label): count for label, count in found.items() if label.isdecimal()}
        if len(numbers) != len(found) or sorted(numbers) != list(range(len(numbers))):
            labels = ", ".join(map(repr, sorted(found)))
            self._problems.append(f"found the positions {labels}; expected 0, 1, ... K-1 as whole numbers: not used")
            return None
        positions = [count for _, count in sorted(numbers.items()) if count is not None]
        drafts, draft_tokens, accepted = (counts.get(name) for name in SPECULATION)
        if len(positions) < len(numbers):
            return None
        if sum(positions) != accepted:
            # A text that lacks other counts may lack positions, too.
            if any(counts.get(name) is None for name in _EXPECTED):
                self._problems.append(
                    "the accepted tokens by position cannot be checked without all accepted: not used"
                    if accepted is None
                    else "the accepted tokens by position do not add up to all accepted, and other counts are missing: not used"
                )
                return None
            if accepted is not None:
                self._problems.append(TORN)
            return tuple(positions)
        if drafts and draft_tokens:
            # Every accepted token has its position: further positions, which Ray does not show yet, have accepted none.
            positions += [0] * (math.ceil(draft_tokens / drafts) - len(positions))
        return tuple(positions)

    def _whole(self, series: Series, number: float) -> int | None:
        if math.isfinite(number) and number >= 0 and number == int(number):
            return int(number)
        self._problems.append(f"{series.family}: found {number}; expected a whole number of 0 or more: not used")
        return None

    def missing(self, cut: bool) -> list[str]:
        """Sentences about families that are not there."""
        if self._refused.intersection(V0_FAMILIES):
            return ["this is vLLM's V0 engine, whose counters mean something else: its counts of speculation are not used"]
        if self._refused.intersection(DIFFUSION_FAMILIES):
            return ["this server generates by diffusion: there are no drafts to accept"]
        sentences: list[str] = []
        for model, shown in self._shown.items():
            of = f" (model {model})" if len(self._shown) > 1 else ""
            if cut:
                # What the server has, and whether it speculates, cannot be told from what is left of its text.
                lost = [_NAMES[name] for name in (*SPECULATION, _POSITIONS, *_EXPECTED) if name not in shown]
                sentences += [f"{', '.join(lost)}{of}: unknown, because the text was cut short"] if lost else []
                continue
            if not shown.intersection((*SPECULATION, _POSITIONS)):
                sentences.append(f"{OFF}{of}: there is no {_NAMES['drafts']}")
            else:
                sentences += [f"there is no {_NAMES[name]}{of}" for name in SPECULATION if name not in shown]
                if _POSITIONS not in shown:
                    sentences.append(f"this server predates per-position counters{of}: there is no {_NAMES[_POSITIONS]}")
            sentences += [f"there is no {_NAMES[name]}{of}" for name in _EXPECTED if name not in shown]
        return sentences


@lru_cache(maxsize=4096)
def _identify(labels: tuple[tuple[str, str], ...]) -> tuple[EngineKey, Mapping[str, str]]:
    """Who counted, and the labels that split the counts of one engine."""
    inner = _SPLIT_BY.values()
    others = [pair for pair in labels if pair[0] not in ("model_name", "engine", *inner)]
    named = dict(labels)
    key = EngineKey(named.get("model_name", ""), named.get("engine", ""), ",".join(map("=".join, others)))
    return key, {name: value for name, value in labels if name in inner}
