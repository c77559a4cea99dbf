# Knockouts are measured with the lookup, gate statistics while a model trains.


rule gates:
    input:
        targets.looked_up,


rule cycling:
    input:
        targets.cycles,


rule cycling_model:
    input:
        model=targets.model(targets.settings.lookup.corpus, "{model}"),
    output:
        targets.cycling("{model}"),
    log:
        targets.log("cycling", "{model}"),
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
        settings=depends.cycling_settings(targets.settings),
        source=stage_digest("cycling"),
    shell:
        "{params.weakspots} cycling {wildcards.model} --config {params.config} --log {log} --reads {input:q}"
