"""What a server would print, from numbers that a test plants: /metrics texts and statistics lines.

The wording is the server's (vLLM 0.32); the numbers and names are made up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

PREFIX = "(APIServer pid=71) INFO {stamp} [{source}] "
ENGINE = (
    "Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, "
    "Waiting: %d reqs, CPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%"
)
SPECULATION = (
    "SpecDecoding metrics: Mean acceptance length: %.2f, Accepted throughput: %.2f tokens/s, "
    "Drafted throughput: %.2f tokens/s, Accepted: %d tokens, Drafted: %d tokens, "
    "Per-position acceptance rate: %s, Avg Draft acceptance rate: %.1f%%"
)
# Lines of other wordings, as those servers printed them: one of 2025, and a cumulative one of the V0 engine.
RATE_FIRST = (
    "INFO 11-30 05:11:52 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: 66.7%, "
    "Mean acceptance length: 3.00, Accepted: 20 tokens, Drafted: 30 tokens, "
    "Per-position acceptance rate: 0.900, 0.700, 0.400"
)
V0 = (
    "INFO 02-06 03:05:53 metrics.py:475] Speculative metrics: Draft acceptance rate: 0.200, System efficiency: 0.167, "
    "Number of speculative tokens: 5, Number of accepted tokens: 1, Number of draft tokens: 5, Number of emitted tokens: 1."
)


@dataclass
class ServerState:
    """Counters of one engine; `histogram` has K + 1 counts of drafts with 0, 1, ... K accepted tokens."""

    histogram: Sequence[int]
    generation_tokens: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0})
    running: int = 0
    waiting: int = 0
    draft_tokens: int | None = None

    def accepted_at(self) -> list[int]:
        return [sum(self.histogram[k:]) for k in range(1, len(self.histogram))]


def exposition(
    *engines: ServerState,
    start_time: float | None = 1796000000.25,
    without: Sequence[str] = (),
    also: Sequence[str] = (),
) -> str:
    """A /metrics text of one server with these engines; `without` and `also` leave out or add families by name."""
    registry = CollectorRegistry()
    families: dict[str, Counter | Gauge] = {}

    def put(kind: type[Counter] | type[Gauge], name: str, number: int, value: float, **labels: str) -> None:
        if name in without:
            return
        labels = {"model_name": "made-up", "engine": str(number), **labels}
        if name not in families:
            families[name] = kind(name, "made up", list(labels), registry=registry)
        child = families[name].labels(**labels)
        child.inc(value)

    for number, state in enumerate(engines):
        drafts, at = sum(state.histogram), state.accepted_at()
        drafted = drafts * len(at) if state.draft_tokens is None else state.draft_tokens
        put(Counter, "vllm:spec_decode_num_drafts", number, drafts)
        put(Counter, "vllm:spec_decode_num_draft_tokens", number, drafted)
        put(Counter, "vllm:spec_decode_num_accepted_tokens", number, sum(at))
        for position, count in enumerate(at):
            put(Counter, "vllm:spec_decode_num_accepted_tokens_per_pos", number, count, position=str(position))
        put(Counter, "vllm:generation_tokens", number, state.generation_tokens)
        put(Counter, "vllm:prompt_tokens", number, state.prompt_tokens)
        put(Counter, "vllm:prefix_cache_hits", number, state.cached_prompt_tokens)
        put(Counter, "vllm:num_preemptions", number, 0)
        for reason, count in state.finished.items():
            put(Counter, "vllm:request_success", number, count, finished_reason=reason)
        put(Gauge, "vllm:num_requests_running", number, state.running)
        put(Gauge, "vllm:num_requests_waiting", number, state.waiting)
        for name in also:
            put(Gauge, name, number, 0.5)
    if start_time is not None:
        Gauge("process_start_time_seconds", "made up", registry=registry).set(start_time)
    return generate_latest(registry).decode()


def engine_line(stamp: str, *, running: int = 2, waiting: int = 0, prefix: str = PREFIX) -> str:
    """An Engine line at `stamp` (month-day hours:minutes:seconds)."""
    return prefix.format(stamp=stamp, source="loggers.py:335") + ENGINE % (0.5, 30, running, waiting, 1.3, 12.5)


def speculation_line(stamp: str, histogram: Sequence[int], *, drafted: int | None = None, prefix: str = PREFIX) -> str:
    """The SpecDecoding line of an interval with these drafts; `drafted` below K a draft makes some drafts short."""
    k = len(histogram) - 1
    drafts = sum(histogram)
    at = [sum(histogram[position:]) for position in range(1, k + 1)]
    accepted = sum(at)
    drafted = drafts * k if drafted is None else drafted
    rates = ", ".join(f"{count / drafts:.3f}" for count in at)
    values = (1 + accepted / drafts, accepted / 2, drafted / 2, accepted, drafted, rates, 100 * accepted / drafted)
    return prefix.format(stamp=stamp, source="metrics.py:120") + SPECULATION % values
