"""Typed configuration: what every key of `config.yaml` may hold, and what is wrong when it does not."""

from weakspots.config.corpus import (
    BytePairTokenizer,
    Corpus,
    CurriculumStage,
    HubSource,
    LocalSource,
    Muon,
    PretrainedTokenizer,
    RecallSource,
    Training,
    WordTokenizer,
)
from weakspots.config.deepseek import Deepseek
from weakspots.config.measurements import PADDINGS, Cycling, Knockout, Lookup, Statistics
from weakspots.config.scale import Backbone, Config, load, merge, parse, resolved, schema, write
from weakspots.config.theory import Theory

__all__ = [
    "PADDINGS",
    "Backbone",
    "BytePairTokenizer",
    "Config",
    "Corpus",
    "CurriculumStage",
    "Cycling",
    "Deepseek",
    "HubSource",
    "Knockout",
    "LocalSource",
    "Lookup",
    "Muon",
    "PretrainedTokenizer",
    "RecallSource",
    "Statistics",
    "Theory",
    "Training",
    "WordTokenizer",
    "load",
    "merge",
    "parse",
    "resolved",
    "schema",
    "write",
]
