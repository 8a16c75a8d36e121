# Needs: the standard library of this Python. Makes: the small trained model anew. Asked for by name only (an hour and a half on two cores):
# the study uses the weights in models/small-moe. An interrupted training goes on from its checkpoint under results/training.


rule train_model:
    output:
        directory("results/trained/small-moe"),
    log:
        "results/logs/train_model.log",
    conda:
        "../envs/cpu.yaml"
    threads: 2
    params:
        settings={
            "seed": 5,
            "steps": 3600,
            "budget_s": 4500.0,
            "head_steps": 400,
            "head_budget_s": 600.0,
        },
        work="results/training/small-moe",
    message:
        "Train the small model (an hour and a half; python -m json.tool results/training/small-moe/history.json shows it)"
    script:
        "../../scripts/train_model.py"
