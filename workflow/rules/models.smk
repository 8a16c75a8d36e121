# Needs: the config. Makes: each model ready for a server, and what is known about the known-answer model.


# Asked for by name only: looks up the revisions that the config leaves unresolved. The lock belongs into version control.
rule lock_models:
    input:
        config=CONFIG_USED,
    output:
        lock=update(MODELS_LOCK),
    log:
        "results/logs/lock_models.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    script:
        "../../scripts/lock_models.py"


rule prepare_model:
    output:
        model="results/models/{model}/model.json",
    log:
        "results/logs/prepare_model-{model}.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        code=checkpoint_code,
        model=lambda wildcards: canonical_json(STUDY.models[wildcards.model]),
    message:
        "Prepare model {wildcards.model}"
    script:
        "../../scripts/prepare_model.py"


rule answer_known:
    input:
        config=CONFIG_USED,
    output:
        answers="results/models/{model}/known_answer.json",
    log:
        "results/logs/answer_known-{model}.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        code=code_of("models"),
        model=lambda wildcards: wildcards.model,
    message:
        "Compute the exact acceptance of model {wildcards.model}"
    script:
        "../../scripts/answer_known.py"
