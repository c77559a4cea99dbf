"""A result table holds what its schema says, or is refused."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weakspots.errors import UserError
from weakspots.files import tables


def lookup(**changes) -> pd.DataFrame:
    columns = {"mapping": [0, 0], "position": [0, 1], "target_position": [24, 25], "correct": [True, False]}
    return pd.DataFrame({**columns, "answer_rank": [1, 7], "answer_probability": [0.9, 0.01], **changes})


def test_what_is_written_is_read_back_with_its_provenance(tmp_path):
    path = tmp_path / "deeper" / "prefix.parquet"
    tables.write(lookup(), path, "lookup", {"seed": "1", "commit": "unknown"})
    read = tables.read(path, "lookup")
    pd.testing.assert_frame_equal(read, lookup(), check_dtype=False, rtol=1e-6)
    assert read.dtypes.astype(str).tolist() == ["int32", "int16", "int32", "bool", "int32", "float32"]
    assert tables.provenance_of(path) == {"seed": "1", "commit": "unknown"}
    assert [file.name for file in path.parent.iterdir()] == ["prefix.parquet"]


def test_column_order_does_not_matter_when_writing(tmp_path):
    tables.write(lookup()[["correct", *lookup().columns.drop("correct")]], tmp_path / "t.parquet", "lookup", {})
    assert list(tables.read(tmp_path / "t.parquet", "lookup").columns) == list(lookup().columns)


def test_optional_columns_may_be_missing_values(tmp_path):
    row = {"claim": "a", "section": "s", "text": "t", "status": "not run", "value": ""}
    empty = {"model": None, "padding": None, "n": None, "seeds": None, "low": None, "high": None}
    tables.write(pd.DataFrame([row | empty]), tmp_path / "c.parquet", "claims", {})
    assert tables.read(tmp_path / "c.parquet", "claims").n.isna().all()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (lookup().drop(columns="correct"), "needs the column correct"),
        (lookup(phase=[0, 1]), "has no column phase"),
        (lookup(correct=[True, None]), "column correct of a lookup table has missing values"),
        (lookup(answer_rank=[1, 2.5]), "column answer_rank of a lookup table must hold int32"),
        (lookup(position=["a", "b"]), "column position of a lookup table must hold int16"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused_and_nothing_is_left(tmp_path, frame, message):
    with pytest.raises(UserError, match=message) as refused:
        tables.write(frame, tmp_path / "prefix.parquet", "lookup", {})
    assert "prefix.parquet" in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_foreign_or_damaged_or_absent_file_is_refused_by_name(tmp_path):
    path = tmp_path / "prefix.parquet"
    with pytest.raises(UserError, match=r"prefix\.parquet: there is no such table"):
        tables.read(path, "lookup")
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(UserError, match=r"prefix\.parquet: not a readable Parquet file"):
        tables.read(path, "lookup")
    pq.write_table(pa.table(lookup().astype({"position": "int64"})), path)
    with pytest.raises(UserError, match="column mapping of a lookup table must hold int32"):
        tables.read(path, "lookup")
    assert tables.provenance_of(path) == {}
