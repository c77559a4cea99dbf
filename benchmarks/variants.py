"""The same verdicts on every machine: the whole scale three times, in three variants that must not matter.

    python benchmarks/variants.py                                             # the laptop scale: 20 minutes a variant
    python benchmarks/variants.py --configfile workflow/scales/smoke.yaml     # another scale
    python benchmarks/variants.py --compare                                   # the table of what has been run already
    python benchmarks/variants.py --dry-run                                   # what would be run

The variants are the seeds as shipped, all seeds of models and stand-ins + 100, and the shipped seeds with torch's
kernels for any CPU, which round otherwise and so stand for another machine. The first is the scale itself, and the
others are scales of their own, results/<scale>-<variant>, so that what exists already is not run again. Prints every
claim's verdict by variant, and exits with 1 where one differs or a variant is missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import yaml

from weakspots.config import Config, load
from weakspots.files import tables
from weakspots.files.atomic import writing
from weakspots.workflow.layout import Layout

MISSING = "missing"


@dataclass(frozen=True)
class Variant:
    """A run of the whole scale: what is added to the seeds of all models, and to the environment."""

    name: str
    added: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    def overlay(self, config: Config) -> dict:
        """What differs from `config`; seeds are written for every row, also where the row sets none."""
        changes: dict = {"scale": self.scale(config)}
        if self.added:
            changes["models"] = {name: {"seed": row.seed + self.added} for name, row in config.models.items()}
            shapes = {name: config.deepseek.models[name].stand_in for name in config.deepseek.stand_ins}
            stand_ins = {name: {"stand_in": {"seed": shape.seed + self.added}} for name, shape in shapes.items()}
            changes["deepseek"] = {"models": stand_ins}
        return changes

    def scale(self, config: Config) -> str:
        """The name of its scale: that of `config` where nothing is different."""
        return f"{config.scale}-{self.name}" if self.added or self.environment else config.scale

    def folder(self, config: Config) -> Layout:
        """Where its results are."""
        return Layout(f"results/{self.scale(config)}")


VARIANTS = (
    Variant("shipped"),
    Variant("seeds-100", added=100),
    Variant("other-rounding", environment={"ATEN_CPU_CAPABILITY": "default"}),
)


def run(variant: Variant, config: Config, below: list[str], *options: str) -> int:
    """Runs what is missing of a variant; `below` are the overlays of its scale. Returns Snakemake's exit status."""
    overlays = list(below)
    if variant.scale(config) != config.scale:
        overlays.append(str(Path(variant.folder(config).root) / "variant.yaml"))
        with writing(overlays[-1]) as path:
            path.write_text(yaml.safe_dump(variant.overlay(config), sort_keys=False))
    command = ["snakemake", *options, *(["--configfile", *overlays] if overlays else [])]
    print(" ".join([*(f"{name}={value}" for name, value in variant.environment.items()), *command]), flush=True)
    return subprocess.run(command, env={**os.environ, **variant.environment}).returncode


def verdicts(config: Config) -> pd.DataFrame:
    """The verdict of every claim (rows, in the paper's order) in every variant (columns); `MISSING` where not run."""
    found = {}
    for variant in VARIANTS:
        path = Path(variant.folder(config).claims("parquet"))
        table = tables.read(path, "claims") if path.exists() else pd.DataFrame(columns=["claim", "status", "model"])
        found[variant.name] = table[table["model"].isna()].set_index("claim")["status"]
    order = list(dict.fromkeys(claim for statuses in found.values() for claim in statuses.index))
    return pd.DataFrame(found, dtype=object).reindex(index=order, columns=list(found)).fillna(MISSING)


def report(table: pd.DataFrame) -> bool:
    """Prints the table of `verdicts` and the claims that differ; True if they are the same in every variant."""
    if table.empty:
        print("no variant has been run")
        return False
    print(table.rename_axis(index=None).to_string())
    differ = table[table.nunique(axis=1) > 1]
    for variant in table:
        counts = ", ".join(f"{count} {status}" for status, count in table[variant].value_counts().items())
        print(f"{variant}: {counts}")
    if differ.empty and not (table == MISSING).any(axis=None):
        print(f"the verdict of all {len(table)} claims is the same in every variant")
        return True
    print(f"{len(differ)} of {len(table)} claims differ:")
    for claim, statuses in differ.iterrows():
        print(f"  {claim}: " + ", ".join(f"{variant} {status}" for variant, status in statuses.items()))
    return False


def main() -> int:
    """Runs the variants and prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configfile", nargs="+", default=[], help="overlays of another scale than config.yaml's")
    parser.add_argument("--compare", action="store_true", help="run nothing, and compare what has been run")
    parser.add_argument("--dry-run", action="store_true", help="show what would be run, and compare nothing")
    arguments = parser.parse_args()
    config = load("config.yaml", *arguments.configfile)
    if arguments.dry_run:
        options = ("--dry-run", "--quiet", "rules")
        return int(any([run(variant, config, arguments.configfile, *options) for variant in VARIANTS]))
    failed = False
    if not arguments.compare:
        failed = any([run(variant, config, arguments.configfile) for variant in VARIANTS])  # all, also after a failure
    return int(not report(verdicts(config)) or failed)


if __name__ == "__main__":
    sys.exit(main())
