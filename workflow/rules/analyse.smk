# Needs: tables, the known answers where a known-answer model was served, and the published figures where another was. Makes: estimates with their uncertainty.

# Acceptance that was set by construction is never compared with what was published.
PUBLISHED = (
    []
    if STUDY.study.kind == "known_answer"
    else workflow.source_path("../../config/published.yaml")
)


rule analyse:
    input:
        **{table: f"results/tables/{table}.parquet" for table in TABLES},
        config=CONFIG_USED,
        records=MATERIAL.boots,
        known_answer=MATERIAL.known_answer or [],
        published=PUBLISHED,
    output:
        facts="results/estimates/facts.json",
        table1="results/estimates/table1.csv",
        figure1_intervals="results/estimates/figure1_intervals.csv",
        figure1_fifths="results/estimates/figure1_fifths.csv",
        figure2="results/estimates/figure2.csv",
        figure3="results/estimates/figure3.csv",
        calibration=report(
            "results/estimates/calibration.csv",
            caption="../report/calibration.rst",
            category="Calibration",
        ),
    log:
        "results/logs/analyse.log",
    conda:
        "../envs/paper.yaml"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=code_of("facts.py", "units.py", "strict.py", "study", "stats", "analyse"),
    message:
        "Estimate acceptance, its variation and its uncertainty"
    script:
        "../../scripts/analyse.py"
