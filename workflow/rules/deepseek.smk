# A model is asked where the configuration says: on a server, or here. One that is nowhere has no job.


rule deepseek:
    input:
        plan.deepseeks,


rule stand_in:
    input:
        data=plan.data(plan.settings.deepseek.stand_in.corpus),
    output:
        directory(plan.stand_in("{asked}")),
    log:
        plan.log("stand_in", "{asked}"),
    wildcard_constraints:
        asked=stages.one_of(plan.settings.deepseek.stand_ins),
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
        settings=lambda wildcards: stages.stand_in_settings(
            plan.settings, wildcards.asked
        ),
        source=stage_digest("stand_in"),
    shell:
        "{params.weakspots} stand-in {wildcards.asked} --config {params.config} --log {log} --reads {input}"


rule needle_model:
    input:
        model=lambda wildcards: plan.trained_for(wildcards.asked),
    output:
        plan.deepseek("{asked}", "needle"),
    log:
        plan.log("needle", "{asked}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    resources:
        gpu=lambda wildcards: plan.gpus_for(wildcards.asked),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            plan.settings, resources.gpu
        ),
        config=plan.config,
        settings=lambda wildcards: stages.needle_settings(
            plan.settings, wildcards.asked
        ),
        source=stage_digest("needle"),
    shell:
        "{params.weakspots} needle {wildcards.asked} --config {params.config} --log {log} --reads {input}"


rule code_completion_model:
    input:
        model=lambda wildcards: plan.trained_for(wildcards.asked),
    output:
        plan.deepseek("{asked}", "code_completion"),
    log:
        plan.log("code_completion", "{asked}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    resources:
        gpu=lambda wildcards: plan.gpus_for(wildcards.asked),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            plan.settings, resources.gpu
        ),
        config=plan.config,
        settings=lambda wildcards: stages.code_completion_settings(
            plan.settings, wildcards.asked
        ),
        source=stage_digest("code_completion"),
    shell:
        "{params.weakspots} code-completion {wildcards.asked} --config {params.config} --log {log} --reads {input}"


rule layer_knockout_model:
    input:
        model=lambda wildcards: plan.trained_for(wildcards.asked),
    output:
        plan.deepseek("{asked}", "layer_knockout"),
    log:
        plan.log("layer_knockout", "{asked}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    resources:
        gpu=lambda wildcards: plan.gpus_for(wildcards.asked),
    params:
        weakspots=lambda wildcards, resources: launch.command(
            plan.settings, resources.gpu
        ),
        config=plan.config,
        settings=lambda wildcards: stages.layer_knockout_settings(
            plan.settings, wildcards.asked
        ),
        source=stage_digest("layer_knockout"),
    shell:
        "{params.weakspots} layer-knockout {wildcards.asked} --config {params.config} --log {log} --reads {input}"
