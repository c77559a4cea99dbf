# Each runs a notebook with papermill: into the log first, where it stays when a cell fails, then beside the figure.


rule figure_2:
    input:
        lookups=plan.lookups,
        notebook="notebooks/figure_2.ipynb",
    output:
        multiext(plan.figure("figure_2", ""), "png", "svg", "ipynb"),
        multiext(plan.figure("figure_2_headline", ""), "png", "svg"),
    log:
        plan.log("figure_2"),
        notebook=plan.log("figure_2", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings),
        source=stage_digest("figure_2"),
    shell:
        "weakspots figure figure_2 --config {params.config} --log {log[0]}"


rule tables:
    input:
        lookups=plan.lookups,
        models=plan.models,
        notebook="notebooks/tables.ipynb",
    output:
        multiext(plan.table("selected_runs", ""), "csv", "md"),
        notebook=plan.figure("tables", "ipynb"),
    log:
        plan.log("tables"),
        notebook=plan.log("tables", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings),
        source=stage_digest("tables"),
    shell:
        "weakspots figure tables --config {params.config} --log {log[0]}"
