"""A page of planted results, and a browser that opens it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from planted_mechanism import planted_mechanism
from planted_theory import tables as theory_tables

from weakspots import claims
from weakspots.analysis.results import Results
from weakspots.claims.report import to_frame
from weakspots.config import load, write
from weakspots.explorer import build
from weakspots.files import tables
from weakspots.workflow.layout import Layout

ROOT = Path(__file__).parents[2]

SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1280, 900)}

NOT_LOOKED_UP = "w8s8-1kv-uniform"
"""A run of the planted table that was not run."""

NASTY = "</script><script>window.broken = true</script><img src=x onerror='window.broken = true'>"
"""What no text of the data may turn into."""

COMPLETED = "v4.1-flash"
"""The model of DeepSeek's whose code completion was run, with planted answers."""


@dataclass(frozen=True)
class Page:
    """The page of planted results: the results themselves, their folder, the file and the data in it."""

    results: Results
    layout: Layout
    file: Path
    data: dict = field(repr=False)


def data_in(file: Path) -> dict:
    """The data of a page."""
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read_text(), re.DOTALL)
    return json.loads(text[1])


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A page in which one run was not run and a claim has a nasty text, with empty files where links lead."""
    layout = Layout(str(tmp_path_factory.mktemp("results") / "planted"))
    config = load(ROOT / "config.yaml")
    write(config, layout.config)
    results = planted_mechanism(changes={NOT_LOOKED_UP: None})
    results.theory = {name: table.copy() for name, table in theory_tables().items()}
    results.deepseek = config.deepseek.models
    results.completions[COMPLETED] = _completion()
    results.needles["stand-in"] = np.random.default_rng(0).random((64, 8)) < np.tile([0.9, 0.4, 0.7, 0.1], 2)
    frame = to_frame(claims.judge(results))
    frame.loc[frame["claim"] == "seeds-agree", "text"] = NASTY
    tables.write(frame, layout.claims("parquet"), "claims", {})
    for run in results.outcomes:
        _touch(layout.lookup(*run))
    _touch(layout.figure("figure_2", "png"))
    file = Path(layout.root) / "explorer.html"
    build(results, layout, file)
    return Page(results, layout, file, data_in(file))


def _completion() -> pd.DataFrame:
    """A completion with period 2, of which the server did not report one probability."""
    length = np.arange(24, 40)
    right = np.where(length % 2 == 1, 0.9, 0.2)
    second = np.log(1 - right)
    second[1] = np.nan
    about = {"family": "equals", "length": length, "equals": length - 15, "source": "stand-in module"}
    return pd.DataFrame({**about, "first_logprob": np.log(right), "second_logprob": second})


def _touch(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).touch()


@pytest.fixture(scope="module")  # not longer: while playwright runs, this process cannot run an event loop of its own
def browser() -> Iterator:
    """A headless Chromium; tests that need it are skipped, saying so, where there is none."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("no browser on this machine: install chromium to test the explorer's page in one")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -r envs/browser.txt")
    # Chromium's sandbox refuses to run as root, which is who runs tests in containers; the page is our own.
    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=options)
        yield started
        started.close()


@dataclass
class Opened:
    """A page in a browser, and what went wrong or out on it."""

    tab: object
    errors: list[str]
    requests: list[str]

    def open(self, view: str) -> None:
        self.tab.click(f"#tab-{view}")

    def choose(self, label: str, value: str) -> None:
        self.tab.get_by_label(label, exact=True).select_option(value)

    def check(self, name: str) -> None:
        self.tab.get_by_label(name, exact=True).check()

    def table(self, number: int = 0) -> list[list[str]]:
        """The cells of a data table in the view, whether it is unfolded or not."""
        return self.tab.evaluate(
            "number => [...document.querySelectorAll('#view table.data')[number].tBodies[0].rows]"
            ".map(row => [...row.cells].map(cell => cell.textContent))",
            number,
        )

    def column(self, name: str, number: int = 0) -> list[float | None]:
        """A column of a data table as numbers; None where the cell says that there is none."""
        names = self.tab.evaluate(
            "number => [...document.querySelectorAll('#view table.data')[number].tHead.rows[0].cells]"
            ".map(cell => cell.textContent)",
            number,
        )
        return [as_number(row[names.index(name)]) for row in self.table(number)]

    def drawn(self, name: str, number: int = 0) -> list[list[float]]:
        """The points that a chart draws under this name."""
        return self.tab.evaluate(
            "([name, number]) => echarts.getInstanceByDom(document.querySelectorAll('#view .chart')[number])"
            ".getOption().series.filter(one => one.name === name).flatMap(one => one.data)"
            ".map(point => point.value ?? point).filter(point => point[1] !== null)",
            [name, number],
        )

    def cells(self) -> list[list[float | None]]:
        """The numbers in the map of the view, row by row."""
        rows = self.tab.evaluate(
            "() => [...document.querySelectorAll('#view table.map tbody tr')]"
            ".map(row => [...row.querySelectorAll('td.cell')].map(cell => cell.textContent))"
        )
        return [[as_number(cell) for cell in row] for row in rows]


def as_number(text: str) -> float | None:
    return None if text == "–" else float(text.replace("−", "-").replace(",", "").replace("+", ""))


@pytest.fixture(params=SIZES)
def opened(request: pytest.FixtureRequest, browser, page: Page) -> Iterator[Opened]:
    """The page from file://, at a window size; afterwards: no error, and no request but for the file."""
    width, height = SIZES[request.param]
    context = browser.new_context(viewport={"width": width, "height": height})
    context.set_default_timeout(10_000)  # milliseconds that an element may take to appear
    tab = context.new_page()
    found = Opened(tab, [], [])
    tab.on("console", lambda message: found.errors.append(message.text))
    tab.on("pageerror", lambda error: found.errors.append(str(error)))
    tab.on("request", lambda asked: found.requests.append(asked.url))
    tab.goto(page.file.as_uri())
    yield found
    context.close()
    assert not found.errors
    assert [url for url in found.requests if not url.startswith("data:")] == [page.file.as_uri()]
