"""Rule prepare_model: write, check or fetch one model of the study."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from draftmeter.job import job
from draftmeter.models.prepare import prepare_model
from draftmeter.study.schema import Model

if TYPE_CHECKING:
    from snakemake.script import snakemake

if __name__ == "__main__":
    with job(snakemake.log[0], ValueError, OSError):
        model = TypeAdapter(Model).validate_python(json.loads(snakemake.params.model))
        prepare_model(snakemake.wildcards.model, model, Path(snakemake.output.model))
