rule theory:
    output:
        plan.theories,
    log:
        plan.log("theory"),
    conda:
        "../../envs/pipeline.yaml"
    threads: 1
    params:
        config=plan.config,
        settings=stages.theory_settings(plan.settings),
        source=stage_digest("theory"),
    shell:
        "weakspots theory --config {params.config} --log {log}"
