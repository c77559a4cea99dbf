"""Periodic weak spots: phase sensitivity from chunked KV-cache compression.

Importing the package is cheap. It makes transformers' auto classes know the architecture: the moment they are first
imported, `weakspots.model.transformer` registers itself, so `AutoModelForCausalLM.from_pretrained(folder)` works.
"""

import importlib
import sys

import wrapt

__version__ = "0.2.0"


def _register(_module: object) -> None:
    importlib.import_module("weakspots.model.transformer")


if "transformers.models.auto.modeling_auto" in sys.modules:
    _register(None)
else:
    wrapt.register_post_import_hook(_register, "transformers.models.auto.modeling_auto")
