"""results/README.md describes every file that a run leaves, and nothing hidden is left over."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
INSIDE = {  # what the rows about folders name in their text
    "data": r"(manifest\.json|tokenizer/.+|(train-\d+|validation)/(\d+\.\w+\.npy|shards\.jsonl))",
    "models": r"(checkpoints/step-\d+/.+|(training|gates)\.parquet|model\.safetensors|\w+\.json)",
}


def described() -> list[str]:
    """A pattern for every path in the first column of the table, relative to results/."""
    patterns = []
    for line in (RESULTS / "README.md").read_text().splitlines():
        if not line.startswith("| `"):
            continue
        place = ""
        for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
            place = name.rpartition("/")[0] if "/" in name and not name.endswith("/") else place
            full = name if "/" in name else f"{place}/{name}".lstrip("/")
            pattern = re.escape(full.replace("<scale>", "smoke"))
            pattern = re.sub(r"<[^<>]+>", "[^/]+", pattern)  # re.escape leaves < and >
            pattern = pattern.replace("…\\.log", ".+\\.log").replace("…", "[^/]*")
            pattern = re.sub(r"\\{(.*?)\\}", lambda found: f"({found[1].replace(',', '|')})", pattern)
            folder = next((inside for part, inside in INSIDE.items() if full.startswith(f"<scale>/{part}/")), ".+")
            patterns.append(pattern + folder if full.endswith("/") else pattern)
    return patterns


def test_every_file_of_a_run_is_described():
    if not (RESULTS / "smoke/SUMMARY.md").exists():
        pytest.skip("the smoke scale has not been run here: snakemake --configfile workflow/scales/smoke.yaml")
    patterns = [re.compile(pattern) for pattern in described()]
    left = [path.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("*") if path.is_file()]
    left = [path for path in left if path.startswith(("smoke/", "mlflow")) and ".snakemake_timestamp" not in path]
    assert len(left) > 100
    unknown = [path for path in left if not any(pattern.fullmatch(path) for pattern in patterns)]
    assert not unknown
