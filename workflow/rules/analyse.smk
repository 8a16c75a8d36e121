# Needs: tables, and the known answers where there are some. Makes: estimates with their uncertainty.


rule analyse:
    input:
        modules("stats", "analyse"),
        **{table: f"results/tables/{table}.parquet" for table in TABLES},
        records=BOOTS,
        known_answer=ANSWERS,
    output:
        facts="results/estimates/facts.json",
        table1="results/estimates/table1.csv",
        figure1_intervals="results/estimates/figure1_intervals.csv",
        figure1_fifths="results/estimates/figure1_fifths.csv",
        calibration="results/estimates/calibration.csv",
    log:
        "results/logs/analyse.log",
    localrule: True
    params:
        study=study_json,
    message:
        "Estimate acceptance, its variation and its uncertainty"
    script:
        "../../scripts/analyse.py"
