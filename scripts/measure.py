"""Rule measure_boot: boot one server, execute its missing runs, leave their records, write boot.json last."""

import json
from pathlib import Path

from draftmeter.job import job
from draftmeter.measure.boot import measure_boot
from draftmeter.study.plan import BootPlan

if "snakemake" in globals():
    smk = globals()["snakemake"]
    with job(smk.log[0], ValueError, RuntimeError, OSError):
        measure_boot(
            plan=BootPlan.model_validate(json.loads(smk.params.plan)),
            model_json=Path(smk.input.model),
            boot_json=Path(smk.output.boot),
            logs=Path(smk.log[0]).parent,
            draft_json=Path(smk.input.draft) if smk.input.get("draft") else None,
        )
