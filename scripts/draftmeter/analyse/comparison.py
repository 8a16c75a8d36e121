"""The published figures, as the data file of the project gives them, beside the facts that can
stand beside them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from draftmeter.analyse.facts import AnalysisError
from draftmeter.facts import PRODUCTION_INTERVALS, Comparison, Fact, Structure

# Of the published study: figures of intervals stand beside those of intervals as long, figures by position beside as many.
INTERVAL_S = 10.0
MIN_DRAFTS = 500
SENSITIVITY = (100, 1000)
K = 3
OF_PRODUCTION = {
    "requests_finished": "requests",
    "mean_prompt_tokens": "mean_prompt_tokens",
    "mean_reply_tokens": "mean_reply_tokens",
    "drafts": "drafts",
    "draft_tokens": "draft_tokens",
    "accepted_over_drafted": "accepted_over_drafted",
    "share_through": "share_through_{}",
    "chance_at": "chance_{}",
    "tokens_per_step": "tokens_per_step",
    "accepted_over_checked": "accepted_over_checked",
}
OF_LINES = {
    "hours_counters": "hours_of_counters",
    "max_running_at_interval_end": "most_running",
    "largest_gap_lines_to_counters": "lines_vs_counters_gap",
}
OF_INTERVALS = {
    "lines": "lines",
    "hours_with_lines": "hours_with_lines",
    "autocorrelation": "autocorrelation_{}s",
    "mean_by_running": "running_{}",
}
AT_THRESHOLD = {"number": "qualifying", "lowest": "min", "highest": "max"}
ERRORS = {"value": "formula_{}", "error": "formula_{}_error", "error_last_terms": "formula_last_terms_error"}
FIFTHS = {"lowest": 1, "highest": 5}
UNDISTURBED = "runs with under 1% of other clients' tokens"
ALL_RUNS = "all runs; the published figure is of runs with under 1% of other clients' tokens"
OTHER_K = "drafts of {} tokens here, of 3 there"
Rows = Iterator[tuple[str, str, str]]


@dataclass(frozen=True)
class Published:
    """What the file says, every number as the text that was printed."""

    path: str
    content: dict[str, Any]

    @property
    def claims(self) -> dict[str, dict[str, str]]:
        """By name: its `figure`, `region`, and `margin` where that is not the published study's."""
        claims: dict[str, dict[str, str]] = self.content["claims"]
        return claims

    def figures(self, *keys: str) -> Iterator[tuple[tuple[str, ...], str]]:
        """The printed numbers below a place in the file, with the rest of their keys; a list has the keys "1", "2", ...

        Raises :class:`AnalysisError` where the file has no such place.
        """
        place: Any = self.content
        for depth, key in enumerate(keys, start=1):
            if not isinstance(place, dict) or key not in place:
                raise AnalysisError(f"{self.path}: no key {'.'.join(keys[:depth])}, whose figures a study is compared with")
            place = place[key]
        yield from _leaves(place, ())


def read_published(path: Path) -> Published:
    """Read published.yaml; raise :class:`AnalysisError` with the file's name when it is not what it should be."""
    try:
        # The base loader leaves numbers as they are printed: 0.660 has three digits.
        content = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    except (OSError, yaml.YAMLError) as error:
        raise AnalysisError(f"{path}: cannot be read as YAML: {error}") from error
    missing = [key for key in ("production", "controlled", "claims") if key not in (content or {})]
    if missing:
        raise AnalysisError(f"{path}: no key {', '.join(missing)}; it holds the published study's figures and claims")
    return Published(str(path), content)


