# Needs: the records that boot.json files list. Makes: tidy tables and the cross-check of the three sources.


rule collect:
    input:
        modules("collect"),
        boots=BOOTS,
    output:
        **{f"{table}_parquet": f"results/tables/{table}.parquet" for table in TABLES},
        **{f"{table}_csv": f"results/tables/{table}.csv" for table in TABLES},
    log:
        "results/logs/collect.log",
    localrule: True
    message:
        "Collect the records of {input.boots} into tables"
    script:
        "../../scripts/collect.py"
