"""The audit on every trained model of a results folder, by default results/laptop: is the period found the stride?

Audits models/recall/*, all asked about the strides 2, 3, 4, 6, 8, 12 and 16; the stride of a model is in its
config.json and the audit is not told. Exits with 1 where a full-attention model has a finding, a compressed one with
a gap above 15 points has another period than its stride, or any depends on the prompt's length with another period.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

import weakspots  # noqa: F401  (registers the architecture)
from weakspots.audit import audit
from weakspots.serving.local import Local

STRIDES = (2, 3, 4, 6, 8, 12, 16)
LARGE = 15  # points


def main() -> int:
    """Print the table; 1 where a model is judged wrongly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path, default=Path("results/laptop"))
    parser.add_argument("--budget", type=int, default=3000, help="prompts per model")
    parser.add_argument("--models", nargs="+", help="names of models; all if not given")
    parser.add_argument("--auto", action="store_true", help="scan all periods of --stride auto instead of the strides")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folders = sorted(path.parent for path in (arguments.results / "models/recall").glob("*/config.json"))
    folders = [folder for folder in folders if not arguments.models or folder.name in arguments.models]
    if not folders:
        print(f"{arguments.results}/models/recall has no models: run `snakemake train` first")
        return 0
    wrong = 0
    print("| model | stride | setting | mean | prompts | period | gap | p | period of the length | right |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for folder in folders:
        row = json.loads((folder / "config.json").read_text())["row"]
        stride = row["stride"] if row["attention"] == "compressed" else None
        backend = Local.load(folder, top=1)
        strides = "auto" if arguments.auto else STRIDES
        length = audit(backend, backend.tokenizer, strides=strides, budget=arguments.budget).lengths[0]
        judged, needle, tail = length.judged[0], length.judged[0].of("needle"), length.judged[0].of("tail")
        found = needle.period if needle.found else None
        expected = found is None if stride is None else (needle.gap <= LARGE or found == stride)
        # where the question stands in its window may matter as well: by the same stride
        expected = expected and (not tail.found or tail.period == stride)
        wrong += not expected
        gap = f"{needle.gap:.0f} [{needle.gap_low:.0f}, {needle.gap_high:.0f}]"
        print(
            f"| {folder.name} | {stride or '-'} | {length.setting} | {judged.accuracy:.0f} % | {length.prompts} | "
            f"{found or '-'} | {gap} | {needle.p_value:.2g} | {tail.period if tail.found else '-'} | "
            f"{'yes' if expected else 'NO'} |",
            flush=True,
        )
    print(f"{len(folders) - wrong} of {len(folders)} as expected")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
