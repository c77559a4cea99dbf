rule claims:
    input:
        models=targets.looked_up + targets.stand_ins,
        lookups=targets.lookups,
        knockouts=targets.knockouts,
        cycles=targets.cycles,
        deepseek=targets.deepseeks,
        theory=targets.theories,
    output:
        targets.claims("parquet"),
        report(targets.claims("md"), caption="../report/claims.rst", category="Claims"),
    log:
        targets.log("claims"),
    conda:
        "../../envs/pipeline.yaml"
    params:
        config=targets.config,
        settings=depends.shown_settings(targets.settings),
        source=stage_digest("claims"),
    shell:
        "weakspots claims --config {params.config} --log {log} --reads {input:q}"


# Figures and tables are inputs because the page links to them.
rule explorer:
    input:
        claims=targets.claims("parquet"),
        models=targets.models + targets.stand_ins,
        lookups=targets.lookups,
        knockouts=targets.knockouts,
        cycles=targets.cycles,
        deepseek=targets.deepseeks,
        theory=targets.theories,
        figures=[
            rules.figure_1.output,
            rules.figure_2.output,
            rules.figure_3.output,
            rules.figure_4.output,
            rules.figure_5.output,
            rules.figure_6.output if targets.settings.cycling.models else [],
            rules.figure_theory.output,
        ],
    output:
        targets.explorer,
    log:
        targets.log("explorer"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=targets.config,
        settings=depends.shown_settings(targets.settings),
        source=stage_digest("explorer"),
    shell:
        "weakspots explorer --config {params.config} --log {log} --reads {input:q}"
