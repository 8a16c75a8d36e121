"""What a server without speculation, and a known-answer model beside the study, let the note say."""

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from draftmeter.facts import Side
from draftmeter.render.facts import Facts, NamedFact


@dataclass(frozen=True)
class SpeedRow:
    """One workload at one number of streams that ran with speculation and without."""

    label: str
    streams: int
    subject: str
    speedup: NamedFact
    side: Side
    """On which side of 1 the whole interval lies: faster or slower with speculation."""


@dataclass(frozen=True)
class LabelledSubject:
    """A workload by its label."""

    label: str
    subject: str


def beside_context(facts: Facts) -> dict[str, Any]:
    """The names that the template uses for speed, replies, and servers beside the study; all empty where there is nothing."""
    speeds = _speeds(facts)
    known = [row for row in speeds if row.speedup.value is not None]
    sure = [row for row in known if row.speedup.low is not None] or known
    calibrating = {row.server for row in facts.calibration} if facts.study.kind == "served_model" else set()
    calibrators = [row for row in facts.setup if row.server in calibrating]
    others = [row for row in facts.setup if row.server not in calibrating]
    compared = [row for row in others if row.source is None]
    return {
        "speeds": speeds,
        "speeds_known": known,
        "faster": _by_workload(speeds, "above"),
        "slower": _by_workload(speeds, "below"),
        "untold": _by_workload(speeds, "cannot tell", "unknown"),
        "least_sped": min(sure, key=lambda row: row.speedup.value or 0.0, default=None),
        "most_sped": max(sure, key=lambda row: row.speedup.value or 0.0, default=None),
        "baselines": [row for row in facts.setup if row.k == 0],
        "calibrators": calibrators,
        "calibrated_alike": len({(row.engine_version, row.hardware) for row in [*calibrators, *compared]}) == 1,
        "on_cpu": {row.processor for row in compared} == {"CPU"},
        "same_replies": _having(facts, "same_replies"),
        "scored": _having(facts, "score"),
    }


def _speeds(facts: Facts) -> list[SpeedRow]:
    rows = []
    for workload, label in facts.labels.items():
        for streams, subject in facts.streams(workload).items():
            if facts.has(subject, "speedup"):
                speedup = facts.fact(subject, "speedup")
                rows.append(SpeedRow(label, streams, subject, speedup, facts.findings.speedups[subject]))
    return rows


def _by_workload(speeds: list[SpeedRow], *sides: Side) -> list[list[SpeedRow]]:
    """Those on one of the `sides`, the rows of one workload together."""
    chosen = [row for row in speeds if row.side in sides]
    return [list(rows) for _, rows in groupby(chosen, key=lambda row: row.label)]


def _having(facts: Facts, quantity: str) -> list[LabelledSubject]:
    return [LabelledSubject(label, name) for name, label in facts.labels.items() if facts.has(name, quantity)]
