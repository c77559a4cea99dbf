# Periodic weak spots, from data to claims. `snakemake` reproduces everything at laptop scale; see README.md.
import os

from snakemake.utils import min_version

from weakspots import launch, tracking, workflow as stages
from weakspots.provenance import stage_digest

min_version("9.27")


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


# All jobs of this run, wherever they are executed, are tracked under one name.
os.environ.setdefault(tracking.INVOCATION, tracking.new_invocation())

plan = stages.Plan.of(config)


wildcard_constraints:
    corpus=stages.one_of(plan.settings.corpora),
    model=stages.one_of(plan.settings.models),
    asked=stages.one_of(plan.settings.deepseek.models),


include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/lookup.smk"
include: "workflow/rules/mechanism.smk"
include: "workflow/rules/deepseek.smk"
include: "workflow/rules/theory.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        rules.figure_1.output,
        rules.figure_2.output,
        rules.figure_3.output,
        rules.figure_4.output,
        rules.figure_5.output,
        rules.figure_6.output if plan.settings.cycling.models else [],
        rules.figure_theory.output,
        rules.tables.output,
        rules.deepseek.input,
        rules.claims.output,
        rules.explorer.output,


# Not rules: Snakemake looks at no job that comes after one that must run, even where the file between them is `ancient`,
# so a job upstream of all others that is repeated whenever anything changes would hide what changed. See docs/workflow.md.
onstart:
    stages.write_configuration(plan.settings, plan.config)
    tracking.initialise(plan.tracking, plan.settings.scale)


onsuccess:
    from weakspots import (
        summary,
    )  # here, since it needs libraries that parsing does not

    tracking.finish(plan.tracking, "FINISHED", summary.write(plan))


onerror:
    tracking.finish(plan.tracking, "FAILED")
