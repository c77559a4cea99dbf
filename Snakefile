# Periodic weak spots, from data to claims. `snakemake` reproduces everything at laptop scale; see README.md.
import os

from snakemake.utils import min_version

from weakspots import config as configuration
from weakspots.workflow import launch, stage_dependencies as depends, tracking
from weakspots.workflow.stage_dependencies import stage_digest
from weakspots.workflow.targets import Targets, one_of

min_version("9.27")


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


# All jobs of this run, wherever they are executed, are tracked under one name.
os.environ.setdefault(tracking.INVOCATION, tracking.new_invocation())

targets = Targets.of(config)


wildcard_constraints:
    corpus=one_of(targets.settings.corpora),
    model=one_of(targets.settings.models),
    asked=one_of(targets.settings.deepseek.models),


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
        rules.figure_6.output if targets.settings.cycling.models else [],
        rules.figure_theory.output,
        rules.tables.output,
        rules.deepseek.input,
        rules.claims.output,
        rules.explorer.output,


# Not rules: Snakemake looks at no job that comes after one that must run, even where the file between them is `ancient`,
# so a job upstream of all others that is repeated whenever anything changes would hide what changed. See docs/workflow.md.
onstart:
    configuration.write(targets.settings, targets.config)
    tracking.initialise(targets.tracking, targets.settings.scale)


onsuccess:
    from weakspots.workflow import (
        summary,
    )  # here, since it needs libraries that parsing does not

    tracking.finish(targets.tracking, "FINISHED", summary.write(targets))


onerror:
    tracking.finish(targets.tracking, "FAILED")
