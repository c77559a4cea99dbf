"""The ways to compress, one file each: a row of the model table names its file as `compressor`.

`base.ModelRow` is what a way has to say, `gated.py` the paper's own. A new file here is a new way to compress, and
needs no other change: whoever trains, caches, knocks out, plans or audits asks the row.
"""

from __future__ import annotations

import importlib
import pkgutil

from weakspots.compressors.base import ModelRow


def names() -> list[str]:
    """What `compressor` may be in a row: the modules of this folder."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base")


def find(name: str) -> type[ModelRow]:
    """The class of rows whose `compressor` is `name`: the one that its module defines.

    Raises ValueError where there is no such module, or none or several such classes in it.
    """
    if name not in names():
        raise ValueError(
            f"compressor {name!r} is none of {', '.join(names())}: correct it, or add compressors/{name}.py"
        )
    module = importlib.import_module(f"{__name__}.{name}")
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ModelRow) and value.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise ValueError(f"compressors/{name}.py defines {len(classes)} subclasses of ModelRow: it must define one")
    return classes[0]
