"""A copy of the project, in which tests may edit sources, and a stand-in for the stages' work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMOKE = ("--configfile", "workflow/scales/smoke.yaml")

STAND_IN = f"""#!{sys.executable}
# Writes what the real command would, with no content: these tests are about which jobs run.
import os, sys
from pathlib import Path
from weakspots.workflow.layout import Layout
from weakspots.files.theory_columns import THEORY_TABLES
stage, *words = sys.argv[1:]
at = words.index("--config")
layout, words = Layout.beside(words[at + 1]), words[:at]
if not Path(layout.config).exists():
    sys.exit("no configuration")
if stage in ("data", "train", "stand-in"):
    folders = {{"data": lambda: layout.data(words[0]), "train": lambda: layout.model(*words)}}
    folder = folders.get(stage, lambda: layout.stand_in(words[0]))()
    Path(folder).mkdir(parents=True)
    Path(folder, "content").write_text(os.environ["OMP_NUM_THREADS"])
else:
    paths = {{
        "lookup": lambda: [
            table(words[0], padding)
            for table in (layout.lookup, layout.knockout)
            for padding in ("prefix", "in_sequence")
        ],
        "theory": lambda: [layout.theory(name) for name in THEORY_TABLES],
        "cycling": lambda: [layout.cycling(words[0])],
        **{{
            name.replace("_", "-"): lambda name=name: [layout.deepseek(words[0], name)]
            for name in ("needle", "code_completion", "layer_knockout")
        }},
        "figure": lambda: [layout.figure(words[0], suffix) for suffix in ("png", "svg", "ipynb")]
        + [
            layout.figure(name, suffix)
            for name in (
                "figure_2_headline", "figure_3_positions", "figure_5_all", "figure_theory_theorem_1",
                "figure_theory_theorem_2", "figure_theory_coverage", "figure_theory_retrieval",
            )
            for suffix in ("png", "svg")
        ]
        + [layout.table(name, suffix) for name in ("selected_runs", "needle") for suffix in ("csv", "md")],
        "claims": lambda: [layout.claims("parquet"), layout.claims("md")],
        "explorer": lambda: [layout.explorer],
    }}[stage]()
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(stage)
print(f"[{{' '.join([stage, *words])}}] done", file=sys.stderr)
"""


@dataclass
class Project:
    """A copy of the project at `folder`."""

    folder: Path

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess:
        """What `snakemake ARGUMENTS` prints, both streams in one."""
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder / "src"),
        }
        environment.pop("WEAKSPOTS_INVOCATION", None)
        return subprocess.run(
            [sys.executable, "-m", "snakemake", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def jobs(self, *arguments: str) -> set[str]:
        """The jobs that `snakemake ARGUMENTS` would run, as `rule wildcard wildcard`, target rules left out."""
        done = self.snakemake("--dry-run", *arguments)
        assert done.returncode == 0, done.stdout
        found = set()
        for rule, body in re.findall(r"^(?:local)?rule (\w+):\n((?:    .*\n)*)", done.stdout, flags=re.MULTILINE):
            wildcards = re.search(r"wildcards: (.*)", body)
            values = [part.split("=")[1] for part in wildcards[1].split(", ")] if wildcards else []
            found.add(" ".join([rule, *values]))
        return found - {"all", "train", "lookup", "knockout", "gates", "cycling", "deepseek"}

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text()
        assert old in text, f"{name} does not hold {old!r}"
        path.write_text(text.replace(old, new, 1))


def copy_project(folder: Path) -> Project:
    for name in ("Snakefile", "config.yaml", "workflow", "profiles", "envs", "notebooks", "src"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / "bin").mkdir()
    command = folder / "bin" / "weakspots"
    command.write_text(STAND_IN)
    command.chmod(0o755)
    return Project(folder)
