# One pass over the prompts gives both tables: a knockout costs one token of a prompt that has been read anyway.


rule lookup:
    input:
        targets.lookups,


rule knockout:
    input:
        targets.knockouts,


rule lookup_model:
    input:
        model=targets.model(targets.settings.lookup.corpus, "{model}"),
    output:
        [
            targets.lookup("{model}", padding)
            for padding in targets.settings.lookup.paddings
        ],
        [
            targets.knockout("{model}", padding)
            for padding in targets.settings.lookup.paddings
        ],
    log:
        targets.log("lookup", "{model}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    resources:
        gpu=launch.gpus_per_job(targets.settings),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            targets.settings, resources.gpu
        ),
        config=targets.config,
        settings=depends.lookup_settings(targets.settings),
        source=stage_digest("lookup"),
    shell:
        "{params.weakspots} lookup {wildcards.model} --config {params.config} --log {log} --reads {input:q}"
