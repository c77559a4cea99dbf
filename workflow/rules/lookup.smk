rule lookup:
    input:
        plan.lookups,


rule lookup_model:
    input:
        model=plan.model(plan.settings.lookup.corpus, "{model}"),
    output:
        plan.lookup("{model}", "{padding}"),
    log:
        plan.log("lookup", "{model}", "{padding}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    params:
        config=plan.config,
        settings=stages.lookup_settings(plan.settings),
        source=stage_digest("lookup"),
    shell:
        "weakspots lookup {wildcards.model} {wildcards.padding} --config {params.config} --log {log}"
