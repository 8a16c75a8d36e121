# What only a study that measures has: boots, models, and what a measuring job asks for.
from draftmeter.models.prepare import with_locked_revisions
from draftmeter.study.archive import Material
from draftmeter.study.plan import (
    boot_names,
    boot_order,
    known_answer_model_name,
    plan_boot,
)

MODELS_LOCK = "models.lock.json"

try:
    STUDY = with_locked_revisions(STUDY, Path(MODELS_LOCK))
except ConfigError as error:
    refuse(error)

BOOT_ORDER = boot_order(STUDY)
ANSWERS_OF = known_answer_model_name(STUDY)
MATERIAL = Material(
    boots=[
        Path(f"results/records/{server}/{boot}/boot.json")
        for server in STUDY.servers
        for boot in boot_names(STUDY, server)
    ],
    others=[],
    files=[],
    known_answer=(
        Path(f"results/models/{ANSWERS_OF}/known_answer.json") if ANSWERS_OF else None
    ),
)


def checkpoint_code(wildcards):
    """What decides the bytes of a checkpoint that the study writes; other models are not ours to rewrite."""
    written = STUDY.models[wildcards.model].source == "known_answer"
    return (
        code_of("models/known_answer.py", "models/checkpoint.py") if written else None
    )


def draft_model(wildcards):
    """The draft model of a method that has one of its own."""
    drafting = STUDY.servers[wildcards.server].drafting
    named = drafting is not None and drafting.model is not None
    return f"results/models/{drafting.model}/model.json" if named else []


def boot_priority(wildcards):
    """The boots of a study in their drawn order."""
    return len(BOOT_ORDER) - BOOT_ORDER.index((wildcards.server, wildcards.boot))


def resource(name):
    """What a measuring job asks for, from the server's config."""

    def ask(wildcards):
        return getattr(STUDY.servers[wildcards.server].resources, name)

    return ask


wildcard_constraints:
    server="|".join(STUDY.servers),
    model="|".join(STUDY.models),
    boot=r"boot-\d+",
