"""Rule lock_models: write the commit hash of every model whose revision the config leaves unresolved into the lock."""

import json
from pathlib import Path

from draftmeter.job import job
from draftmeter.models.lock import lock_models
from draftmeter.study.config import parse_study

if "snakemake" in globals():
    smk = globals()["snakemake"]
    with job(smk.log[0], ValueError, OSError):
        lock_models(parse_study(json.loads(Path(smk.input.config).read_text())), Path(smk.output.lock))
