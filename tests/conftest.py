"""What all tests share. Being here, it also lets them import `planted` from this folder."""

from __future__ import annotations

import matplotlib

matplotlib.use("agg")
