# Needs: estimates and cross-checks. Makes: checked.json, only when nothing failed; `all` depends on it.


rule check_results:
    input:
        modules("analyse"),
        calibration="results/estimates/calibration.csv",
        checks="results/tables/checks.parquet",
    output:
        checked=CHECKED,
    log:
        "results/logs/check_results.log",
    localrule: True
    message:
        "Check every measured share against the exact one, and the three sources against each other"
    script:
        "../../scripts/check_results.py"
