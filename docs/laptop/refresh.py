"""Copies a run's figures, claims and table of selected runs into this folder.

    python docs/laptop/refresh.py [results/laptop]

Figures get a palette of 256 colours, a third of their size, since git keeps every version. In claims.md only links to
figures that are here stay links. The numbers in README.md, docs/laptop_scale.md and docs/audit.md are prose: read them.
"""

import re
import shutil
import sys
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent


def main() -> None:
    """Overwrite what is here with the files of the same name."""
    results = Path(sys.argv[1] if len(sys.argv) > 1 else "results/laptop")
    for old in HERE.glob("*.png"):
        figure = Image.open(results / "figures" / old.name).convert("RGB")
        figure.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(old, optimize=True)
    shutil.copyfile(results / "tables/selected_runs.md", HERE / "selected_runs.md")

    def link(found: re.Match) -> str:
        name = Path(found[2]).name
        return f"[{found[1]}]({name})" if (HERE / name).is_file() else found[1]

    claims = re.sub(r"\[(\w+)\]\(([\w/.]+)\)", link, (results / "claims.md").read_text())
    (HERE / "claims.md").write_text(claims)


if __name__ == "__main__":
    main()
