# Needs: estimates and cross-checks. Makes: checked.json, only when nothing failed; `all` depends on it.


rule check_results:
    input:
        calibration="results/estimates/calibration.csv",
        checks="results/tables/checks.parquet",
        # The note announces a failed check itself: it must be there to be read when this rule ends the run.
        note=NOTE,
    output:
        checked=CHECKED,
    log:
        "results/logs/check_results.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        code=code_of("analyse"),
    message:
        "Check every measured share against the exact one, and the three sources against each other"
    script:
        "../../scripts/check_results.py"
