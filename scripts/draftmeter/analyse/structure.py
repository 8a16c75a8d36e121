"""What facts.json holds facts of: workloads and intervals with their parts, lags and loads, in
order."""

from collections.abc import Mapping, Sequence
from itertools import count

from draftmeter.facts import PRODUCTION_INTERVALS, REASONING, Fact, Lag, RunningMean, Structure, Subject
from draftmeter.stats.interval_statistics import FIFTHS


def structure_of(
    facts: Mapping[str, Fact],
    streams: Mapping[str, Sequence[int]],
    thresholds: Mapping[str, Sequence[int]],
    joined_s: float,
    lags: list[Lag],
    running: list[RunningMean],
) -> Structure:
    """The structure of `facts`. `streams` are those that each workload ran at, `thresholds` the
    further ones of each intervals.

    Of the subjects of intervals those that are not the production intervals themselves were joined
    to `joined_s` seconds.
    """
    subjects: dict[str, Subject] = {}

    def add(name: str, kind: str, part_of: str | None = None, number: float | None = None) -> None:
        subjects[name] = Subject.model_validate(
            {"kind": kind, "part_of": part_of, "number": number, "k": _positions(facts, name)}
        )

    for workload, rungs in streams.items():
        add(workload, "workload")
        if f"{workload}.under_1_percent.runs" in facts:
            add(f"{workload}.under_1_percent", "undisturbed", workload)
        for number in rungs:
            add(f"{workload}.streams_{number}", "streams", workload, number)
    for intervals, further in thresholds.items():
        add(intervals, "intervals", number=None if intervals == PRODUCTION_INTERVALS else joined_s)
        for number in range(1, FIFTHS + 1):
            if f"{intervals}.fifth_{number}.chance_1" in facts:
                add(f"{intervals}.fifth_{number}", "fifth", intervals, number)
        for min_drafts in further:
            add(f"{intervals}.t{min_drafts}", "threshold", intervals, min_drafts)
    if f"{REASONING}.reasoning_difference_pp" in facts:
        add(REASONING, "reasoning")
    return Structure(subjects=subjects, lags=lags, running=running)


def _positions(facts: Mapping[str, Fact], subject: str) -> int:
    return next(k for k in count() if f"{subject}.share_through_{k + 1}" not in facts)
