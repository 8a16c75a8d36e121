"""A /metrics text read as far as it can be: every engine by itself, their sum, and sentences about what is missing.

:func:`draftmeter.formats.metrics.read_scrape` is the strict reading of servers that draftmeter itself started; this one
takes any server, any version and any stored text, and never fails.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from draftmeter.formats.counters import SPECULATION, Counters, EngineKey, EngineReading, total
from draftmeter.formats.families import (
    COUNTERS,
    CREATED,
    DIFFUSION_FAMILIES,
    GAUGES,
    START_TIME,
    V0_FAMILIES,
    BadLine,
    Series,
    read_values,
)

# Labels that split the counts of one engine. Any other label besides model and engine tells servers apart.
_INNER_LABELS = ("position", "finished_reason")
_POSITIONS = "accepted_per_position"
_EXPECTED = ("generation_tokens", "prompt_tokens", "requests_finished")
_NAMES = {name: f"vllm:{family}_total" for family, name in COUNTERS.items()}


@dataclass(frozen=True, slots=True)
class Exposition:
    """What a /metrics text says. `cut`: its last line has no line feed and was not used; `problems` are whole sentences."""

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


def read_exposition(text: str) -> Exposition:
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
    problems += reader.missing()
    return Exposition(engines, tuple(dict.fromkeys(problems)), cut)


@dataclass(slots=True)
class _Found:
    """What was found of one engine so far; a null is a number that is no count."""

    totals: dict[str, int | None] = field(default_factory=dict)
    bare: dict[str, int | None] = field(default_factory=dict)
    """Counters spelled without ``_total``: used only where the other spelling is not there."""
    positions: dict[str, dict[str, int | None]] = field(default_factory=lambda: {"_total": {}, "": {}})
    gauges: dict[str, float] = field(default_factory=dict)
    created: float | None = None


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
        key, position = _identify(series.labels)
        if series.family == START_TIME:
            self._start_times[key.replica] = number
            return
        found = self._found.setdefault(key, _Found())
        shown = self._shown.setdefault(key.model, set())
        if series.family in GAUGES:
            found.gauges[GAUGES[series.family]] = number
        elif series.family not in COUNTERS:
            self._refused.add(series.family)
        elif series.suffix == "_created":
            found.created = number if series.family == CREATED else found.created
        else:
            name = COUNTERS[series.family]
            shown.add(name)
            at, into = name, found.totals if series.suffix else found.bare
            if name == _POSITIONS:
                at, into = position, found.positions[series.suffix]
            whole, before = self._whole(series, number), into.get(at, 0)
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
            created=found.created,
        )

    def _positions(self, found: Mapping[str, int | None], counts: Mapping[str, int | None]) -> tuple[int, ...] | None:
        numbers = {int(label): count for label, count in found.items() if label.isdecimal()}
        if len(numbers) != len(found) or sorted(numbers) != list(range(len(numbers))):
            self._problems.append(f"found the positions {', '.join(map(repr, sorted(found)))}; expected 0, 1, ... K-1: not used")
            return None
        positions = [count for _, count in sorted(numbers.items()) if count is not None]
        drafts, draft_tokens, accepted = (counts.get(name) for name in SPECULATION)
        if len(positions) < len(numbers):
            return None
        if sum(positions) != accepted:
            whole = all(counts.get(name) is not None for name in _EXPECTED)
            self._problems.append(
                "the accepted tokens by position do not add up to all accepted: the text was made while the server counted"
                if whole
                else "the accepted tokens by position do not add up to all accepted, and other counts are missing: not used"
            )
            return tuple(positions) if whole else None
        if drafts and draft_tokens:
            # Every accepted token has its position: further positions, which Ray does not show yet, have accepted none.
            positions += [0] * (math.ceil(draft_tokens / drafts) - len(positions))
        return tuple(positions)

    def _whole(self, series: Series, number: float) -> int | None:
        if math.isfinite(number) and number >= 0 and number == int(number):
            return int(number)
        self._problems.append(f"{series.family}: found {number}; expected a whole number of 0 or more: not used")
        return None

    def missing(self) -> list[str]:
        """Sentences about families that are not there."""
        if not self._found:
            return ["no metric of vLLM is in this text"]
        if self._refused.intersection(V0_FAMILIES):
            return ["this is vLLM's V0 engine, whose counters mean something else: its counts of speculation are not used"]
        if self._refused.intersection(DIFFUSION_FAMILIES):
            return ["this server generates by diffusion: there are no drafts to accept"]
        sentences: list[str] = []
        for model, shown in self._shown.items():
            of = f" (model {model})" if len(self._shown) > 1 else ""
            if not shown.intersection((*SPECULATION, _POSITIONS)):
                sentences.append(f"speculation is off{of}: there is no {_NAMES['drafts']}")
            else:
                sentences += [f"there is no {_NAMES[name]}{of}" for name in SPECULATION if name not in shown]
                if _POSITIONS not in shown:
                    sentences.append(f"this server predates per-position counters{of}: there is no {_NAMES[_POSITIONS]}")
            sentences += [f"there is no {_NAMES[name]}{of}" for name in _EXPECTED if name not in shown]
        return sentences


@lru_cache(maxsize=4096)
def _identify(labels: tuple[tuple[str, str], ...]) -> tuple[EngineKey, str]:
    """Who counted, and the position if there is one."""
    others = [pair for pair in labels if pair[0] not in ("model_name", "engine", *_INNER_LABELS)]
    named = dict(labels)
    key = EngineKey(named.get("model_name", ""), named.get("engine", ""), ",".join(map("=".join, others)))
    return key, named.get("position", "")
