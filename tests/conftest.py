"""What all tests share. Being here, it also lets them import `planted` from this folder."""

from __future__ import annotations

import os

import matplotlib

os.environ.setdefault("TRITON_INTERPRET", "1")  # before anything imports triton, which decides then; 0: on a GPU
matplotlib.use("agg")
