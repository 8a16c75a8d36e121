"""Rule `check_results`: write checked.json only when every comparison and cross-check passed."""

import logging
from pathlib import Path

from draftmeter.analyse.checked import check_rows, judge, read_calibration
from draftmeter.job import job
from draftmeter.strict import write_json

logger = logging.getLogger("check_results")


def check_results(calibration: Path, checks: Path, checked: Path) -> None:
    """Judge `calibration` (csv) and `checks` (parquet); write `checked`, or raise with the table of what failed."""
    verdict = judge(read_calibration(calibration), check_rows(checks))
    for kind, counts in verdict.items():
        logger.info("%s: %d ok, %d unknown", kind, counts["ok"], counts["unknown"])
    write_json(checked, verdict)


if "snakemake" in globals():
    smk = globals()["snakemake"]
    with job(smk.log[0], ValueError):
        check_results(Path(smk.input.calibration), Path(smk.input.checks), Path(smk.output.checked))
