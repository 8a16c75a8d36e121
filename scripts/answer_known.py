"""Rule answer_known: the exact acceptance of the known-answer model for every kind of request of the study."""

import json
from pathlib import Path

from draftmeter.job import job
from draftmeter.models.answers import known_answers
from draftmeter.strict import write_json
from draftmeter.study.config import parse_study

if "snakemake" in globals():
    smk = globals()["snakemake"]
    with job(smk.log[0], ValueError):
        study = parse_study(json.loads(Path(smk.input.config).read_text()))
        write_json(Path(smk.output.answers), known_answers(study, smk.params.model))
