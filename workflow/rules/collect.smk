# Needs: the records that boot.json files list, and stored files. Makes: tidy tables and the cross-check of the sources.


rule collect:
    input:
        boots=BOOTS,
        files=STORED_FILES,
    output:
        **{f"{table}_parquet": f"results/tables/{table}.parquet" for table in TABLES},
        **{f"{table}_csv": f"results/tables/{table}.csv" for table in TABLES},
    log:
        "results/logs/collect.log",
    localrule: True
    params:
        code=code_of("strict.py", "formats", "record", "study", "collect"),
        stored=lambda wildcards: STORED_SOURCES,
    message:
        "Collect records and stored files into tables"
    script:
        "../../scripts/collect.py"
