"""What the files of a shard hold, read as `weakspots.data.shards` describes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def document_starts(folder: Path) -> np.ndarray:
    """Where the documents start in the stream of tokens of a part, int64 [documents]."""
    starts, begin = [], 0
    for file in sorted(folder.glob("*.documents.npy")):
        starts.append(np.load(file) + begin)
        begin += len(np.load(file.with_name(file.name.replace("documents", "tokens"))))
    return np.concatenate(starts)
