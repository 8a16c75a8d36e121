"""Rule answer_known: the exact acceptance of the known-answer model for every kind of request of the study."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.job import job
from draftmeter.models.answers import known_answers
from draftmeter.strict import write_json
from draftmeter.study.config import parse_study

if TYPE_CHECKING:
    from snakemake.script import snakemake

if __name__ == "__main__":
    with job(snakemake.log[0], ValueError):
        study = parse_study(json.loads(Path(snakemake.input.config).read_text()))
        write_json(Path(snakemake.output.answers), known_answers(study, snakemake.params.model))
