"""From tables to what results/estimates holds: the facts, the rows of Table 1 and of the figures, the calibration."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from draftmeter.analyse.calibration import KnownAnswer, calibrate
from draftmeter.analyse.claims import judge, published_claims
from draftmeter.analyse.comparison import INTERVAL_S, MIN_DRAFTS, SENSITIVITY, Published, comparison
from draftmeter.analyse.facts import AnalysisError, rounded
from draftmeter.analyse.figure_tables import curve_rows, fifth_rows, interval_rows, time_rows
from draftmeter.analyse.findings import find
from draftmeter.analyse.interval_estimates import IntervalEstimates, interval_estimates
from draftmeter.analyse.interval_facts import RUNNING_MEANS, fifth_facts, interval_facts, lags_of
from draftmeter.analyse.interval_series import categories_of, joined, workload_intervals
from draftmeter.analyse.reasoning import pair_facts
from draftmeter.analyse.setup import server_differences, setup_rows
from draftmeter.analyse.streams import facts_of_runs
from draftmeter.analyse.structure import structure_of
from draftmeter.analyse.table1 import keys_of, table1_rows
from draftmeter.analyse.tables import Measured, Tables, numbers, run_labels
from draftmeter.analyse.with_and_without import reply_facts, runs_with_and_without, speed_facts
from draftmeter.facts import PRODUCTION_INTERVALS, CalibrationRow, Claim, Comparison, Fact, Structure
from draftmeter.study.archive import Archive
from draftmeter.study.plan import derive_seed
from draftmeter.study.schema import Study

JOINED = f"{PRODUCTION_INTERVALS}_{INTERVAL_S:g}s"

Row = dict[str, Any]


@dataclass(frozen=True)
class Estimates:
    """`facts` is the content of facts.json; the rest are the rows of the csv files, and Table 1's columns."""

    facts: dict[str, Any]
    table1_columns: list[str]
    table1: list[Row]
    intervals: list[Row]
    fifths: list[Row]
    over_time: list[Row]
    curve: list[Row]
    calibration: list[CalibrationRow]


def estimate(study: Study | Archive, tables: Tables, known: KnownAnswer | None, published: Published | None) -> Estimates:
    """Everything the analysis has to say. `known` are the exact figures of a known-answer model that was served.

    A study of a served model is compared with what was `published`; its runs of a known-answer model calibrate, and no more.
    """
    _require_kind(study, tables, known, published)
    _require_workloads(study, tables)
    measured = _measured(study, tables)
    production_of, controlled = _reported(study, measured)
    facts, labels = _all_workloads(study, measured, [production_of, *controlled])
    production = measured.of(production_of)
    seed, analysis = study.study.seed, study.analysis
    log = workload_intervals(production.intervals, production.k)
    found = interval_estimates(
        log,
        analysis.min_drafts,
        analysis.min_drafts_sensitivity,
        analysis,
        derive_seed(seed, "analyse", PRODUCTION_INTERVALS),
        categories_of(log, production.requests),
    )
    fifths = fifth_facts(found, production.k)
    own = interval_facts(found, production.k, fifths, production, analysis.min_drafts_sensitivity)
    facts |= {f"{PRODUCTION_INTERVALS}.{quantity}": fact for quantity, fact in own.items()}
    facts |= pair_facts(controlled, measured, analysis.confidence)
    claims: list[Claim] = []
    compared: list[Comparison] = []
    if published is not None:
        facts |= _joined_facts(study, found, production.k)
    structure = structure_of(
        facts,
        streams={one.name: measured.of(one).streams for one in labels},
        thresholds={PRODUCTION_INTERVALS: analysis.min_drafts_sensitivity}
        | ({JOINED: SENSITIVITY} if f"{JOINED}.lines" in facts else {}),
        joined_s=INTERVAL_S,
        lags=lags_of(found),
        running=RUNNING_MEANS,
    )
    if published is not None:
        claims, compared = _beside(published, study, controlled, facts, structure)
    calibration = [] if known is None else calibrate(study, tables, known)
    words = {one.name: label for one, label in labels.items()}
    columns, table1 = table1_rows(production_of, controlled, words, measured, facts, structure)
    content = {
        "study": {
            "name": study.study.name,
            "title": study.study.title,
            "kind": study.study.kind,
            "seed": study.study.seed,
            "archive": isinstance(study, Archive),
            "scale": None if isinstance(study, Archive) else study.study.scale,
            "confidence": analysis.confidence,
            "z_limit": analysis.z_limit,
            "authors": study.report.authors,
        },
        "setup": [row.model_dump(mode="json") for row in setup_rows(tables)],
        "differences": [one.model_dump(mode="json") for one in server_differences(measured)],
        "facts": {key: fact.model_dump(mode="json") for key, fact in facts.items()},
        "labels": words,
        "structure": structure.model_dump(mode="json"),
        "findings": find(facts, structure, study.report.production, analysis.confidence).model_dump(mode="json"),
        "table1": [keys_of(row, facts, structure) for row in table1],
        "claims": [claim.model_dump(mode="json") for claim in claims],
        "comparison": [row.model_dump(mode="json") for row in compared],
        "calibration": [row.model_dump(mode="json") for row in calibration],
        "checks": summarise_checks(tables.checks),
    }
    return Estimates(
        facts=content,
        table1_columns=columns,
        table1=table1,
        intervals=list(interval_rows(log, analysis.min_drafts)),
        fifths=fifth_rows(fifths),
        over_time=list(time_rows(log, analysis.min_drafts)),
        curve=list(curve_rows(found)),
        calibration=calibration,
    )


