"""The wordings of vLLM's statistics lines by version family, and what each of them lets a reader know.

The formats are facts about the versions named; the numbers are made up. Every printed ratio is derived from planted counts
with the server's own rounding: mean and throughputs 2 decimals, rates 3, percentages 1.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from log_truth import Anything, Keys, Near, OrNull, Row


@dataclass(frozen=True)
class Counts:
    """One interval: drafts, proposed and accepted tokens, accepted by position, seconds since the line before."""

    drafts: int
    drafted: int
    at: tuple[int, ...]
    elapsed: float

    @property
    def k(self) -> int:
        return len(self.at)

    @property
    def accepted(self) -> int:
        return sum(self.at)

    @property
    def full(self) -> bool:
        return self.drafted == self.k * self.drafts and self.drafted > 0

    def percent(self) -> str:
        return f"{self.accepted / self.drafted * 100:.1f}" if self.drafted else "nan"

    def mean(self, bonus: int) -> str:
        return f"{bonus + self.accepted / self.drafts:.2f}" if self.drafts else "nan"

    def rates(self) -> str:
        return ", ".join(f"{n / self.drafts:.3f}" if self.drafts else "nan" for n in self.at)

    def throughput(self, tokens: int) -> str:
        return f"{tokens / self.elapsed:.2f}"


def _mean_first(c: Counts) -> str:
    return (
        f"SpecDecoding metrics: Mean acceptance length: {c.mean(1)}, "
        f"Accepted throughput: {c.throughput(c.accepted)} tokens/s, Drafted throughput: {c.throughput(c.drafted)} tokens/s, "
        f"Accepted: {c.accepted} tokens, Drafted: {c.drafted} tokens, "
        f"Per-position acceptance rate: {c.rates()}, Avg Draft acceptance rate: {c.percent()}%"
    )


def _fork_depth(c: Counts) -> str:
    return _mean_first(c) + ", Current speculative depth: 7"


def _rate_first(c: Counts, bonus: int = 1) -> str:
    return (
        f"SpecDecoding metrics: Draft acceptance rate: {c.percent()}%, Mean acceptance length: {c.mean(bonus)}, "
        f"Accepted: {c.accepted} tokens, Drafted: {c.drafted} tokens, Per-position acceptance rate: {c.rates()}"
    )


def _without_bonus(c: Counts) -> str:
    return _rate_first(c, bonus=0)


def _rate_first_throughput(c: Counts) -> str:
    return (
        f"SpecDecoding metrics: Draft acceptance rate: {c.percent()}%, Mean acceptance length: {c.mean(1)}, "
        f"Accepted throughput: {c.throughput(c.accepted)} tokens/s, Drafted throughput: {c.throughput(c.drafted)} tokens/s, "
        f"Accepted: {c.accepted} tokens, Drafted: {c.drafted} tokens, Per-position acceptance rate: {c.rates()}"
    )


def _april(c: Counts) -> str:
    return (
        f"SpecDecoding metrics: Draft acceptance rate: {c.percent()}%, Accepted: {c.accepted} tokens, Drafted: {c.drafted} tokens"
    )


def _fork_totals(c: Counts) -> str:
    accepted, drafted = c.accepted + 5000, c.drafted + 9000
    return (
        _april(c) + f", Total draft acceptance rate: {accepted / drafted * 100:.1f}%, Total accepted: {accepted} tokens, "
        f"Total drafted: {drafted} tokens, Average acceptance length: {accepted / 3000:.4f}"
    )


def _march(c: Counts) -> str:
    rate = f"{c.accepted / c.drafted:.3f}" if c.drafted else "nan"
    return (
        f"Speculative metrics: Draft acceptance rate: {rate}, Number of accepted tokens: {c.accepted}, "
        f"Number of draft tokens: {c.drafted}, "
    )


def _cumulative(c: Counts) -> str:
    rate = f"{c.accepted / c.drafted:.3f}" if c.drafted else "nan"
    return (
        f"Speculative metrics: Draft acceptance rate: {rate}, System efficiency: 0.598, Number of speculative tokens: {c.k}, "
        f"Number of accepted tokens: {c.accepted}, Number of draft tokens: {c.drafted}, "
        f"Number of emitted tokens: {c.accepted + c.drafts}."
    )


@dataclass(frozen=True)
class EngineNumbers:
    """What an Engine line says, as printed; null where this line leaves it out."""

    prompt: str
    generation: str
    running: int
    waiting: int
    kv: str
    prefix: str | None


def _engine(optional: str, device: str = "GPU") -> Callable[[str, EngineNumbers], str]:
    between = ", Deferred: 1 reqs, KV fetch: 2 waiting to start, 1 in progress, 0 completed waiting, Preemptions: 3"
    after = ", Corrupted: 0 reqs, External prefix cache hit rate: 99.0%, MM cache hit rate: 88.0%"

    def line(label: str, n: EngineNumbers) -> str:
        return (
            f"{label}: Avg prompt throughput: {n.prompt} tokens/s, Avg generation throughput: {n.generation} tokens/s, "
            f"Running: {n.running} reqs, Waiting: {n.waiting} reqs{between if optional else ''}, "
            f"{device} KV cache usage: {n.kv}%"
            + (f", Prefix cache hit rate: {n.prefix}%" if n.prefix is not None else "")
            + (after if optional else "")
        )

    return line


def _old_engine(_label: str, n: EngineNumbers) -> str:
    return (
        f"Avg prompt throughput: {n.prompt} tokens/s, Avg generation throughput: {n.generation} tokens/s, "
        f"Running: {n.running} reqs, Swapped: 0 reqs, Pending: {n.waiting} reqs, GPU KV cache usage: {n.kv}%, "
        "CPU KV cache usage: 0.0%."
    )


@dataclass(frozen=True)
class Wording:
    """How one family words its lines, and which keys it prints; `family` None: any name will do."""

    family: str | None
    speculation: Callable[[Counts], str]
    engine: Callable[[str, EngineNumbers], str] = field(default_factory=lambda: _engine(""))
    label: str = "Engine 000"
    rates: bool = True
    bonus: int | None = 1  # None: no mean
    throughput: bool = False
    extra: dict[str, str] = field(default_factory=dict)
    optional: bool = False
    cumulative: bool = False
    bracket: str = "["
    files: tuple[str, str] = ("loggers.py:116", "metrics.py:86")

    @property
    def engine_name(self) -> str:
        number, _, rest = self.label.removeprefix("Engine ").partition(" ")
        return f"{int(number)} aggregated" if rest else str(int(number))

    def marker(self) -> str:
        return "Speculative metrics: " if self.speculation in (_march, _cumulative) else "SpecDecoding metrics: "


NEW = ("loggers.py:335", "metrics.py:120")
WORDINGS = {
    "0.10.2+": Wording("0.10.2+", _mean_first, throughput=True, files=NEW),
    "0.10.2+ on CPU": Wording("0.10.2+", _mean_first, _engine("", "CPU"), throughput=True, files=NEW),
    "0.10.2+ optional keys": Wording("0.10.2+", _mean_first, _engine("all"), throughput=True, optional=True, files=NEW),
    "0.10.2+ aggregated": Wording("0.10.2+", _mean_first, label="2 Engines Aggregated", throughput=True, files=NEW),
    "0.10.2+ fork": Wording("0.10.2+", _fork_depth, throughput=True, extra={"Current speculative depth": "7"}, files=NEW),
    "0.10.2 rate first": Wording(None, _rate_first_throughput, throughput=True, files=("loggers.py:123", "metrics.py:96")),
    "0.9-0.10.1": Wording("0.8.5-0.10.1", _rate_first),
    "0.8.5": Wording("0.8.5-0.10.1", _without_bonus, bonus=0, files=("loggers.py:87", "metrics.py:66")),
    "2025-04": Wording("2025-04", _april, rates=False, bonus=None, files=("loggers.py:87", "metrics.py:53")),
    "2025-04 fork": Wording(
        "2025-04",
        _fork_totals,
        rates=False,
        bonus=None,
        extra={"Total accepted": "", "Total drafted": "", "Average acceptance length": ""},
        files=("loggers.py:87", "metrics.py:61"),
    ),
    "2025-03": Wording("2025-03 speculative", _march, rates=False, bonus=None, files=("loggers.py:80", "metrics.py:60")),
    "V0": Wording(
        None, _cumulative, _old_engine, rates=False, cumulative=True, bracket="", files=("metrics.py:345", "metrics.py:367")
    ),
    "V0, 0.9": Wording(None, _cumulative, _old_engine, rates=False, cumulative=True, files=("metrics.py:417", "metrics.py:439")),
}


def plant_counts(random_: random.Random, k: int, *, elapsed: float = 10.0, kind: str = "usual") -> Counts:
    """Counts of one interval; kinds: usual, large, nothing accepted, all accepted, one draft, short drafts, no draft tokens."""
    drafts = {"large": 40_000, "one draft": 1}.get(kind) or random_.randint(4, 900)
    if kind == "large":
        drafts += random_.randint(0, 60_000)
    left, at = drafts, []
    for _ in range(k):
        left = sum(random_.random() < 0.8 for _ in range(left)) if left < 1000 else int(left * random_.uniform(0.6, 0.9))
        at.append(left)
    drafted = k * drafts
    if kind == "all accepted":
        at = [drafts] * k
    if kind in ("nothing accepted", "no draft tokens"):
        at = [0] * k
    if kind == "no draft tokens":
        drafted = 0
    if kind == "short drafts" and k > 1:
        # Far enough from full that the printed ratios show it, whatever the rounding.
        drafts = max(drafts, 60)
        at = [int(drafts * 0.8**position) for position in range(1, k + 1)]
        drafted = max(sum(at), int(k * drafts * 0.93))
        drafted -= drafted % k == 0
    return Counts(drafts, drafted, tuple(at), elapsed)


def _possible(rate: str, drafts: int) -> int:
    """How many counts print as this rate."""
    middle = int(float(rate) * drafts)
    reach = range(max(0, middle - drafts // 1000 - 2), min(drafts, middle + drafts // 1000 + 2) + 1)
    return sum(f"{n / drafts:.3f}" == rate for n in reach)


def plant_row(wording: Wording, counts: Counts, known_k: int | None) -> Row:
    """The cells that the speculation line alone gives."""
    c = counts
    cells: dict[str, Any] = {
        "drafted": c.drafted,
        "accepted": c.accepted,
        "wording": Anything() if wording.family is None else wording.family,
        "extra": Keys(wording.extra) if wording.extra else Anything() if wording.optional else None,
        "since_last_line_s": None,
    }
    if wording.throughput and float(printed := c.throughput(c.drafted)) > 0:
        cells["since_last_line_s"] = c.drafted / float(printed)
    if wording.rates:
        cells |= _with_rates(wording, c)
    else:
        cells |= _without_rates(c, known_k)
    return Row(cells, c.drafts, c.at)


def _positions(values: Sequence[Any]) -> dict[str, Any]:
    return {f"accepted_{position}": value for position, value in enumerate(values, start=1)}


def _with_rates(wording: Wording, c: Counts) -> dict[str, Any]:
    if c.drafted == 0:  # every draft was cut to nothing by a grammar, or nothing ran: no printed ratio says how many
        zero = [OrNull(0)] * c.k
        drafts = OrNull(0) if c.drafts == 0 else None
        return {"k": OrNull(c.k), "drafts": drafts, "drafts_exact": Anything(), "accepted_k_exact": Anything()} | _positions(zero)
    if c.full:
        alone = all(_possible(rate, c.drafts) == 1 for rate in c.rates().split(", ")) or c.accepted == 0
        at: list[Any] = [n if alone else Near(n, 0.0005 * c.drafts + 1) for n in c.at]
        exact = True if alone else Anything()
        return {"k": c.k, "drafts": c.drafts, "drafts_exact": True, "accepted_k_exact": exact} | _positions(at)
    above = c.accepted / c.drafts
    least, most = c.accepted / (above + 0.0051), c.accepted / max(above - 0.0051, 1e-9)
    reach = max(c.drafts - least, most - c.drafts) + 1
    estimated = [Near(n, n / c.drafts * reach + 0.0005 * c.drafts + 1, or_null=True) for n in c.at]
    assert wording.bonus is not None and math.isfinite(reach)
    return {
        "k": c.k,
        "drafts": Near(c.drafts, reach),
        "drafts_exact": False,
        "accepted_k_exact": Anything() if c.accepted == 0 else False,
    } | _positions(estimated)


def _without_rates(c: Counts, known_k: int | None) -> dict[str, Any]:
    if known_k is None:
        none_drafted = OrNull(0) if c.drafted == 0 else None
        exact = Anything() if c.drafted == 0 or c.accepted == 0 else False
        return {"k": None, "drafts": none_drafted, "drafts_exact": exact, "accepted_k_exact": exact}
    known_at = c.k == 1 or c.accepted == 0
    at = [OrNull(n) if known_at else None for n in c.at]
    return {"k": known_k, "drafts": OrNull(c.drafts), "drafts_exact": Anything(), "accepted_k_exact": Anything()} | _positions(at)
