"""The comparison of variants: overlays reach every seed and nothing else, and a verdict that differs is found."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from weakspots import config
from weakspots.files import tables
from weakspots.workflow.provenance import provenance
from weakspots.workflow.targets import Targets

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks/variants.py"
specification = importlib.util.spec_from_file_location("variants", SCRIPT)
variants = importlib.util.module_from_spec(specification)
sys.modules[specification.name] = variants
specification.loader.exec_module(variants)

SHIPPED, SEEDS, ROUNDING = variants.VARIANTS


@pytest.fixture(params=[None, "smoke"])
def files(request):
    """The configuration files of a scale."""
    return [ROOT / "config.yaml", *([ROOT / f"workflow/scales/{request.param}.yaml"] if request.param else [])]


def under(variant, files, tmp_path):
    """The configuration with and without the overlay of a variant."""
    shipped = config.load(*files)
    overlay = tmp_path / "variant.yaml"
    overlay.write_text(yaml.safe_dump(variant.overlay(shipped)))
    return shipped, config.load(*files, overlay)


def test_the_overlay_of_the_seeds_reaches_every_row_and_changes_nothing_else(files, tmp_path):
    shipped, changed = under(SEEDS, files, tmp_path)
    assert {name: row.seed for name, row in changed.models.items()} == {
        name: row.seed + 100 for name, row in shipped.models.items()
    }
    for name in shipped.deepseek.stand_ins:
        assert changed.deepseek.models[name].stand_in.seed == shipped.deepseek.models[name].stand_in.seed + 100

    def without_seeds(settings):
        data = config.resolved(settings) | {"scale": None}
        rows = {name: {**row, "seed": None} for name, row in data["models"].items()}
        for model in data["deepseek"]["models"].values():
            if model["stand_in"]:
                model["stand_in"]["seed"] = None
        return data | {"models": rows}

    assert without_seeds(changed) == without_seeds(shipped)


def test_another_rounding_changes_the_scale_alone_and_the_shipped_seeds_nothing(files, tmp_path):
    shipped, changed = under(ROUNDING, files, tmp_path)
    assert changed == shipped.model_copy(update={"scale": f"{shipped.scale}-other-rounding"})
    assert under(SHIPPED, files, tmp_path)[1] == shipped


def test_variants_are_scales_of_their_own_with_the_results_that_are_compared(files, tmp_path):
    shipped, roots = config.load(*files), set()
    for variant in variants.VARIANTS:
        _, changed = under(variant, files, tmp_path)
        targets = Targets.of(config.resolved(changed))
        assert targets.root == variant.folder(shipped).root
        roots.add(targets.root)
    assert len(roots) == 3
    assert f"results/{shipped.scale}" in roots


def plant(verdicts: dict[str, str], variant, tmp_path):
    """A claims table with these verdicts, and a part of one of them that must not count."""
    columns = {"section": "s", "text": "t", "value": "v", "padding": None, "n": 3, "seeds": "42"}
    columns |= {"low": None, "high": None}
    rows = [columns | {"claim": claim, "status": status, "model": None} for claim, status in verdicts.items()]
    rows.append(rows[0] | {"status": "flat", "model": "w8s8-1kv"})
    frame = pd.DataFrame(rows).astype({"n": "Int64", "low": float, "high": float})
    path = tmp_path / variant.folder(config.load(ROOT / "config.yaml")).claims("parquet")
    tables.write(frame, path, "claims", provenance({}, "claims"))


def compare(tmp_path):
    (tmp_path / "config.yaml").write_text((ROOT / "config.yaml").read_text())
    return subprocess.run(
        [sys.executable, SCRIPT, "--compare"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )


VERDICTS = {"repeats": "holds", "flat": "fails", "needle": "not run"}


def test_equal_verdicts_pass_and_are_all_printed(tmp_path):
    for variant in variants.VARIANTS:
        plant(VERDICTS, variant, tmp_path)
    done = compare(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the verdict of all 3 claims is the same in every variant" in done.stdout
    assert "shipped: 1 holds, 1 fails, 1 not run" in done.stdout


def test_a_verdict_that_differs_is_named_and_fails(tmp_path):
    for variant in variants.VARIANTS:
        plant(VERDICTS | ({"repeats": "fails"} if variant is ROUNDING else {}), variant, tmp_path)
    done = compare(tmp_path)
    assert done.returncode == 1
    assert "1 of 3 claims differ:\n  repeats: shipped holds, seeds-100 holds, other-rounding fails\n" in done.stdout


def test_a_variant_that_was_not_run_is_missing_and_fails(tmp_path):
    assert compare(tmp_path).stdout == "no variant has been run\n"
    plant(VERDICTS, SHIPPED, tmp_path)
    done = compare(tmp_path)
    assert done.returncode == 1 and "needle: shipped not run, seeds-100 missing" in done.stdout
