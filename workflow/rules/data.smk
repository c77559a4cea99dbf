rule data:
    output:
        directory(targets.data("{corpus}")),
    log:
        targets.log("data", "{corpus}"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 8
    params:
        config=targets.config,
        settings=lambda wildcards: targets.settings.corpora[
            wildcards.corpus
        ].data_settings(),
        texts=lambda wildcards: targets.texts[wildcards.corpus],
        source=stage_digest("data"),
    shell:
        "weakspots data {wildcards.corpus} --workers {threads} --config {params.config} --log {log}"
