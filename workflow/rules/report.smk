rule claims:
    input:
        models=plan.looked_up,
        lookups=plan.lookups,
        knockouts=plan.knockouts,
        cycles=plan.cycles,
        theory=plan.theories,
    output:
        multiext(plan.claims(""), "parquet", "md"),
    log:
        plan.log("claims"),
    conda:
        "../../envs/pipeline.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings),
        source=stage_digest("claims"),
    shell:
        "weakspots claims --config {params.config} --log {log}"
