"""Rule prepare_model: write, check or fetch one model of the study."""

import json
from pathlib import Path

from pydantic import TypeAdapter

from draftmeter.job import job
from draftmeter.models.prepare import prepare_model
from draftmeter.study.schema import Model

if "snakemake" in globals():
    smk = globals()["snakemake"]
    with job(smk.log[0], ValueError, OSError):
        model = TypeAdapter(Model).validate_python(json.loads(smk.params.model))
        prepare_model(smk.wildcards.model, model, Path(smk.output.model))
