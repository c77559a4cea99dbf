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
        settings=stages.shown_settings(plan.settings, "lookup"),
        source=stage_digest("figure_2"),
    shell:
        "weakspots figure figure_2 --config {params.config} --log {log[0]}"


rule figure_3:
    input:
        lookups=plan.lookups,
        knockouts=plan.knockouts,
        notebook="notebooks/figure_3.ipynb",
    output:
        multiext(plan.figure("figure_3", ""), "png", "svg", "ipynb"),
        multiext(plan.figure("figure_3_positions", ""), "png", "svg"),
    log:
        plan.log("figure_3"),
        notebook=plan.log("figure_3", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings, "lookup"),
        source=stage_digest("figure_3"),
    shell:
        "weakspots figure figure_3 --config {params.config} --log {log[0]}"


rule figure_4:
    input:
        models=plan.looked_up,
        notebook="notebooks/figure_4.ipynb",
    output:
        multiext(plan.figure("figure_4", ""), "png", "svg", "ipynb"),
    log:
        plan.log("figure_4"),
        notebook=plan.log("figure_4", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings, "gates"),
        source=stage_digest("figure_4"),
    shell:
        "weakspots figure figure_4 --config {params.config} --log {log[0]}"


rule figure_5:
    input:
        models=plan.looked_up,
        lookups=plan.lookups,
        knockouts=plan.knockouts,
        notebook="notebooks/figure_5.ipynb",
    output:
        multiext(plan.figure("figure_5", ""), "png", "svg", "ipynb"),
        multiext(plan.figure("figure_5_all", ""), "png", "svg"),
    log:
        plan.log("figure_5"),
        notebook=plan.log("figure_5", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings, "lookup", "gates"),
        source=stage_digest("figure_5"),
    shell:
        "weakspots figure figure_5 --config {params.config} --log {log[0]}"


rule figure_6:
    input:
        lookups=plan.lookups,
        cycles=plan.cycles,
        notebook="notebooks/figure_6.ipynb",
    output:
        multiext(plan.figure("figure_6", ""), "png", "svg", "ipynb"),
    log:
        plan.log("figure_6"),
        notebook=plan.log("figure_6", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings, "lookup", "cycling"),
        source=stage_digest("figure_6"),
    shell:
        "weakspots figure figure_6 --config {params.config} --log {log[0]}"


rule figure_theory:
    input:
        models=plan.looked_up,
        tables=plan.theories,
        notebook="notebooks/figure_theory.ipynb",
    output:
        plan.figure("figure_theory", "ipynb"),
        [
            plan.figure(f"figure_theory_{part}", suffix)
            for part in ("theorem_1", "theorem_2", "coverage", "retrieval")
            for suffix in ("png", "svg")
        ],
    log:
        plan.log("figure_theory"),
        notebook=plan.log("figure_theory", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=plan.config,
        settings=stages.shown_settings(plan.settings, "theory", "gates"),
        source=stage_digest("figure_theory"),
    shell:
        "weakspots figure figure_theory --config {params.config} --log {log[0]}"


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
        settings=stages.shown_settings(plan.settings, "lookup"),
        source=stage_digest("tables"),
    shell:
        "weakspots figure tables --config {params.config} --log {log[0]}"
