"""A vLLM server's /metrics text as a small frozen value, and the difference of two of them: the strict reading.

:func:`read_exposition` is the tolerant one, for servers and texts of others; :func:`relevant_lines` reduces a text.

Names are those of vLLM 0.9.2 and later. Every count is summed over the engines of a server.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from draftmeter.formats.exposition import Exposition, read_exposition
from draftmeter.formats.families import START_TIME, relevant_lines

__all__ = [
    "Counts",
    "Difference",
    "Exposition",
    "MetricsError",
    "Scrape",
    "count_changes",
    "difference",
    "quiet",
    "read_exposition",
    "read_scrape",
    "relevant_lines",
]

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
ACCEPTED_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
GENERATION_TOKENS = "vllm:generation_tokens_total"
PROMPT_TOKENS = "vllm:prompt_tokens_total"
REQUESTS_FINISHED = "vllm:request_success_total"
PREEMPTIONS = "vllm:num_preemptions_total"
CACHED_PROMPT_TOKENS = "vllm:prefix_cache_hits_total"
RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"

# Gauges that only the V0 engine has; its counter of accepted tokens also counts matches after a rejection.
V0_GAUGES = ("vllm:spec_decode_draft_acceptance_rate", "vllm:spec_decode_efficiency")


class MetricsError(ValueError):
    """A /metrics text that cannot be used: what was found, what would be right."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of a server: since its start (:class:`Scrape`) or between two scrapes (:class:`Difference`).

    `accepted_per_position` has K entries: drafts of which at least k tokens were accepted, k = 1..K. `accepted` and
    `accepted_per_position` are the verifier's, before a reply is cut at its end; `generation_tokens` is what left the
    server. `requests_finished` counts every finish reason. `cached_prompt_tokens` (prefix cache hits) and `preemptions`
    are null if the server does not count them.
    """

    drafts: int
    draft_tokens: int
    accepted: int
    accepted_per_position: tuple[int, ...]
    generation_tokens: int
    prompt_tokens: int
    requests_finished: int
    preemptions: int | None
    cached_prompt_tokens: int | None
    start_time: float | None
    """Start of the server process in Unix seconds; null where the platform or a multi-process server omits it."""

    @property
    def k(self) -> int:
        """K: draft tokens per step, the number of positions; 0 for a server without speculation."""
        return len(self.accepted_per_position)


@dataclass(frozen=True, slots=True)
class Scrape(Counts):
    """One reading of /metrics: the counters since the server's start, and the two gauges of the moment."""

    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Difference(Counts):
    """What changed between two scrapes, a count below 0 included: whether they read one process is a check of its own."""


def read_scrape(text: str, *, speculation: bool = True) -> Scrape:
    """Parse a /metrics text; raise :class:`MetricsError` if it is no vLLM exposition or has no usable speculation.

    Without `speculation`, of a server that is known to run so, it must have no counter of drafts: it made none.
    """
    samples = _read_samples(text)
    if speculation:
        _require_speculation(samples)
    elif DRAFTS in samples:
        raise MetricsError(f"found {DRAFTS}: this server speculates; expected one without speculation")
    return Scrape(
        drafts=_count(samples, DRAFTS) if speculation else 0,
        draft_tokens=_count(samples, DRAFT_TOKENS) if speculation else 0,
        accepted=_count(samples, ACCEPTED) if speculation else 0,
        accepted_per_position=_count_positions(samples[ACCEPTED_PER_POSITION]) if speculation else (),
        generation_tokens=_count(samples, GENERATION_TOKENS),
        prompt_tokens=_count(samples, PROMPT_TOKENS),
        requests_finished=_count(samples, REQUESTS_FINISHED),
        preemptions=_count_if_there(samples, PREEMPTIONS),
        cached_prompt_tokens=_count_if_there(samples, CACHED_PROMPT_TOKENS),
        start_time=_start_time(samples),
        running=_count(samples, RUNNING),
        waiting=_count(samples, WAITING),
    )


def quiet(before: str, after: str, *, speculation: bool = True) -> bool:
    """True if nothing runs or waits in both texts and no counter moved between them.

    A server sends a reply before it records the reply's last step, so an idle gauge alone is not enough.
    """
    first, second = (read_scrape(text, speculation=speculation) for text in (before, after))
    return first == second and second.running == 0 and second.waiting == 0


