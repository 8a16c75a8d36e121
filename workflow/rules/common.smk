# The validated study, the paths of its results, and what rules need to know of both.
import os
import sys
from pathlib import Path

from draftmeter.models.lock import with_locked_revisions
from draftmeter.plan import boot_names, known_answer_model_name, plan_boot
from draftmeter.strict import canonical_json
from draftmeter.study import ConfigError, parse_study

ROOT = Path(workflow.current_basedir).parents[1]

MODELS_LOCK = "models.lock.json"

try:
    STUDY = with_locked_revisions(parse_study(config), Path(MODELS_LOCK))
except ConfigError as error:
    sys.exit(f"{', '.join(map(str, workflow.configfiles))}: {error}")

CONFIG_USED = "results/config.json"
BOOTS = [
    f"results/records/{server}/{boot}/boot.json"
    for server in STUDY.servers
    for boot in boot_names(STUDY, server)
]
TABLES = ["counters", "intervals", "requests", "checks"]
ANSWERS_OF = known_answer_model_name(STUDY)
ANSWERS = [f"results/models/{ANSWERS_OF}/known_answer.json"] if ANSWERS_OF else []
TABLE1 = multiext("results/paper/table1", ".csv", ".md", ".tex")
FIGURE1 = multiext("results/paper/figure1", ".svg", ".pdf", ".png")
NOTE = multiext("results/paper/note", ".md", ".html", ".pdf")
CHECKED = "results/estimates/checked.json"


def modules(*rooms):
    """The library's files of these rooms and of the hall between them: a change to one reruns the rules that use it (a measurement runs again only for another plan or model)."""
    return sorted(
        os.path.relpath(path)
        for room in [".", *rooms]
        for path in (ROOT / "scripts" / "draftmeter" / room).glob("*.py")
    )


def checkpoint_modules(wildcards):
    """What decides the bytes of a checkpoint that the study writes; other models are not ours to rewrite."""
    written = STUDY.models[wildcards.model].source == "known_answer"
    names = ["known_answer.py", "checkpoint.py"] if written else []
    return [
        os.path.relpath(ROOT / "scripts" / "draftmeter" / "models" / name)
        for name in names
    ]


def study_json(wildcards):
    """The whole config as one plain value, for the params of rules that need it (a function: its braces are no wildcards)."""
    return canonical_json(STUDY)


def resource(name):
    """What a measuring job asks for, from the server's config."""

    def ask(wildcards):
        return getattr(STUDY.servers[wildcards.server].resources, name)

    return ask


wildcard_constraints:
    server="|".join(STUDY.servers),
    model="|".join(STUDY.models),
    boot=r"boot-\d+",
