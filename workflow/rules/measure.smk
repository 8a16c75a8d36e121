# Needs: models. Makes: boot.json of each boot; the records are its siblings, so that no failure deletes a finished run.


rule measure_boot:
    input:
        model=lambda wildcards: f"results/models/{STUDY.servers[wildcards.server].model}/model.json",
        draft=draft_model,
    output:
        boot="results/records/{server}/{boot}/boot.json",
    log:
        "results/logs/measure_boot-{server}-{boot}.log",
    # On one machine the boots run one after the other, in the order that was drawn from the seed.
    priority: boot_priority
    conda:
        "../envs/cpu.yaml"
    threads: resource("cpus")
    resources:
        gpu=resource("gpu"),
        gpu_model=resource("gpu_model"),
        mem_mb=resource("mem_mb"),
        runtime=resource("runtime_min"),
        # One measurement at a time on a machine: another server would share its processors.
        measurement=1,
    params:
        plan=lambda wildcards: canonical_json(
            plan_boot(STUDY, wildcards.server, wildcards.boot)
        ),
    script:
        "../../scripts/measure.py"