def _reported(study: Study | Archive, tables: Tables) -> tuple[Measured, list[Measured]]:
    """What the rows of Table 1 are of: production, and the controlled workloads on each server that ran them."""
    drafting = set(tables.counters.loc[tables.drafting, "workload"].astype(str))
    for workload in [study.report.production, *study.report.controlled]:
        if workload not in drafting:
            raise AnalysisError(
                f"table counters: no record of workload {workload!r}, which the report needs, from a server that makes drafts; "
                "known-answer models beside another one, and runs without speculation, do not count"
            )
    production = tables.measured(study.report.production)
    if len(production) > 1:
        raise AnalysisError(
            f"report.production: the records of {study.report.production!r} are of the servers "
            f"{', '.join(str(one.server) for one in production)}; its intervals are the time series of one"
        )
    return production[0], [one for workload in study.report.controlled for one in tables.measured(workload)]


def _require_kind(study: Study | Archive, tables: Tables, known: KnownAnswer | None, published: Published | None) -> None:
    kind = study.study.kind
    records = tables.described
    others = sorted(set(records["study_kind"]) - {kind})
    if others:
        raise AnalysisError(f"study.kind: found {kind}, but the records say {', '.join(others)}; give the kind of the records")
    served = kind == "known_answer" or bool(records["of_known_answer"].any())
    if (known is not None) != served and not (known is None and isinstance(study, Archive)):
        raise AnalysisError(
            f"study.kind: found {kind} {'without' if known is None else 'with'} a known_answer.json; "
            "it goes with records of a known-answer model, and they with it"
        )
    if published is not None and kind == "known_answer":
        raise AnalysisError(
            "study.kind: found known_answer with published figures; what was set by construction is never compared"
        )


def summarise_checks(checks: pd.DataFrame) -> dict[str, Any]:
    """By check: how many records were ok, failed or unknown, and the largest residual without its sign."""
    summary: dict[str, Any] = {}
    for name, rows in checks.groupby("check", sort=True):
        residuals = [abs(value) for value in numbers(rows, "residual") if value == value]  # noqa: PLR0124
        counts = {status: int((rows["status"] == status).sum()) for status in ("ok", "failed", "unknown")}
        units = sorted(set(rows["unit"].astype(str)))
        largest = rounded(max(residuals)) if residuals else None
        summary[str(name)] = {**counts, "max_abs_residual": largest, "unit": "; ".join(units)}
    return summary


def _require_workloads(study: Study | Archive, tables: Tables) -> None:
    strangers = sorted(set(tables.counters["workload"].astype(str)) - set(study.workloads))
    if strangers:
        raise AnalysisError(f"table counters: workload {strangers[0]!r} is not in the config; it has {sorted(study.workloads)}")


