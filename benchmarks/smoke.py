"""A whole run at smoke scale from nothing: its wall time, as `make test` makes it, against 240 s on two quiet cores.

Deletes results/smoke first. Exits with 1 above the bar, and with Snakemake's status if the run fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

SECONDS = 240
COMMAND = ["snakemake", "--quiet", "all", "--configfile", "workflow/scales/smoke.yaml"]


def main() -> int:
    """Runs the smoke scale and prints its wall time; returns the exit status."""
    shutil.rmtree("results/smoke", ignore_errors=True)
    begin = time.perf_counter()
    status = subprocess.run(COMMAND, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode
    wall = time.perf_counter() - begin
    if status:
        print("the smoke run failed: run `make test` to see why")
        return status
    print(f"smoke run: {wall:.0f} s of wall time (bar {SECONDS})")
    return int(wall > SECONDS)


if __name__ == "__main__":
    sys.exit(main())
