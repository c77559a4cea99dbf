"""The stages of the pipeline, one module each: what a stage reads, writes and tracks.

A stage finds its files beside the configuration (`results/<scale>/config.yaml`), is tracked as one MLflow run, and
writes its output whole or not at all. It decides no number: what is computed stands in a module that the stage's
source digest reaches (`workflow.stage_dependencies`), so these modules import no numpy, pandas or torch.
Each `run` imports the heavy libraries that it needs itself.
"""
