# Knockouts are measured with the lookup, gate statistics while a model trains.


rule gates:
    input:
        plan.looked_up,


rule cycling:
    input:
        plan.cycles,


rule cycling_model:
    input:
        model=plan.model(plan.settings.lookup.corpus, "{model}"),
    output:
        plan.cycling("{model}"),
    log:
        plan.log("cycling", "{model}"),
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
        settings=stages.cycling_settings(plan.settings),
        source=stage_digest("cycling"),
    shell:
        "{params.weakspots} cycling {wildcards.model} --config {params.config} --log {log} --reads {input}"