def _measured(study: Study | Archive, tables: Tables) -> Tables:
    """The rows of what the study is about: beside another model, a known-answer model shows only that the instrument is right."""
    records = tables.described
    calibrating = run_labels(records[records["of_known_answer"].astype(bool)])
    if study.study.kind == "known_answer" or calibrating.empty:
        return tables
    return tables.of_runs(tables.counters[~run_labels(tables.counters).isin(calibrating)])


def _all_workloads(
    study: Study | Archive, tables: Tables, reported: Sequence[Measured]
) -> tuple[dict[str, Fact], dict[Measured, str]]:
    """The facts of all that was measured, and their labels: those of Table 1 first, then in the order of the config."""
    drafting = set(tables.counters.loc[tables.drafting, "workload"].astype(str))
    others = [one for workload in study.workloads if workload in drafting for one in tables.measured(workload)]
    pairs = runs_with_and_without(tables)
    confidence = study.analysis.confidence
    facts: dict[str, Fact] = {}
    measured = list(dict.fromkeys([*reported, *sorted(others, key=lambda one: one.name)]))
    for one in measured:
        cluster = study.workloads[one.workload].clusters
        facts |= facts_of_runs(one.name, tables.of(one), cluster, study.analysis, study.study.seed)
        facts |= speed_facts([pair for pair in pairs if pair.measured == one], confidence)
        facts |= reply_facts(one, tables, pairs, confidence)
    named = dict.fromkeys([*reported, *others])
    return facts, {one: _label(study, one) for one in named}


def _label(study: Study | Archive, measured: Measured) -> str:
    label = study.workloads[measured.workload].label
    return label if measured.server is None else f"{label} ({measured.server})"


def _joined_facts(study: Study | Archive, found: IntervalEstimates, k: int) -> dict[str, Fact]:
    """The interval facts of shorter log intervals joined to those of the published study, at its thresholds."""
    if found.log.window_s == INTERVAL_S:
        return {}
    log = joined(found.log, INTERVAL_S)
    if log is None:
        return {}
    longer = interval_estimates(
        log, MIN_DRAFTS, list(SENSITIVITY), study.analysis, derive_seed(study.study.seed, "analyse", JOINED)
    )
    facts = interval_facts(longer, k, fifth_facts(longer, k), None, list(SENSITIVITY))
    return {f"{JOINED}.{quantity}": fact for quantity, fact in facts.items()}


def _beside(
    published: Published, study: Study | Archive, controlled: Sequence[Measured], facts: dict[str, Fact], structure: Structure
) -> tuple[list[Claim], list[Comparison]]:
    """Claims and comparison. Intervals of another length can still answer claims, but have no figure to compare.

    Of a workload that several servers ran, the first one's figures stand beside the published ones.
    """
    report, analysis = study.report, study.analysis
    first = {one.workload: one.name for one in reversed(controlled)}
    beside = {first[workload]: theirs for workload, theirs in report.published.items()}
    intervals, sensitivity = PRODUCTION_INTERVALS, analysis.min_drafts_sensitivity
    if JOINED in structure.subjects:
        intervals, sensitivity = JOINED, list(SENSITIVITY)
    as_long = any(lag.seconds == INTERVAL_S for lag in structure.lags)
    alike = intervals == JOINED or (as_long and analysis.min_drafts == MIN_DRAFTS)
    synthetic = next((name for name, theirs in beside.items() if theirs == "synthetic"), None)
    claims = published_claims(
        facts,
        report.production,
        [one.name for one in controlled],
        intervals,
        sensitivity,
        synthetic,
        structure.subjects[report.production].k,
    )
    regions = {name: _region(claim) for name, claim in published.claims.items()}
    rows = comparison(published, facts, structure, report.production, beside, intervals if alike else None)
    return judge(claims, facts, regions), rows


def _region(claim: dict[str, str]) -> str:
    return claim["region"] + (" (a margin of draftmeter's own)" if claim.get("margin") == "own" else "")
