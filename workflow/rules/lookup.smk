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
        gpu=1 if plan.settings.device == "cuda" else 0,
    params:
        config=plan.config,
        settings=stages.lookup_settings(plan.settings),
        source=stage_digest("lookup"),
    shell:
        "weakspots lookup {wildcards.model} --config {params.config} --log {log}"
