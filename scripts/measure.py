"""Rule measure_boot: boot one server, execute its missing runs, leave their records, write boot.json last."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.job import job
from draftmeter.measure.boot import measure_boot
from draftmeter.study.plan import BootPlan

if TYPE_CHECKING:
    from snakemake.script import snakemake

if __name__ == "__main__":
    with job(snakemake.log[0], ValueError, RuntimeError, OSError):
        measure_boot(
            plan=BootPlan.model_validate(json.loads(snakemake.params.plan)),
            model_json=Path(snakemake.input.model),
            boot_json=Path(snakemake.output.boot),
            logs=Path(snakemake.log[0]).parent,
            draft_json=Path(snakemake.input.draft) if snakemake.input.get("draft") else None,
        )
