"""Several /metrics texts: of other servers, of one server read twice, or of what cannot be told apart.

The counts of a text are all since its server's start. Of two texts of one server the later one holds what the earlier one
counted, so that their difference is what happened between them, and their sum is nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cmp_to_key, partial
from itertools import combinations

from draftmeter.collect.counts import describe_rows, rows_between
from draftmeter.collect.source import METRICS_TEXTS, Source
from draftmeter.formats.metrics import Metrics, Related, Relation, relation

NOT_ADDED = "not_added"
"""The key of `found` that says why a source must not be added to others."""

Pair = tuple[int, int]


def join_texts(sources: Sequence[Source]) -> list[Source]:
    """The sources in their order, where all /metrics texts of one server and workload stand as one: last less first.

    Texts between which a server restarted, or that may be of two servers, stay apart: their `found` says under NOT_ADDED why
    they must not be added up. Texts of servers with other labels are left as they are.
    """
    read = [(place, source.metrics) for place, source in enumerate(sources) if source.metrics is not None]
    related = {
        (a, b): relation(first, second)
        for (a, first), (b, second) in combinations(read, 2)
        if sources[a].run.get("workload") == sources[b].run.get("workload")
    }
    result: list[Source | None] = list(sources)
    for group in _of_one_server([place for place, _ in read], related):
        if reason := next(_objections(sources, group, related), None):
            for place in group:
                sources[place].found[NOT_ADDED] = reason
            continue
        in_time = sorted(group, key=cmp_to_key(partial(_order, related)))
        for place in group:
            result[place] = None
        result[group[0]] = _joined([sources[place] for place in in_time])
    return [source for source in result if source is not None]


def _of_one_server(places: Sequence[int], related: Mapping[Pair, Related]) -> Iterator[list[int]]:
    """The places of texts that are not of other servers than each other, in groups of two or more."""
    groups: list[set[int]] = [{place} for place in places]
    for pair, found in related.items():
        if found.relation != Relation.OTHER_SERVERS:
            touched = [group for group in groups if group.intersection(pair)]
            groups = [group for group in groups if group not in touched] + [set().union(*touched)]
    yield from sorted(sorted(group) for group in groups if len(group) > 1)


def _objections(sources: Sequence[Source], group: Sequence[int], related: Mapping[Pair, Related]) -> Iterator[str]:
    """Why the texts of a group are not readings of one server process."""
    for a, b in combinations(group, 2):
        found = related[a, b]
        if found.relation in {Relation.RESTART_OR_TWO_SERVERS, Relation.OTHER_SERVERS}:
            yield (
                f"{sources[a].name} (the first text) and {sources[b].name} (the second) are neither added up nor subtracted: "
                f"the server restarted between them, or they are of two servers with the same labels ("
                f"{'; '.join(found.sentences)})"
            )


def _order(related: Mapping[Pair, Related], a: int, b: int) -> int:
    """-1 if the text at `a` is the earlier one, 1 if that at `b` is, 0 if both say the same."""
    swapped = a > b
    found = related[(b, a) if swapped else (a, b)].relation
    if found == Relation.SAME_READING:
        return 0
    return -1 if (found == Relation.A_THEN_B) != swapped else 1


def _joined(in_time: Sequence[Source]) -> Source:
    """The texts of one server as one source; where nothing was counted between them, the first of them stands for all."""
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
