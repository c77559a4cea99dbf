"""Output that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def unfinished(output: str | Path, key: str) -> Path:
    """The folder that `building` fills, for others that work on the same output."""
    output = Path(output)
    return output.parent / f".{output.name}.{key}.partial"


@contextmanager
def building(output: str | Path, key: str) -> Iterator[Path]:
    """A folder to fill, which becomes `output` when the block ends without an error.

    The folder is a hidden sibling of `output` named after `key` (a hash of what determines the content). It stays when
    the block fails or the process is killed, and the next call with the same key gets it back as it was: so a job
    resumes from the checkpoints it left there. Snakemake deletes declared outputs before it reruns a job; it does not
    know this sibling. Success also removes what earlier keys left behind.
    """
    output, folder = Path(output), unfinished(output, key)
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    replaced = output.parent / f".{output.name}.replaced"
    shutil.rmtree(replaced, ignore_errors=True)
    if output.exists():
        output.rename(replaced)  # a folder cannot be renamed onto one that holds files
    folder.rename(output)
    for stale in [replaced, *output.parent.glob(f".{output.name}.*.partial")]:
        shutil.rmtree(stale, ignore_errors=True)


@contextmanager
def writing(output: str | Path) -> Iterator[Path]:
    """A path to write one file to, which becomes `output` when the block ends without an error.

    The path has the suffix of `output`, for libraries that choose a format by it. After an error nothing is left.
    """
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.parent / f".{output.stem}.{os.getpid()}.partial{output.suffix}"
    try:
        yield partial
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
