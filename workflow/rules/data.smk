rule data:
    input:
        text=lambda wildcards: plan.texts[wildcards.corpus],
    output:
        directory(plan.data("{corpus}")),
    log:
        plan.log("data", "{corpus}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 8
    params:
        config=plan.config,
        settings=lambda wildcards: plan.settings.corpora[
            wildcards.corpus
        ].data_settings(),
        source=stage_digest("data"),
    shell:
        "weakspots data {wildcards.corpus} --workers {threads} --config {params.config} --log {log} --reads {input}"
