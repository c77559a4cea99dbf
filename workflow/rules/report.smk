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


# Figures and tables are inputs because the page links to them.
rule explorer:
    input:
        claims=plan.claims("parquet"),
        models=plan.models,
        lookups=plan.lookups,
        knockouts=plan.knockouts,
        cycles=plan.cycles,
        deepseek=plan.deepseeks,
        theory=plan.theories,
        figures=[
            rules.figure_1.output,
            rules.figure_2.output,
            rules.figure_3.output,
            rules.figure_4.output,
            rules.figure_5.output,
            rules.figure_6.output if plan.settings.cycling.models else [],
            rules.figure_theory.output,
        ],
    output:
        plan.explorer,
    log:
        plan.log("explorer"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings),
        source=stage_digest("explorer"),
    shell:
        "weakspots explorer --config {params.config} --log {log} --reads {input}"
