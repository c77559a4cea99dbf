# A model is asked where the configuration says: on a server, or here. A model with neither server nor folder has no job.


rule deepseek:
    input:
        targets.deepseeks,


rule stand_in:
    input:
        data=targets.data(targets.settings.deepseek.stand_in.corpus),
    output:
        directory(targets.stand_in("{asked}")),
    log:
        targets.log("stand_in", "{asked}"),
    wildcard_constraints:
        asked=one_of(targets.settings.deepseek.stand_ins),
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
        settings=lambda wildcards: depends.stand_in_settings(
            targets.settings, wildcards.asked
        ),
        source=stage_digest("stand_in"),
    shell:
        "{params.weakspots} stand-in {wildcards.asked} --config {params.config} --log {log} --reads {input:q}"


rule needle_model:
    input:
        model=lambda wildcards: targets.trained_for(wildcards.asked),
    output:
        targets.deepseek("{asked}", "needle"),
    log:
        targets.log("needle", "{asked}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    resources:
        gpu=lambda wildcards: targets.gpus_for(wildcards.asked),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            targets.settings, resources.gpu
        ),
        config=targets.config,
        settings=lambda wildcards: depends.needle_settings(
            targets.settings, wildcards.asked
        ),
        source=stage_digest("needle"),
    shell:
        "{params.weakspots} needle {wildcards.asked} --config {params.config} --log {log} --reads {input:q}"


rule code_completion_model:
    input:
        model=lambda wildcards: targets.trained_for(wildcards.asked),
    output:
        targets.deepseek("{asked}", "code_completion"),
    log:
        targets.log("code_completion", "{asked}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    resources:
        gpu=lambda wildcards: targets.gpus_for(wildcards.asked),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            targets.settings, resources.gpu
        ),
        config=targets.config,
        settings=lambda wildcards: depends.code_completion_settings(
            targets.settings, wildcards.asked
        ),
        source=stage_digest("code_completion"),
    shell:
        "{params.weakspots} code-completion {wildcards.asked} --config {params.config} --log {log} --reads {input:q}"


rule layer_knockout_model:
    input:
        model=lambda wildcards: targets.trained_for(wildcards.asked),
    output:
        targets.deepseek("{asked}", "layer_knockout"),
    log:
        targets.log("layer_knockout", "{asked}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    resources:
        gpu=lambda wildcards: targets.gpus_for(wildcards.asked),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            targets.settings, resources.gpu
        ),
        config=targets.config,
        settings=lambda wildcards: depends.layer_knockout_settings(
            targets.settings, wildcards.asked
        ),
        source=stage_digest("layer_knockout"),
    shell:
        "{params.weakspots} layer-knockout {wildcards.asked} --config {params.config} --log {log} --reads {input:q}"
