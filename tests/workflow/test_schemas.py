"""The committed JSON schemas are those of the models, and the committed configs fit them."""

import json
import runpy
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "workflow" / "schemas"


def test_the_schemas_are_those_of_the_models() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "write_schemas.py"))["schemas"]()
    assert sorted(path.name for path in SCHEMAS.iterdir()) == sorted(f"{name}.schema.json" for name in made)
    for name, schema in made.items():
        assert json.loads((SCHEMAS / f"{name}.schema.json").read_text()) == schema


@pytest.mark.parametrize(
    ("config", "schema"),
    [("config", "study"), ("calibration", "study"), ("h200", "study"), ("archive", "archive")],
)
def test_a_committed_config_fits_its_schema(config: str, schema: str) -> None:
    content = yaml.safe_load((ROOT / "config" / f"{config}.yaml").read_text())
    rules = json.loads((SCHEMAS / f"{schema}.schema.json").read_text())
    jsonschema.Draft202012Validator(rules).validate(content)
    del content["study"]
    with pytest.raises(jsonschema.ValidationError, match="'study' is a required property"):
        jsonschema.Draft202012Validator(rules).validate(content)
