rule claims:
    input:
        models=plan.looked_up,
        lookups=plan.lookups,
        knockouts=plan.knockouts,
        cycles=plan.cycles,
        deepseek=plan.deepseeks,
        theory=plan.theories,
    output:
        plan.claims("parquet"),
        report(plan.claims("md"), caption="../report/claims.rst", category="Claims"),
    log:
        plan.log("claims"),
    conda:
        "../../envs/pipeline.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings),
        source=stage_digest("claims"),
    shell:
        "weakspots claims --config {params.config} --log {log} --reads {input}"