def _leaves(place: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(place, dict):
        for key, below in place.items():
            yield from _leaves(below, (*keys, str(key)))
    elif isinstance(place, list):
        for number, below in enumerate(place, start=1):
            yield from _leaves(below, (*keys, str(number)))
    else:
        yield keys, str(place)


def comparison(
    published: Published,
    facts: Mapping[str, Fact],
    structure: Structure,
    production: str,
    stands_beside: Mapping[str, str],
    intervals: str | None,
) -> list[Comparison]:
    """One entry for each published figure that has a fact to stand beside, in the order of the file.

    `stands_beside` gives the published workload of each controlled one that has one; `intervals` is the subject of intervals
    of ten seconds at the published thresholds, None where there are none.
    """
    rows = [
        *_of_production(published, production, structure.subjects[production].k),
        *([] if intervals is None else _of_intervals(published, intervals)),
        *_of_controlled(published, stands_beside, structure),
    ]
    return [
        Comparison(key=key, published=float(printed), printed=printed, note=note) for key, printed, note in rows if key in facts
    ]


def _of_production(published: Published, production: str, k: int) -> Rows:
    note = "" if k == K else OTHER_K.format(k)
    for name, quantity in OF_PRODUCTION.items():
        for keys, printed in published.figures("production", name):
            depends = "" if name in ("requests_finished", "mean_prompt_tokens", "mean_reply_tokens", "drafts") else note
            yield f"{production}.{quantity.format(*keys)}", printed, depends
    for (rate, name), printed in published.figures("production", "formula"):
        yield f"{production}.{ERRORS[name].format(rate)}", printed, note
    for name, quantity in OF_LINES.items():
        for _, printed in published.figures("production", name):
            absolute = "printed without a sign" if name == "largest_gap_lines_to_counters" else ""
            yield f"{PRODUCTION_INTERVALS}.{quantity}", printed, absolute


def _of_intervals(published: Published, intervals: str) -> Rows:
    for name, quantity in OF_INTERVALS.items():
        for keys, printed in published.figures("production", name):
            yield f"{intervals}.{quantity.format(*(key.replace('+', 'plus') for key in keys))}", printed, ""
    for (threshold, name), printed in published.figures("production", "intervals"):
        at = "" if int(threshold) == MIN_DRAFTS else f".t{threshold}"
        yield f"{intervals}{at}.{AT_THRESHOLD.get(name, name)}", printed, ""
    for (fifth, position), printed in published.figures("production", "fifths"):
        yield f"{intervals}.fifth_{FIFTHS[fifth]}.chance_{position}", printed, ""
    for (end,), printed in published.figures("production", "step_rate", "correlation_with_tokens_per_step"):
        yield f"{intervals}.step_rate_correlation_{end}", printed, ""
    for _, printed in published.figures("production", "step_rate", "p90_over_p10_at_one_running"):
        yield f"{intervals}.step_rate_p90_over_p10", printed, ""


def _of_controlled(published: Published, stands_beside: Mapping[str, str], structure: Structure) -> Rows:
    undisturbed = {subject.part_of: name for name, subject in structure.subjects.items() if subject.kind == "undisturbed"}
    ours = {theirs: workload for workload, theirs in stands_beside.items()}
    for (name,), printed in published.figures("controlled", "accepted_over_drafted"):
        if name in ours:
            yield f"{ours[name]}.accepted_over_drafted", printed, ""
    for (name,), printed in published.figures("controlled", "other_clients", "accepted_over_drafted_runs_under_1_percent"):
        if name in ours:
            # Where no run was disturbed, all runs are those of which the published figure is.
            yield f"{undisturbed.get(ours[name], ours[name])}.accepted_over_drafted", printed, UNDISTURBED
    for (name, streams), printed in published.figures("controlled", "by_streams_runs_under_1_percent"):
        if name in ours:
            note = ALL_RUNS if ours[name] in undisturbed else ""
            yield f"{ours[name]}.streams_{streams}.accepted_over_drafted", printed, note
    for (name,), printed in published.figures("pair", "mean_reply_tokens"):
        if f"pair_{name}" in ours:
            yield f"{ours[f'pair_{name}']}.mean_reply_tokens", printed, ""
