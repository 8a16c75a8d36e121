"""The metric families of vLLM that draftmeter uses, their spellings, and the lines of a /metrics text that hold them.

Ray Serve writes every character that it does not allow as ``_``, puts ``ray_`` in front and may leave out ``_total``:
``vllm:generation_tokens_total`` is also ``ray_vllm_generation_tokens_total`` or ``ray_vllm_generation_tokens``.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

COUNTERS = {
    "spec_decode_num_drafts": "drafts",
    "spec_decode_num_draft_tokens": "draft_tokens",
    "spec_decode_num_accepted_tokens": "accepted",
    "spec_decode_num_accepted_tokens_per_pos": "accepted_per_position",
    "generation_tokens": "generation_tokens",
    "prompt_tokens": "prompt_tokens",
    "prefix_cache_hits": "cached_prompt_tokens",
    "prefix_cache_queries": "prefix_cache_queries",
    "request_success": "requests_finished",
    "num_preemptions": "preemptions",
}
"""Family without prefix and ``_total`` -> draftmeter's name. 0.8.5 counts ``gpu_prefix_cache_hits`` in blocks: not used."""

GAUGES = {
    "num_requests_running": "running",
    "num_requests_waiting": "waiting",
    "kv_cache_usage_perc": "kv_cache_usage",
    "gpu_cache_usage_perc": "kv_cache_usage_old_name",
}
"""Versions between 0.9 and 0.11 show the KV usage under both names."""

# The V0 engine: its counters have V1's names, but its accepted tokens include matches after a rejection.
V0_FAMILIES = ("spec_decode_draft_acceptance_rate", "spec_decode_efficiency", "spec_decode_num_emitted_tokens")
DIFFUSION_FAMILIES = ("diffusion_num_denoising_steps",)
START_TIME = "process_start_time_seconds"

_FAMILIES = "|".join(sorted((*COUNTERS, *GAUGES, *V0_FAMILIES, *DIFFUSION_FAMILIES), key=len, reverse=True))
NAME_PATTERN = rf"(?:ray_)?vllm[:_](?:(?:{_FAMILIES})(?:_total)?|generation_tokens_created)"
"""Every spelling of the families, as a regular expression that Prometheus' own syntax (RE2) reads too.

Of the times at which counters were created it asks for one, of a family that every version has: all of
them would double what is fetched and kept. In a text that shows others, they are read as well.
"""

_NAME = re.compile(rf"(?:ray_)?vllm[:_](?P<family>{_FAMILIES})(?P<suffix>_total|_created)?")
_KEPT_LINE = re.compile(rf"^[ \t]*(?:{NAME_PATTERN}|{START_TIME})[{{ \t][^\n]*\n", re.MULTILINE)
_LINE = re.compile(rf"^[ \t]*(?:(?:ray_)?vllm[:_](?:{_FAMILIES})(?:_total|_created)?|{START_TIME})[{{ \t][^\n]*\n", re.MULTILINE)
_ANY_SAMPLE = re.compile(r"^[ \t]*[A-Za-z_:][\w:]*(?:\{[^\n]*\})?[ \t]+[-+\d.NI]", re.MULTILINE)


class Series(NamedTuple):
    """Family, suffix (``_total``, ``_created`` or nothing) and labels as sorted pairs."""

    family: str
    suffix: str
    labels: tuple[tuple[str, str], ...]


class Value(NamedTuple):
    """One sample: its series, and the number as it is."""

    series: Series
    number: float


class BadLine(NamedTuple):
    """A line of a family that draftmeter uses, which the Prometheus client's parser refuses; `problem` is a sentence."""

    problem: str


def relevant_lines(text: str) -> str:
    """The lines of a /metrics text that draftmeter keeps, unchanged and in order; empty if there are none.

    Help, types, histograms and other programs' metrics are left out, and so is a last line without its line feed, which
    may be cut short: its number cannot be trusted.
    """
    return "".join(_KEPT_LINE.findall(text))


def has_samples(text: str) -> bool:
    """Whether any line looks like a sample of a Prometheus text, whoever's metric it is."""
    return _ANY_SAMPLE.search(text) is not None


def read_values(text: str) -> Iterator[Value | BadLine]:
    """The samples that draftmeter uses, in order; a line that cannot be read comes as what is wrong with it."""
    for line in _LINE.findall(text):
        try:
            yield _read(line.strip())
        except ValueError:
            yield BadLine(f"found the line {line.strip()[:120]!r}; expected a metric's name, labels in braces and a number")


def _read(line: str) -> Value:
    before, brace, after = line.rpartition("}")
    if not brace:
        before, _, after = line.replace("\t", " ").partition(" ")
    if "#" in after or " # {" in before:
        # An exemplar follows the number: only the parser can tell them apart.
        return _parse(line)
    number = after.split()[0] if after.strip() else ""
    if "_" in number:
        raise ValueError(number)
    return Value(_parse(f"{before}{brace} 0").series, float(number))


@lru_cache(maxsize=4096)
def _parse(line: str) -> Value:
    """Read one line with the Prometheus client's parser. A server shows the same series in each scrape: kept."""
    (family,) = text_string_to_metric_families(line + "\n")
    (sample,) = family.samples
    match = _NAME.fullmatch(sample.name)
    labels = tuple(sorted(sample.labels.items()))
    series = Series(match["family"], match["suffix"] or "", labels) if match else Series(sample.name, "", labels)
    return Value(series, float(sample.value))
