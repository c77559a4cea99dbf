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
    threads: launch.cores(plan.settings)
    resources:
        gpu=launch.gpus(plan.settings, training=True),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            plan.settings, resources.gpu, training=True
        ),
        config=plan.config,
        settings=lambda wildcards: stages.train_settings(
            plan.settings, wildcards.corpus, wildcards.model
        ),
        source=stage_digest("train"),
    shell:
        "{params.weakspots} train {wildcards.corpus} {wildcards.model} --config {params.config} --log {log} --reads {input}"
