"""Result tables: what columns each kind has, checked on write and on read.

A table is Parquet, tidy, one row per observation, and carries its provenance (configuration hash, source digest,
versions, seed) in the file's metadata under the key `weakspots`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from weakspots.errors import UserError
from weakspots.files.atomic import writing
from weakspots.files.theory_columns import THEORY_TABLES

T = TypeVar("T")

_METADATA_KEY = b"weakspots"


def _schema(required: dict[str, pa.DataType], optional: dict[str, pa.DataType] | None = None) -> pa.Schema:
    """A schema whose `optional` columns may hold missing values."""
    fields = [pa.field(name, dtype, nullable=False) for name, dtype in required.items()]
    return pa.schema(fields + [pa.field(name, dtype) for name, dtype in (optional or {}).items()])


SCHEMAS: dict[str, pa.Schema] = {
    # One row per prompt. position: the target key's token index modulo the lookup's modulus; target_position: that
    # index itself; answer_rank: 1 is the top of the whole vocabulary.
    "lookup": _schema(
        {
            "mapping": pa.int32(),
            "position": pa.int16(),
            "target_position": pa.int32(),
            "correct": pa.bool_(),
            "answer_rank": pa.int32(),
            "answer_probability": pa.float32(),
        }
    ),
    # One row per prompt, layer and KV head whose output was replaced by its mean; head -1: the whole layer.
    "knockout": _schema(
        {
            "mapping": pa.int32(),
            "position": pa.int16(),
            "layer": pa.int16(),
            "head": pa.int16(),
            "correct": pa.bool_(),
        }
    ),
    # One row per prompt and shift of the gates, in offsets.
    "cycling": _schema(
        {
            "mapping": pa.int32(),
            "position": pa.int16(),
            "shift": pa.int16(),
            "correct": pa.bool_(),
        }
    ),
    # One row per logged training step. flop_utilisation: the model's operations over those of a large product in the
    # same time, measured on the same machine; null where it was not taken.
    "training": _schema(
        {
            "step": pa.int32(),
            "tokens": pa.int64(),
            "loss": pa.float32(),
            "learning_rate": pa.float32(),
            "tokens_per_second": pa.float32(),
            "peak_memory_gib": pa.float32(),
            "stage": pa.int16(),
        },
        {"flop_utilisation": pa.float32()},
    ),
    # One row per step, layer, KV head, branch and offset; static and per_window are effective numbers of offsets.
    "gates": _schema(
        {
            "step": pa.int32(),
            "layer": pa.int16(),
            "head": pa.int16(),
            "branch": pa.string(),
            "offset": pa.int16(),
            "score": pa.float32(),
            "static": pa.float32(),
            "per_window": pa.float32(),
        }
    ),
    **{f"theory_{name}": _schema(*columns) for name, columns in THEORY_TABLES.items()},
    # One row per needle prompt. mapping: its number within its residue; position: the target key's token index modulo
    # the needle's modulus; target_position: that index. Rank and log-probability are null where the server did not say.
    "needle": _schema(
        {
            "mapping": pa.int32(),
            "position": pa.int16(),
            "target_position": pa.int32(),
            "correct": pa.bool_(),
        },
        {"answer_rank": pa.int32(), "answer_logprob": pa.float32()},
    ),
    # One row per filler family and length: the log-probabilities of the continuations `8` (first) and `32` (second).
    # length: of the docstring in tokens; equals: filler signs; source: "model repository" or "stand-in module".
    "code_completion": _schema(
        {
            "family": pa.string(),
            "length": pa.int32(),
            "equals": pa.int16(),
            "source": pa.string(),
        },
        # null where a server did not report it among its top tokens; one of the two is always there
        {"first_logprob": pa.float32(), "second_logprob": pa.float32()},
    ),
    # One row per needle prompt and layer whose attention output was replaced; layer -1: the model as it is.
    "layer_knockout": _schema(
        {
            "mapping": pa.int32(),
            "position": pa.int16(),
            "layer": pa.int16(),
            "correct": pa.bool_(),
            "answer_logprob": pa.float32(),
        }
    ),
    # One row per claim and, where a claim is about several models, one per model and padding.
    "claims": _schema(
        {
            "claim": pa.string(),
            "section": pa.string(),
            "text": pa.string(),
            "status": pa.string(),
            "value": pa.string(),
        },
        {
            "model": pa.string(),
            "padding": pa.string(),
            "n": pa.int64(),
            "seeds": pa.string(),
            "low": pa.float64(),
            "high": pa.float64(),
        },
    ),
}
"""The columns of every kind of result table, in order."""


def write(frame: pd.DataFrame, path: str | Path, kind: str, provenance: dict[str, str]) -> None:
    """Write `frame` as a table of this kind, atomically: a reader sees the old file or the whole new one.

    Raises UserError, naming the file and the column, where the frame does not fit the kind's schema.
    """
    path, schema = Path(path), SCHEMAS[kind]
    _check_columns(list(frame.columns), path, kind)
    columns = []
    for field in schema:
        if not field.nullable and frame[field.name].isna().any():
            raise UserError(f"{path}: column {field.name} of a {kind} table has missing values: every row needs one")
        try:
            columns.append(pa.array(frame[field.name], type=field.type, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise UserError(
                f"{path}: column {field.name} of a {kind} table must hold {field.type}: {str(error).splitlines()[0]}"
            ) from None
    metadata = {_METADATA_KEY: json.dumps(provenance, sort_keys=True).encode()}
    table = pa.Table.from_arrays(columns, schema=schema.with_metadata(metadata))
    with writing(path) as unfinished:
        pq.write_table(table, unfinished)


def read(path: str | Path, kind: str, config_hash: str | None = None) -> pd.DataFrame:
    """The table at `path`; with `config_hash`, only if it was made with the configuration of that hash.

    Raises UserError, naming the file and the column, where it is missing, damaged or not of this kind.
    """
    table = _open(path, pq.read_table)
    found = provenance_of(path).get("config_hash", "none")
    if config_hash not in (None, found):
        raise UserError(
            f"{path}: was made with another configuration (hash {found}, not {config_hash}): delete the file and run "
            "its rule again"
        )
    _check_columns(table.column_names, Path(path), kind)
    for field in SCHEMAS[kind]:
        if table.schema.field(field.name).type != field.type:
            raise UserError(
                f"{path}: column {field.name} of a {kind} table must hold {field.type}, not "
                f"{table.schema.field(field.name).type}: delete the file and run its rule again"
            )
    return table.select(SCHEMAS[kind].names).to_pandas()


def provenance_of(path: str | Path) -> dict[str, str]:
    """Where the table at `path` comes from; empty if it does not say."""
    metadata = _open(path, pq.read_schema).metadata or {}
    return json.loads(metadata.get(_METADATA_KEY, b"{}"))


def _open(path: str | Path, opener: Callable[[str | Path], T]) -> T:
    try:
        return opener(path)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such table; run the rule that writes it") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(
            f"{path}: not a readable Parquet file ({str(error).splitlines()[0]}); delete it and run its rule again"
        ) from None


def _check_columns(found: list[str], path: Path, kind: str) -> None:
    expected = SCHEMAS[kind].names
    if missing := [name for name in expected if name not in found]:
        raise UserError(f"{path}: a {kind} table needs the column {', '.join(missing)}, which is missing")
    if unknown := [name for name in found if name not in expected]:
        raise UserError(f"{path}: a {kind} table has no column {', '.join(unknown)}: remove it")
