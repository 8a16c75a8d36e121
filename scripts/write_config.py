"""Rule write_config: the merged, validated config of this run as one of its results."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.job import job
from draftmeter.strict import write_json

if TYPE_CHECKING:
    from snakemake.script import snakemake

if __name__ == "__main__":
    with job(snakemake.log[0]):
        write_json(Path(snakemake.output[0]), json.loads(snakemake.params.study))
