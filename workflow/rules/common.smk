# The validated config, the paths of the results, and what rules need to know of both.
import hashlib
import os
from pathlib import Path

from snakemake.exceptions import WorkflowError

import draftmeter

from draftmeter.study.config import parse_config
from draftmeter.study.archive import Archive
from draftmeter.strict import canonical_json
from draftmeter.study.schema import ConfigError


def refuse(error):
    """End with what is wrong with the config, before any rule runs."""
    raise WorkflowError(f"{', '.join(map(str, workflow.configfiles))}: {error}")


try:
    STUDY = parse_config(config)
except ConfigError as error:
    refuse(error)

CONFIG_USED = "results/config.json"
TABLES = ["runs", "counters", "intervals", "requests", "checks"]
TABLE1 = multiext("results/paper/table1", ".csv", ".md", ".tex")
FIGURE1 = multiext("results/paper/figure1", ".svg", ".pdf", ".png")
NOTE = multiext("results/paper/note", ".md", ".html", ".pdf")
CHECKED = "results/estimates/checked.json"


def code_of(*rooms):
    """A digest of the library's code in these rooms: as a parameter it reruns a rule when what the rule does has changed."""
    library = Path(draftmeter.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for room in rooms for path in library.glob(room)):
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(f"{module.relative_to(library)}\n".encode())
            digest.update(module.read_bytes())
    return digest.hexdigest()[:16]
