"""Rule write_config: the merged, validated config of this run as one of its results."""

import json
from pathlib import Path

from draftmeter.job import job
from draftmeter.strict import write_json

if "snakemake" in globals():
    smk = globals()["snakemake"]
    with job(smk.log[0]):
        write_json(Path(smk.output[0]), json.loads(smk.params.study))