def difference(before: Scrape, after: Scrape) -> Difference:
    """After minus before, as it is; raise :class:`MetricsError` if the number of positions changed."""
    if before.k != after.k:
        raise MetricsError(f"{ACCEPTED_PER_POSITION}: {before.k} positions before, {after.k} after; K must not change")
    changes = count_changes(before, after)
    return Difference(
        drafts=changes["drafts"],
        draft_tokens=changes["draft_tokens"],
        accepted=changes["accepted"],
        accepted_per_position=tuple(changes[f"accepted_{k}"] for k in range(1, before.k + 1)),
        generation_tokens=changes["generation_tokens"],
        prompt_tokens=changes["prompt_tokens"],
        requests_finished=changes["requests_finished"],
        preemptions=changes.get("preemptions"),
        cached_prompt_tokens=changes.get("cached_prompt_tokens"),
        start_time=after.start_time,
    )


def count_changes(before: Scrape, after: Scrape) -> dict[str, int]:
    """By how much each counter changed, by name (the positions: `accepted_1` to `accepted_K`); nulls are left out."""
    old, new = _counters(before), _counters(after)
    return {name: new[name] - old[name] for name in old if name in new}


def _counters(scrape: Scrape) -> dict[str, int]:
    values = asdict(scrape)
    positions = values.pop("accepted_per_position")
    for name in ("start_time", "running", "waiting"):
        del values[name]
    values.update({f"accepted_{k}": count for k, count in enumerate(positions, start=1)})
    return {name: value for name, value in values.items() if value is not None}


def _read_samples(text: str) -> dict[str, list[Sample]]:
    """All samples by their name."""
    if not text.endswith("\n"):
        raise MetricsError("the metrics text is empty or cut short: a Prometheus exposition ends with a line feed")
    samples: dict[str, list[Sample]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append(sample)
    except ValueError as error:
        raise MetricsError(f"not a Prometheus text exposition: {error}") from error
    if not any(name.startswith("vllm:") for name in samples):
        raise MetricsError("no metric named vllm:... found; expected the /metrics text of a vLLM server")
    return samples


def _require_speculation(samples: Mapping[str, list[Sample]]) -> None:
    if any(gauge in samples for gauge in V0_GAUGES):
        raise MetricsError(
            f"found {' or '.join(V0_GAUGES)}: this is vLLM's V0 engine, whose counters mean something else; "
            "use vLLM 0.9.2 or later"
        )
    found = [name for name in (DRAFTS, DRAFT_TOKENS, ACCEPTED) if name in samples]
    if not found and ACCEPTED_PER_POSITION not in samples:
        raise MetricsError(
            f"no {DRAFTS} found: speculation is off on this server; start it with --speculative-config to measure it"
        )
    if ACCEPTED_PER_POSITION not in samples:
        raise MetricsError(
            f"found {', '.join(found)} but no {ACCEPTED_PER_POSITION}: this server predates per-position counters; "
            "use vLLM 0.9.2 or later"
        )


def _count(samples: Mapping[str, list[Sample]], name: str) -> int:
    """The sum of a family over engines and labels."""
    if name not in samples:
        raise MetricsError(f"no {name} found; expected the /metrics text of vLLM 0.9.2 or later")
    return sum(_whole(sample) for sample in samples[name])


def _count_if_there(samples: Mapping[str, list[Sample]], name: str) -> int | None:
    return _count(samples, name) if name in samples else None


def _count_positions(samples: Iterable[Sample]) -> tuple[int, ...]:
    totals: dict[int, int] = {}
    for sample in samples:
        label = sample.labels.get("position", "")
        if not label.isdecimal():
            raise MetricsError(f"{sample.name}: found labels {sample.labels}; expected position with a whole number")
        totals[int(label)] = totals.get(int(label), 0) + _whole(sample)
    if sorted(totals) != list(range(len(totals))):
        raise MetricsError(f"{ACCEPTED_PER_POSITION}: found positions {sorted(totals)}; expected 0, 1, ... K-1")
    return tuple(totals[position] for position in range(len(totals)))


def _start_time(samples: Mapping[str, list[Sample]]) -> float | None:
    found = samples.get(START_TIME, [])
    if len(found) > 1:
        raise MetricsError(f"{START_TIME}: found {len(found)} samples; expected one server process")
    return float(found[0].value) if found else None


def _whole(sample: Sample) -> int:
    if not math.isfinite(sample.value) or sample.value < 0 or sample.value != int(sample.value):
        raise MetricsError(f"{sample.name}{sample.labels}: found {sample.value}; expected a whole number of 0 or more")
    return int(sample.value)
