"""Series as a Prometheus server stores them, back to the /metrics texts that it scraped.

Labels that Prometheus added, and others that all of a target's metrics share, are left out of the texts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftmeter.formats.families import NAME_PATTERN, START_TIME

Labels = Mapping[str, str]
NAME = "__name__"
EVERY_NAME = f'{NAME}=~"{NAME_PATTERN}"'
# What tells targets apart: the labels of every Prometheus, and those that are usual where several of them are joined.
TARGET_LABELS = ("job", "instance", "cluster", "prometheus", "prometheus_replica")
_ENGINE_LABELS = ("model_name", "engine", "position", "finished_reason")

_MATCHER = r"""\s*[a-zA-Z_]\w*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)\s*"""
_SELECTOR = re.compile(rf"\s*(?:[a-zA-Z_:][\w:]*\s*)?(?:\{{(?P<inner>(?:{_MATCHER}(?:,{_MATCHER})*,?)?\s*)\}})?\s*")
_BARE = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*")


class SelectorError(ValueError):
    """A selector that cannot be used: what was found, what would be right."""


@dataclass(frozen=True)
class Target:
    """One scraped server: how to select its series (PromQL matchers), and what of their labels its texts leave out."""

    labels: tuple[tuple[str, str], ...]
    models: tuple[str, ...]
    n_series: int
    shared: frozenset[str]

    @property
    def matchers(self) -> str:
        """PromQL matchers of exactly this target; a label that it lacks matches as empty."""
        return ",".join(f'{name}="{escaped(value)}"' for name, value in self.labels)

    @property
    def instance(self) -> str:
        """The target as Prometheus calls it, with further labels only if there is no instance."""
        return dict(self.labels)["instance"] or ",".join(f"{name}={value}" for name, value in self.labels if value)


def matchers_of(selector: str) -> str:
    """The matchers inside a selector such as ``{job="vllm"}``, for use beside :data:`EVERY_NAME`; empty for an empty one.

    A metric's name in front is dropped, because draftmeter asks for all metrics that it uses. Raises :class:`SelectorError`.
    """
    match = _SELECTOR.fullmatch(selector)
    inner = match["inner"] or "" if match else selector if _BARE.fullmatch(selector) else None
    if inner is None or NAME in inner:
        raise SelectorError(
            f'selector: found {selector!r}; expected labels in braces such as {{job="vllm"}} '
            "(no function, no range, no __name__: draftmeter asks for the metrics that it uses)"
        )
    return inner.strip().strip(",").strip()


def targets_of(series: Iterable[Labels]) -> list[Target]:
    """The targets that these series (of vLLM's metrics) come from, sorted by their labels."""
    grouped: dict[tuple[tuple[str, str], ...], list[Labels]] = {}
    for labels in series:
        key = tuple((name, labels.get(name, "")) for name in TARGET_LABELS)
        grouped.setdefault(key, []).append(labels)
    targets = []
    for key, members in sorted(grouped.items()):
        names = {name for labels in members for name in labels} - {NAME, *_ENGINE_LABELS}
        shared = frozenset(name for name in names if len({labels.get(name) for labels in members}) == 1)
        models = tuple(sorted({labels["model_name"] for labels in members if "model_name" in labels}))
        targets.append(Target(key, models, len(members), shared | set(TARGET_LABELS)))
    return targets


def folder_names(targets: Sequence[Target]) -> list[str]:
    """A folder's name for each target: its instance; with further labels where instances repeat."""
    instances = [target.instance for target in targets]
    names: list[str] = []
    for target, instance in zip(targets, instances, strict=True):
        parts = [instance] if instances.count(instance) == 1 else [value for _, value in target.labels if value]
        name = re.sub(r"[^A-Za-z0-9-]+", "_", "_".join(parts)).strip("_") or "target"
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    return names


def texts(
    series: Iterable[tuple[Labels, Sequence[tuple[float, str]]]],
    starts: Iterable[tuple[Labels, Sequence[tuple[float, str]]]],
    target: Target,
) -> Iterator[tuple[float, str]]:
    """The texts of the scrapes, in order of time, from samples as (Unix seconds, number as Prometheus writes it).

    All samples of one scrape have its time. `starts` are the process start times; one alone makes no text.
    """
    lines: dict[float, list[str]] = {}
    for labels, samples in series:
        head = _series_text(labels, target.shared)
        for t, number in samples:
            lines.setdefault(t, []).append(f"{head} {number}\n")
    for labels, samples in starts:
        head = _series_text(labels, target.shared)
        for t, number in samples:
            if t in lines:
                lines[t].append(f"{head} {number}\n")
    for t in sorted(lines):
        yield t, "".join(lines[t])


def start_time_selector(target: Target) -> str:
    """The selector of a target's process start time, which has no labels of vLLM."""
    return f"{START_TIME}{{{target.matchers}}}"


def escaped(value: str) -> str:
    """A label's value as it stands between double quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _series_text(labels: Labels, shared: frozenset[str]) -> str:
    kept = [f'{name}="{escaped(value)}"' for name, value in sorted(labels.items()) if name != NAME and name not in shared]
    return f"{labels[NAME]}{{{','.join(kept)}}}" if kept else labels[NAME]
