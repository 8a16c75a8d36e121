"""Rule `analyse`: tables in, estimates out."""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.analyse.calibration import COLUMNS, read_known_answer
from draftmeter.analyse.comparison import read_published
from draftmeter.analyse.estimates import estimate
from draftmeter.analyse.figure_tables import CURVE_COLUMNS, FIFTH_COLUMNS, INTERVAL_COLUMNS, TIME_COLUMNS
from draftmeter.analyse.tables import read_tables, write_csv
from draftmeter.job import job
from draftmeter.strict import write_json
from draftmeter.study.archive import Archive
from draftmeter.study.config import parse_config
from draftmeter.study.schema import Study

if TYPE_CHECKING:
    from snakemake.script import snakemake

logger = logging.getLogger("analyse")
TABLES = ("counters", "intervals", "requests", "checks", "runs")


@dataclass(frozen=True)
class Outputs:
    """Where each output goes."""

    facts: Path
    table1: Path
    figure1_intervals: Path
    figure1_fifths: Path
    figure2: Path
    figure3: Path
    calibration: Path


def analyse(
    study: Study | Archive,
    tables: Mapping[str, Path],
    known_answer: Path | None,
    published: Path | None,
    out: Outputs,
) -> None:
    """Write all estimates of `study`. `tables` are those of TABLES by name."""
    logger.info("study %s: reading %d tables", study.study.name, len(tables))
    known = None if known_answer is None else read_known_answer(known_answer)
    beside = None if published is None else read_published(published)
    estimates = estimate(study, read_tables(**tables), known, beside)
    write_csv(out.table1, estimates.table1_columns, estimates.table1)
    write_csv(out.figure1_intervals, INTERVAL_COLUMNS, estimates.intervals)
    write_csv(out.figure1_fifths, FIFTH_COLUMNS, estimates.fifths)
    write_csv(out.figure2, TIME_COLUMNS, estimates.over_time)
    write_csv(out.figure3, CURVE_COLUMNS, estimates.curve)
    write_csv(out.calibration, COLUMNS, [row.model_dump(mode="json") for row in estimates.calibration])
    write_json(out.facts, estimates.facts)
    unknown = sum(fact["value"] is None for fact in estimates.facts["facts"].values())
    logger.info("%d facts, %d of them unknown", len(estimates.facts["facts"]), unknown)


def paths(given: str | Iterable[str] | None) -> list[Path]:
    """An input of a rule, which may be one file, several or none, as a sorted list."""
    return sorted(map(Path, [given] if isinstance(given, str) else given or []))


if __name__ == "__main__":
    with job(snakemake.log[0], ValueError):
        analyse(
            study=parse_config(json.loads(Path(snakemake.input.config).read_text())),
            tables={name: Path(snakemake.input[name]) for name in TABLES},
            known_answer=next(iter(paths(snakemake.input.get("known_answer"))), None),
            published=next(iter(paths(snakemake.input.get("published"))), None),
            out=Outputs(**{name: Path(path) for name, path in snakemake.output.items()}),
        )
