# Needs: nothing. Makes: the config as used.


rule write_config:
    output:
        CONFIG_USED,
    log:
        "results/logs/write_config.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        # A function: the braces of the text are no wildcards.
        study=lambda wildcards: canonical_json(STUDY),
    script:
        "../../scripts/write_config.py"
