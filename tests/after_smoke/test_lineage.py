"""From every figure of a run back to the corpus and forward again, by the tags of MLflow, with the hashes of the files.

Needs the results of the smoke scale: `make test` comes back to this test after it has made them.
"""

from pathlib import Path

import pytest

from weakspots.workflow.tracking import content_hash

ROOT = Path(__file__).parents[2]
SCALE = Path("results/smoke")


@pytest.fixture(scope="module")
def wrote_and_read():
    """Runs by output path and hash; inputs of each run."""
    if not (ROOT / SCALE / "SUMMARY.md").exists() or not (ROOT / "results/mlflow.db").exists():
        pytest.skip("the smoke scale has not been run here: snakemake --configfile workflow/scales/smoke.yaml")
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{ROOT}/results/mlflow.db")
    experiment = client.get_experiment_by_name("smoke")
    runs = client.search_runs([experiment.experiment_id], "attributes.status = 'FINISHED'", max_results=5000)
    wrote, read = {}, {}
    for run in runs:  # the newest first
        tags = run.data.tags
        read[run.info.run_id] = {key[6:]: value for key, value in tags.items() if key.startswith("input/")}
        for key, value in tags.items():
            if key.startswith("output/"):
                wrote.setdefault((key[7:], value), run.info.run_id)
    return wrote, read


def lineage(path: str, wrote: dict, read: dict) -> dict[str, str]:
    """Every file and folder that `path` comes from, with its hash as the jobs noted it."""
    found, todo = {}, [(path, content_hash(ROOT / path))]
    while todo:
        item = todo.pop()
        if item[0] in found:
            assert found[item[0]] == item[1], f"{item[0]} had two contents"
            continue
        found[item[0]] = item[1]
        if item[0].startswith("results/"):
            assert item in wrote, f"no job says that it wrote {item[0]} as it is now"
            todo += read[wrote[item]].items()
    return found


FIGURES = [f"figures/figure_{number}.png" for number in range(1, 7)] + ["figures/figure_2_headline.png"]
TABLES = ["tables/selected_runs.csv", "tables/needle.csv", "claims.parquet", "claims.md"]


@pytest.mark.parametrize("name", [*FIGURES, *TABLES])
def test_a_figure_leads_back_to_the_corpus_with_the_hashes_of_the_files(wrote_and_read, name):
    found = lineage(f"{SCALE}/{name}", *wrote_and_read)
    assert f"{SCALE}/data/recall" in found
    assert any(path.startswith(f"{SCALE}/models/") for path in found)
    for path, noted in found.items():
        assert content_hash(ROOT / path) == noted, path


def test_the_corpus_leads_forward_to_every_figure(wrote_and_read):
    wrote, read = wrote_and_read
    outputs: dict[str, set] = {}
    for item, run in wrote.items():
        outputs.setdefault(run, set()).add(item)
    reached, todo = set(), [(f"{SCALE}/data/recall", content_hash(ROOT / SCALE / "data/recall"))]
    while todo:
        item = todo.pop()
        if item not in reached:
            reached.add(item)
            todo += [out for run, inputs in read.items() if item in inputs.items() for out in outputs.get(run, ())]
    names = {path for path, _ in reached}
    assert {f"{SCALE}/{name}" for name in [*FIGURES, *TABLES]} <= names
