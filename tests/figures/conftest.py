"""No test of figures leaves its figures open."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")
