# One pass over the prompts gives both tables: a knockout costs one token of a prompt that has been read anyway.


rule lookup:
    input:
        plan.lookups,


rule knockout:
    input:
        plan.knockouts,


rule lookup_model:
    input:
        model=plan.model(plan.settings.lookup.corpus, "{model}"),
    output:
        [plan.lookup("{model}", padding) for padding in plan.settings.lookup.paddings],
        [plan.knockout("{model}", padding) for padding in plan.settings.lookup.paddings],
    log:
        plan.log("lookup", "{model}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    resources:
        gpu=launch.gpus(plan.settings),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            plan.settings, resources.gpu
        ),
        config=plan.config,
        settings=stages.lookup_settings(plan.settings),
        source=stage_digest("lookup"),
    shell:
        "{params.weakspots} lookup {wildcards.model} --config {params.config} --log {log} --reads {input}"
