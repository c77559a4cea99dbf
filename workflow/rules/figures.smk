# Each runs a notebook with papermill: into the log first, where it stays when a cell fails, then beside the figure.


rule figure_1:
    input:
        models=targets.stand_ins,
        deepseek=targets.deepseeks,
        notebook="notebooks/figure_1.ipynb",
    output:
        report(
            targets.figure("figure_1", "png"),
            caption="../report/figure_1.rst",
            category="Figures",
        ),
        targets.figure("figure_1", "svg"),
        targets.figure("figure_1", "ipynb"),
    log:
        targets.log("figure_1"),
        notebook=targets.log("figure_1", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=targets.config,
        settings=depends.deepseek_settings(targets.settings),
        confidence=targets.settings.statistics.confidence,
        source=stage_digest("figure_1"),
    shell:
        "weakspots figure figure_1 --config {params.config} --log {log[0]} --reads {input:q}"


rule figure_2:
    input:
        models=targets.looked_up,
        lookups=targets.lookups,
        notebook="notebooks/figure_2.ipynb",
    output:
        report(
            targets.figure("figure_2", "png"),
            caption="../report/figure_2.rst",
            category="Figures",
        ),
        targets.figure("figure_2", "svg"),
        targets.figure("figure_2", "ipynb"),
        report(
            targets.figure("figure_2_headline", "png"),
            caption="../report/figure_2_headline.rst",
            category="Figures",
        ),
        targets.figure("figure_2_headline", "svg"),
    log:
        targets.log("figure_2"),
        notebook=targets.log("figure_2", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=targets.config,
        settings=depends.shown_settings(targets.settings, "lookup"),
        source=stage_digest("figure_2"),
    shell:
        "weakspots figure figure_2 --config {params.config} --log {log[0]} --reads {input:q}"


rule figure_3:
    input:
        models=targets.looked_up,
        lookups=targets.lookups,
        knockouts=targets.knockouts,
        notebook="notebooks/figure_3.ipynb",
    output:
        report(
            targets.figure("figure_3", "png"),
            caption="../report/figure_3.rst",
            category="Figures",
        ),
        targets.figure("figure_3", "svg"),
        targets.figure("figure_3", "ipynb"),
        report(
            targets.figure("figure_3_positions", "png"),
            caption="../report/figure_3_positions.rst",
            category="Figures",
        ),
        targets.figure("figure_3_positions", "svg"),
    log:
        targets.log("figure_3"),
        notebook=targets.log("figure_3", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=targets.config,
        settings=depends.shown_settings(targets.settings, "lookup"),
        source=stage_digest("figure_3"),
    shell:
        "weakspots figure figure_3 --config {params.config} --log {log[0]} --reads {input:q}"


rule figure_4:
    input:
        models=targets.looked_up,
        notebook="notebooks/figure_4.ipynb",
    output:
        report(
            targets.figure("figure_4", "png"),
            caption="../report/figure_4.rst",
            category="Figures",
        ),
        targets.figure("figure_4", "svg"),
        targets.figure("figure_4", "ipynb"),
    log:
        targets.log("figure_4"),
        notebook=targets.log("figure_4", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=targets.config,
        settings=depends.shown_settings(targets.settings, "gates"),
        source=stage_digest("figure_4"),
    shell:
        "weakspots figure figure_4 --config {params.config} --log {log[0]} --reads {input:q}"


rule figure_5:
    input:
        models=targets.looked_up,
        lookups=targets.lookups,
        knockouts=targets.knockouts,
        notebook="notebooks/figure_5.ipynb",
    output:
        report(
            targets.figure("figure_5", "png"),
            caption="../report/figure_5.rst",
            category="Figures",
        ),
        targets.figure("figure_5", "svg"),
        targets.figure("figure_5", "ipynb"),
        report(
            targets.figure("figure_5_all", "png"),
            caption="../report/figure_5_all.rst",
            category="Figures",
        ),
        targets.figure("figure_5_all", "svg"),
    log:
        targets.log("figure_5"),
        notebook=targets.log("figure_5", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=targets.config,
        settings=depends.shown_settings(targets.settings, "lookup", "gates"),
        source=stage_digest("figure_5"),
    shell:
        "weakspots figure figure_5 --config {params.config} --log {log[0]} --reads {input:q}"


rule figure_6:
    input:
        models=targets.looked_up,
        lookups=targets.lookups,
        cycles=targets.cycles,
        notebook="notebooks/figure_6.ipynb",
    output:
        report(
            targets.figure("figure_6", "png"),
            caption="../report/figure_6.rst",
            category="Figures",
        ),
        targets.figure("figure_6", "svg"),
        targets.figure("figure_6", "ipynb"),
    log:
        targets.log("figure_6"),
        notebook=targets.log("figure_6", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=targets.config,
        settings=depends.shown_settings(targets.settings, "lookup", "cycling"),
        source=stage_digest("figure_6"),
    shell:
        "weakspots figure figure_6 --config {params.config} --log {log[0]} --reads {input:q}"


rule figure_theory:
    input:
        models=targets.looked_up,
        tables=targets.theories,
        notebook="notebooks/figure_theory.ipynb",
    output:
        targets.figure("figure_theory", "ipynb"),
        [
            report(
                targets.figure(f"figure_theory_{part}", "png"),
                caption=f"../report/figure_theory_{part}.rst",
                category="Theory",
            )
            for part in ("theorem_1", "theorem_2", "coverage", "retrieval")
        ],
        [
            targets.figure(f"figure_theory_{part}", "svg")
            for part in ("theorem_1", "theorem_2", "coverage", "retrieval")
        ],
    log:
        targets.log("figure_theory"),
        notebook=targets.log("figure_theory", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=targets.config,
        settings=depends.shown_settings(targets.settings, "theory", "gates"),
        source=stage_digest("figure_theory"),
    shell:
        "weakspots figure figure_theory --config {params.config} --log {log[0]} --reads {input:q}"


rule tables:
    input:
        lookups=targets.lookups,
        models=targets.models + targets.stand_ins,
        needles=targets.needles,
        notebook="notebooks/tables.ipynb",
    output:
        report(
            targets.table("selected_runs", "csv"),
            caption="../report/selected_runs.rst",
            category="Tables",
        ),
        targets.table("selected_runs", "md"),
        report(
            targets.table("needle", "csv"),
            caption="../report/needle.rst",
            category="Tables",
        ),
        targets.table("needle", "md"),
        notebook=targets.figure("tables", "ipynb"),
    log:
        targets.log("tables"),
        notebook=targets.log("tables", suffix="ipynb"),
    conda:
        "../../envs/figures.yaml"
    params:
        config=targets.config,
        settings=depends.shown_settings(targets.settings, "lookup", "needle"),
        source=stage_digest("tables"),
    shell:
        "weakspots figure tables --config {params.config} --log {log[0]} --reads {input:q}"
