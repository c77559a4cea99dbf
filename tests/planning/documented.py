"""The plans that docs/paper_scale.md shows, each between the command and an end mark.

python tests/planning/documented.py     writes them again
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from weakspots.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/paper_scale.md"
BLOCK = re.compile(r"(<!-- (weakspots plan [^\n]*) -->\n)(.*?)(\n<!-- end of the plan -->)", re.DOTALL)


def output(command: str) -> str:
    """What `weakspots plan ...` prints, run in the project's folder."""
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        assert main(command.split()[1:]) == 0
    return printed.getvalue().strip()


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda found: found[1] + output(found[2]) + found[4], PAGE.read_text()))
