"""Rule lock_models: write the commit hash of every model whose revision the config leaves unresolved into the lock."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.job import job
from draftmeter.models.prepare import lock_models
from draftmeter.study.config import parse_study

if TYPE_CHECKING:
    from snakemake.script import snakemake

if __name__ == "__main__":
    with job(snakemake.log[0], ValueError, OSError):
        lock_models(parse_study(json.loads(Path(snakemake.input.config).read_text())), Path(snakemake.output.lock))
