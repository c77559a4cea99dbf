"""SUMMARY.md: versions, machine, times from Snakemake's records, claims by verdict."""

import base64
import json
from importlib.metadata import version

import pandas as pd
import pytest

from weakspots.files import tables
from weakspots.files.validation import Validation
from weakspots.workflow import summary
from weakspots.workflow.layout import Layout
from weakspots.workflow.provenance import provenance


def record(folder, output, rule, begin, end, log=None, **more):
    """A record as Snakemake writes it for one output."""
    log = log or output
    name = base64.b64encode(output.encode()).decode()
    (folder / name).write_text(json.dumps({"rule": rule, "log": [log], "starttime": begin, "endtime": end} | more))


@pytest.fixture
def records(tmp_path):
    folder = tmp_path / summary.RECORDS
    folder.mkdir(parents=True)
    record(folder, "results/laptop/models/recall/a", "train_model", 100.0, 160.0)
    record(folder, "results/laptop/models/recall/b", "train_model", 110.0, 200.0)
    for padding, begin in (("prefix", 170.0), ("in_sequence", 170.0001)):  # two outputs of one job
        record(folder, f"results/laptop/lookup/a/{padding}.parquet", "lookup_model", begin, 190.0, log="a.log")
    record(folder, "results/laptop/lookup/b/prefix.parquet", "lookup_model", 170.0, 900.0, incomplete=True)
    record(folder, "results/smoke/models/recall/a", "train_model", 0.0, 5000.0)
    (folder / "not a record").write_text("{")
    return folder


def test_a_stage_takes_the_time_of_its_jobs_each_counted_once(records):
    train, lookup = summary.stage_times("results/laptop", records)
    assert (train.rule, train.jobs, train.seconds) == ("train_model", 2, 150.0)
    assert (lookup.rule, lookup.jobs, lookup.seconds) == ("lookup_model", 1, pytest.approx(20.0))
    assert summary.stage_times("results/paper", records) == []
    assert summary.stage_times("results/laptop", records / "missing") == []


def test_the_page_names_versions_times_and_every_claim(tmp_path, monkeypatch, records):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/laptop").mkdir(parents=True)
    layout = Layout("results/laptop")
    assert "Not judged yet" in summary.write(layout).read_text()
    columns = {
        "section": "s",
        "text": "t",
        "model": None,
        "padding": None,
        "n": 3,
        "seeds": "42",
        "low": None,
        "high": None,
    }
    rows = [
        columns | {"claim": claim, "status": status, "value": value}
        for claim, status, value in (
            ("flat", "holds", "6 of 6"),
            ("close", "fails", "0 of 3"),
            ("flip", "not run", "not run"),
        )
    ]
    said = str(Validation(2.41, 2.2))
    rows.append(columns | {"claim": "flat", "status": "not run", "value": said, "model": "w8s8-1kv"})
    frame = pd.DataFrame(rows).astype({"n": "Int64", "low": float, "high": float})
    tables.write(frame, layout.claims("parquet"), "claims", provenance({}, "claims"))
    page = summary.write(layout).read_text()
    for part in (
        f"torch {version('torch')}",
        "| train_model | 2 | 2.5 |",
        "| lookup_model | 1 | 0.3 |",
        "1 hold, 1 fail, 1 not run.",
        "- `flat`: 6 of 6",
        "- `close`: 0 of 3",
        "- `flip`: not run",
        "Models that have not learnt and are no evidence: 1 (w8s8-1kv).",
    ):
        assert part in page
    assert page.index("`flat`") < page.index("`close`") < page.index("`flip`")
