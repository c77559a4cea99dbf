rule train:
    input:
        targets.models,


rule train_model:
    input:
        data=targets.data("{corpus}"),
    output:
        directory(targets.model("{corpus}", "{model}")),
    log:
        targets.log("train", "{corpus}", "{model}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: launch.cores(targets.settings)
    resources:
        gpu=launch.gpus_per_job(targets.settings, training=True),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            targets.settings, resources.gpu, training=True
        ),
        config=targets.config,
        settings=lambda wildcards: depends.train_settings(
            targets.settings, wildcards.corpus, wildcards.model
        ),
        source=stage_digest("train"),
    shell:
        "{params.weakspots} train {wildcards.corpus} {wildcards.model} --config {params.config} --log {log} --reads {input:q}"
