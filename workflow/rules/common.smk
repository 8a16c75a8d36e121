# The validated config, the paths of the results, and what rules need to know of both.
import os
import sys
from pathlib import Path

from draftmeter.archive import Archive, parse_config
from draftmeter.strict import canonical_json
from draftmeter.study import ConfigError

ROOT = Path(workflow.current_basedir).parents[1]


def refuse(error):
    """End with what is wrong with the config, before any rule runs."""
    sys.exit(f"{', '.join(map(str, workflow.configfiles))}: {error}")


try:
    STUDY = parse_config(config)
except ConfigError as error:
    refuse(error)

CONFIG_USED = "results/config.json"
TABLES = ["counters", "intervals", "requests", "checks"]
TABLE1 = multiext("results/paper/table1", ".csv", ".md", ".tex")
FIGURE1 = multiext("results/paper/figure1", ".svg", ".pdf", ".png")
NOTE = multiext("results/paper/note", ".md", ".html", ".pdf")
CHECKED = "results/estimates/checked.json"


def modules(*rooms):
    """The library's files of these rooms and of the hall between them: a change to one reruns the rules that use it (a measurement runs again only for another plan or model)."""
    library = ROOT / "scripts" / "draftmeter"
    found = [
        *library.glob("*.py"),
        *(path for room in rooms for path in (library / room).rglob("*.py")),
    ]
    return sorted(os.path.relpath(path) for path in found)


def study_json(wildcards):
    """The whole config as one plain value, for the params of rules that need it (a function: its braces are no wildcards)."""
    return canonical_json(STUDY)
