# Needs: nothing. Makes: the config as used.


rule write_config:
    output:
        CONFIG_USED,
    log:
        "results/logs/write_config.log",
    localrule: True
    params:
        study=study_json,
    script:
        "../../scripts/write_config.py"
