"""The documents of a corpus: three sources behind `documents`.

recall  generated text; every stage, and the validation split, has a stream of its own that never ends.
local   files on disk, in an order drawn with the corpus seed: one stream that ends. The texts are held in memory.
hub     a Hugging Face data set, streamed in its own order: one stream that ends. A folder too large for memory can be
        read this way too: `path` may be a local folder.

The last two know nothing of splits: `weakspots.data.prepare` takes the first documents of the stream for validation,
as many as fill it, and the training stages go on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from weakspots.config import Corpus, HubSource, LocalSource, RecallSource
from weakspots.data.document import Document
from weakspots.data.recall import recall_documents
from weakspots.data.text_files import is_readable, source_files, text_of, texts
from weakspots.errors import UserError, in_brackets

Split = Literal["train", "validation"]

_VALIDATION_STREAM = 1_000_000
"""Added to the stage in the seed of recall documents: no corpus has that many stages, so no stream is shared."""


def documents(corpus: Corpus, stage: int, split: Split, start: int = 0) -> Iterator[Document]:
    """The documents of `corpus` for stage number `stage`, from number `start` on; the same ones for the same seed.

    Recall documents depend on stage and split, and never end. Local and hub documents depend on neither. Documents
    without any text are left out, and not counted.

    Raises UserError, which names the key of the corpus or the file and line, for what cannot be read.
    """
    source = corpus.source
    if isinstance(source, RecallSource):
        stream = stage if split == "train" else _VALIDATION_STREAM + stage
        return recall_documents(source, corpus.stages[stage], (corpus.seed, stream), start)
    found = _local_texts(source, corpus.seed) if isinstance(source, LocalSource) else _hub_texts(source)
    return (Document(text) for text in islice((text for text in found if text.strip()), start, None))


def _local_texts(source: LocalSource, seed: int) -> Iterator[str]:
    """The texts of all files. They are shuffled, so that the first ones stand for the whole (validation needs that)."""
    found = [text for path in source_files(source.paths) for text in texts(path, source.text_field)]
    return (found[index] for index in np.random.default_rng(seed).permutation(len(found)))


def _hub_texts(source: HubSource) -> Iterator[str]:
    """Of files on this machine the one column is read, so that the others may differ from file to file."""
    from datasets import load_dataset, load_dataset_builder
    from datasets.exceptions import DatasetsError

    where = f"data set {source.path}"
    try:
        builder = load_dataset_builder(source.path, source.name, revision=source.revision)
        files = [Path(file) for file in (builder.config.data_files or {}).get(source.split, [])]
        if files and all(map(is_readable, files)):
            for file in files:
                yield from texts(file, source.text_field)
            return
        # a Parquet file is read by columns
        columns = {"columns": [source.text_field]} if builder.name == "parquet" else {}
        stream = load_dataset(
            source.path, source.name, split=source.split, revision=source.revision, streaming=True, **columns
        )
        for row in stream:
            yield text_of(row, source.text_field, where)
    # no such data set, configuration or split, one that is a script, no network, a row it cannot read
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        raise UserError(
            f"source.path {source.path!r} cannot be read ({in_brackets(error)}): correct source.path, name, split or "
            f"revision, or see that the network is there"
        ) from None
