rule train:
    input:
        plan.models,


rule train_model:
    input:
        data=plan.data("{corpus}"),
    output:
        directory(plan.model("{corpus}", "{model}")),
    log:
        plan.log("train", "{corpus}", "{model}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    resources:
        gpu=1 if plan.settings.device == "cuda" else 0,
    params:
        config=plan.config,
        settings=lambda wildcards: stages.train_settings(
            plan.settings, wildcards.corpus, wildcards.model
        ),
        source=stage_digest("train"),
    shell:
        "weakspots train {wildcards.corpus} {wildcards.model} --config {params.config} --log {log}"
