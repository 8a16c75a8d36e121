"""Rule `check_results`: write checked.json only when every comparison and cross-check passed."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.analyse.checked import check_rows, judge, read_calibration
from draftmeter.job import job
from draftmeter.strict import write_json

if TYPE_CHECKING:
    from snakemake.script import snakemake

logger = logging.getLogger("check_results")


def check_results(calibration: Path, checks: Path, checked: Path) -> None:
    """Judge `calibration` (csv) and `checks` (parquet); write `checked`, or raise with the table of what failed."""
    verdict = judge(read_calibration(calibration), check_rows(checks))
    for kind, counts in verdict.items():
        logger.info("%s: %d ok, %d unknown", kind, counts["ok"], counts["unknown"])
    write_json(checked, verdict)


if __name__ == "__main__":
    with job(snakemake.log[0], ValueError):
        check_results(Path(snakemake.input.calibration), Path(snakemake.input.checks), Path(snakemake.output.checked))
