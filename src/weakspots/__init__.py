"""Periodic weak spots: phase sensitivity from chunked KV-cache compression.

Importing the package is cheap. It makes transformers' auto classes know the architecture: the moment they are first
imported, `weakspots.model` registers itself, so `AutoConfig`, `AutoModel` and `AutoModelForCausalLM` load a
folder that the pipeline trained.
"""

import importlib
import sys

import wrapt

__version__ = "0.2.0"


_REGISTERED_BY = {
    "transformers.models.auto.configuration_auto": "weakspots.model.configuration",
    "transformers.models.auto.modeling_auto": "weakspots.model.transformer",
}


def _register(theirs: str, ours: str) -> None:
    def load(_module: object) -> None:
        importlib.import_module(ours)

    if theirs in sys.modules:
        load(None)
    else:
        wrapt.register_post_import_hook(load, theirs)


for _names in _REGISTERED_BY.items():
    _register(*_names)
