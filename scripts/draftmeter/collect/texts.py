"""Several /metrics texts: of other servers, of one read twice, or of what cannot be told apart.

The counts of a text are all since its server's start. Of two texts of one server the later one
holds what the earlier one counted, so that their difference is what happened between them, and
their sum is nothing.
"""

from collections.abc import Sequence
from functools import cmp_to_key
from itertools import pairwise

from draftmeter.collect.counter_rows import describe_rows, rows_between
from draftmeter.collect.source import METRICS_TEXTS, Source
from draftmeter.formats.metrics import Metrics, Relation, relation

NOT_ADDED = "not_added"
"""The key of `found` that says why a source must not be added to others."""


def join_texts(sources: Sequence[Source]) -> list[Source]:
    """The sources in their order, all /metrics texts of one server and workload as one of them.

    Its counts are those of the last text less those of the first. Texts between which a server
    restarted, or that may be of two servers, stay apart: their `found` says under NOT_ADDED why
    they must not be added up. Texts of servers with other labels are left as they are.
    """
    result: list[Source | None] = list(sources)
    for group in _with_the_same_labels(sources):
        in_time = sorted((sources[place] for place in group), key=cmp_to_key(_earlier))
        if reason := _objection(in_time):
            for source in in_time:
                source.found[NOT_ADDED] = reason
            continue
        for place in group:
            result[place] = None
        result[group[0]] = _joined(in_time)
    return [source for source in result if source is not None]


def _with_the_same_labels(sources: Sequence[Source]) -> list[list[int]]:
    """The places of texts that share engines, in groups of two or more; a workload has its own."""
    groups: list[tuple[set[object], list[int]]] = []
    for place, source in enumerate(sources):
        if source.metrics is not None:
            workload = source.run.get("workload")
            keys: set[object] = {(workload, reading.key) for reading in source.metrics.engines}
            shared = [group for group in groups if group[0] & keys]
            joined = (keys.union(*(group[0] for group in shared)), [*(n for group in shared for n in group[1]), place])
            groups = [*(group for group in groups if group not in shared), joined]
    return sorted(sorted(places) for _, places in groups if len(places) > 1)


def _earlier(one: Source, other: Source) -> int:
    """-1 if `one` was read before `other`, 1 if after; 0 where that cannot be told."""
    found = relation(_metrics_of(one), _metrics_of(other)).relation
    return {Relation.A_THEN_B: -1, Relation.B_THEN_A: 1}.get(found, 0)


def _objection(in_time: Sequence[Source]) -> str | None:
    """Why texts are not readings of one server process, by the first two that are not."""
    for one, other in pairwise(in_time):
        related = relation(_metrics_of(one), _metrics_of(other))
        if related.relation not in {Relation.A_THEN_B, Relation.SAME_READING}:
            return (
                f"{one.name} (the first text) and {other.name} (the second) are neither added up nor subtracted: the server "
                f"restarted between them, or they are of two servers with the same labels ({'; '.join(related.sentences)})"
            )
    return None


def _joined(in_time: Sequence[Source]) -> Source:
    """The texts of one server as one source.

    Where nothing was counted between them, the first of them stands for all.
    """
    first, last = in_time[0], in_time[-1]
    before, after = _metrics_of(first), _metrics_of(last)
    related = relation(before, after)
    others = [source.name for source in in_time[1:-1]]
    between = f"; what lies between is in both: {', '.join(others)}" if others else ""
    if related.relation == Relation.SAME_READING:
        same = ", ".join(source.name for source in in_time)
        first.found["warnings"] = [f"{same} hold the same counts of one server: they are counted once", *first.found["warnings"]]
        return first
    name = f"{last.name} less {first.name}"
    rows = [{**row, "restarts": 0} for row in rows_between(name, before, after)]
    said = f"the counts are those of {last.name} (after) less those of {first.name} (before), two readings of one server"
    found = {
        "kind": METRICS_TEXTS,
        "before": first.name,
        "after": last.name,
        **describe_rows(rows),
        "unknown": dict.fromkeys(("start", "end", "seconds"), "a /metrics text does not say when it was read"),
        "warnings": [f"{said}{between}", *dict.fromkeys([*before.problems, *after.problems])],
    }
    return Source(name, METRICS_TEXTS, found, counters=rows, run=last.run)


def _metrics_of(source: Source) -> Metrics:
    assert source.metrics is not None
    return source.metrics
