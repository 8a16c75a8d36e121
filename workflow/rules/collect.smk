# Needs: the records that boot.json files list, and stored files. Makes: tidy tables and the cross-check of the sources.


rule collect:
    input:
        boots=MATERIAL.boots,
        files=MATERIAL.files,
    output:
        **{f"{table}_parquet": f"results/tables/{table}.parquet" for table in TABLES},
        **{f"{table}_csv": f"results/tables/{table}.csv" for table in TABLES},
    log:
        "results/logs/collect.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        code=code_of("strict.py", "formats", "record", "study", "collect"),
        stored=lambda wildcards: canonical_json(
            [source.model_dump() for source in MATERIAL.others]
        ),
    message:
        "Collect records and stored files into tables"
    script:
        "../../scripts/collect.py"
