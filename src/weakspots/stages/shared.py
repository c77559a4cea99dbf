"""What several stages do alike."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from weakspots.config import Config
from weakspots.config.deepseek import DeepseekModel
from weakspots.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame

log = logging.getLogger("weakspots")


def must_be_known(name: str, table: Iterable[str], key: str) -> None:
    """Raise UserError unless `name` is in `table`, which stands under `key` in the configuration."""
    if name not in table:
        raise UserError(f"{name!r} is not among {key} of the configuration: {', '.join(table)}")


def manifest_of(shards: Path) -> dict:
    """The manifest of a prepared corpus; its `digest` stands for all files. Raises UserError where there is none."""
    if not (shards / "manifest.json").exists():
        raise UserError(f"{shards} holds no prepared corpus: run `weakspots data {shards.name}` first")
    return json.loads((shards / "manifest.json").read_text())


def deepseek_row(model: str, config: Config) -> DeepseekModel:
    """The row `model` of `deepseek.models`. Raises UserError where there is none."""
    must_be_known(model, config.deepseek.models, "deepseek.models")
    return config.deepseek.models[model]


def is_run(name: str, row: DeepseekModel) -> bool:
    """Whether there is anybody to ask; logs a warning where there is not."""
    if not row.is_run:
        log.warning("%s is not run: deepseek.models.%s has neither an endpoint nor a folder", row.label, name)
    return row.is_run


def answers_so_far(output: str, settings: dict) -> Path:
    """The file with the answers so far, an undeclared sibling of the table.

    It is named after the settings alone. That an answer in it belongs to a prompt and to a model is checked answer by
    answer (`serving.store`), so an edit of the source asks only the prompts that it changes.
    """
    from weakspots.files.atomic import unfinished
    from weakspots.files.hashes import config_hash

    return unfinished(output, config_hash(settings))


def write_answered(table: DataFrame, output: str, kind: str, origin: dict[str, str], answers: Path) -> None:
    """Write the table, and remove the answers it was made of and those of earlier settings."""
    from weakspots.files import tables

    tables.write(table, output, kind, origin)
    for stale in {answers, *Path(output).parent.glob(f".{Path(output).name}.*.partial")}:
        stale.unlink(missing_ok=True)
