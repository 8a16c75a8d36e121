"""Write the JSON schemas of a study's and of an archive's config from the models that check them.

For editors that complete and check YAML: `python scripts/write_schemas.py workflow/schemas`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from draftmeter.strict import write_json
from draftmeter.study.archive import Archive
from draftmeter.study.schema import Study

MODELS = {"study": Study, "archive": Archive}


def schemas() -> dict[str, dict[str, Any]]:
    """The schema of each kind of config, by its name."""
    found: dict[str, dict[str, Any]] = {name: model.model_json_schema() for name, model in MODELS.items()}
    return {name: json.loads(json.dumps(schema, sort_keys=True)) for name, schema in found.items()}


if __name__ == "__main__":
    for name, schema in schemas().items():
        write_json(Path(sys.argv[1]) / f"{name}.schema.json", schema)
