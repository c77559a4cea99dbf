"""The content of the texts that a corpus is made of, by which the workflow decides whether to prepare it again.

Content, and not names in a command or times of files: a corpus may have 60,000 files with any names, and one that is
copied keeps its texts but not their times.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from weakspots.config import Config, LocalSource
from weakspots.data.text_files import source_files
from weakspots.files.atomic import writing
from weakspots.files.hashes import config_hash, sha256

CACHE = Path(".snakemake/weakspots-texts.json")
"""Digests of files that have not changed in size or time since, so that a large corpus is not read at every start."""


def text_digests(config: Config, corpus: str) -> dict[str, str]:
    """SHA-256 of every file on disk that a corpus is made of, by its path: none unless its source is local.

    Files in the working directory are named from there, so that a folder that moved still holds the same corpus.
    Raises UserError where there are none.
    """
    source = config.corpora[corpus].source
    if not isinstance(source, LocalSource):
        return {}
    here = Path.cwd()
    files = [here / file for file in source_files(source.paths)]
    return {str(file.relative_to(here) if file.is_relative_to(here) else file): sha256(file) for file in files}


def text_digest(config: Config, corpus: str) -> str:
    """One digest for names and contents of all texts of a corpus. Raises UserError as `text_digests` does."""
    source = config.corpora[corpus].source
    if not isinstance(source, LocalSource):
        return ""
    known: dict[str, list] = {}
    with suppress(OSError, ValueError):
        known = json.loads(CACHE.read_text())
    found = {}
    for file in source_files(source.paths):
        about = file.stat()
        size, time, digest = known.get(str(file), (None, None, ""))
        if (size, time) != (about.st_size, about.st_mtime_ns):
            digest = sha256(file)
        found[str(file)] = [about.st_size, about.st_mtime_ns, digest]
    if any(known.get(file) != entry for file, entry in found.items()):
        with suppress(OSError):  # a folder that cannot be written: the texts are read again next time
            CACHE.parent.mkdir(exist_ok=True)
            with writing(CACHE) as path:
                path.write_text(json.dumps(known | found))
    return config_hash([[Path(file).name, digest] for file, (_, _, digest) in found.items()])
