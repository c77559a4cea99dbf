"""The documentation is finished, and points at what exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "results/README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere_and_nothing_is_left_to_fill_in(page: Path) -> None:
    text = page.read_text()
    assert "@@" not in text
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_names_only_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z_0-9]+)", (ROOT / "README.md").read_text()):
        assert re.search(rf"^[^#\t\n]*\b{target}\b[^\n]*:", makefile, re.MULTILINE), f"make {target}"


def test_imports_run_down_the_list_of_rooms_in_architecture_md() -> None:
    listed = re.search(r"## Rooms.*?```\n(.*?)```", (ROOT / "docs/architecture.md").read_text(), re.DOTALL)[1]
    level = {room.strip(): at for at, line in enumerate(listed.splitlines()) for room in line.split(",")}
    package = ROOT / "src/weakspots"
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text())) if room != "__init__" else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "weakspots":
                _, *inside = node.module.split(".")
                for other in inside[:1] or [name.name for name in node.names if list(package.glob(f"{name.name}*"))]:
                    assert other == room or level[other] > level[room], f"{file.relative_to(ROOT)} imports {other}"
