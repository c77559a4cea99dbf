rule theory:
    output:
        targets.theories,
    log:
        targets.log("theory"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    params:
        config=targets.config,
        settings=depends.theory_settings(targets.settings),
        source=stage_digest("theory"),
    shell:
        "weakspots theory --config {params.config} --log {log}"
