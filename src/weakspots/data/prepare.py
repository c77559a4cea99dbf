"""A corpus, from its source to packed token shards and a manifest.

    tokenizer/       a transformers tokenizer folder
    validation/      shards of training.validation_sequences sequences, as long as the last stage's
    train-0/ ...     shards of each stage
    manifest.json    the settings, and what was written: counts, sizes and hashes

The recall corpus has a stream of documents for every part. Local and hub text is one stream: validation takes its first
documents, and each stage goes on at the document after the last one of the part before. A stage that finds none left
starts over at the first training document; a stage whose text runs out has fewer sequences.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from weakspots.config import Corpus, RecallSource
from weakspots.data.corpora import Split, documents
from weakspots.data.packing import write_shards
from weakspots.data.shards import INDEX
from weakspots.data.tokenization import Encoder, build_tokenizer
from weakspots.errors import UserError
from weakspots.files.atomic import building, writing
from weakspots.files.hashes import config_hash, sha256, sha256_of

MANIFEST = "manifest.json"

_Part = tuple[str, int, Split, int]  # folder, number of the stage, split, sequences


Accept = Callable[[PreTrainedTokenizerFast], object]


def prepare(corpus: Corpus, name: str, output: Path, workers: int, accept: Accept | None = None) -> dict:
    """Tokenize and pack the corpus called `name` into the folder `output`; returns the manifest.

    `accept` is shown the tokenizer before any text is read with it, and raises where it will not do.

    Goes on where a killed call stopped, and writes the same bytes for any number of `workers`, which are the Rust
    threads of `tokenizers`: it must be the process's first use of them, since they cannot be changed after that.
    Raises UserError, which begins with the corpus, for what the user can put right.
    """
    os.environ["RAYON_NUM_THREADS"] = str(workers)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if workers > 1 else "false"
    try:
        return _prepare(corpus, name, output, workers, accept)
    except UserError as error:
        raise UserError(f"corpora.{name}: {error}") from error


def _prepare(corpus: Corpus, name: str, output: Path, workers: int, accept: Accept | None) -> dict:
    output.mkdir(parents=True, exist_ok=True)
    manifest: dict[str, Any] = {"corpus": name, "configuration": corpus.data_settings()}
    _begin(output, manifest)
    tokenizer = _tokenizer(corpus, output / "tokenizer")
    if accept:
        accept(tokenizer)
    encoder = Encoder(tokenizer)

    recall = isinstance(corpus.source, RecallSource)
    last = len(corpus.stages) - 1
    validation: _Part = ("validation", last, "validation", corpus.training.validation_sequences)
    stages: list[_Part] = [
        (f"train-{number}", number, "train", stage.sequences) for number, stage in enumerate(corpus.stages)
    ]
    parts: dict[str, dict] = {}
    files = _measure(output, "tokenizer/*")
    first_for_training = start = 0
    for part, stage, split, sequences in [validation, *stages]:
        length = corpus.stages[stage].length
        lines = write_shards(
            output / part,
            partial(documents, corpus, stage, split),
            encoder,
            start=start,
            token_limit=sequences * length,
            shard_tokens=corpus.shard_tokens,
            with_answers=recall,
            workers=workers,
        )
        tokens = sum(line["tokens"] for line in lines)
        if split == "validation":
            _must_fill(tokens, sequences * length, f"training.validation_sequences {sequences} of {length} tokens")
        else:
            _must_fill(tokens, length, f"one sequence of stages[{stage}].length {length} besides validation")
        if not recall:
            first_for_training = lines[-1]["next_document"] if split == "validation" else first_for_training
            start = first_for_training if lines[-1]["exhausted"] else lines[-1]["next_document"]
        parts[part] = {
            "sequences": tokens // length,
            "length": length,
            "tokens": tokens,
            "documents": sum(line["documents"] for line in lines),
            "shards": len(lines),
        }
        files |= {f"{part}/{file}": entry for line in lines for file, entry in line["files"].items()}
    manifest |= {
        "vocabulary": encoder.vocabulary,
        "end_of_text": encoder.end_of_text,
        "token_type": encoder.dtype.name,
        "parts": parts,
        "files": files | _measure(output, f"*/{INDEX}"),
    }
    # One hash for everything: what a tracked run names as its data set.
    manifest["digest"] = sha256_of(json.dumps(manifest["files"], sort_keys=True).encode())
    _write_json(output / MANIFEST, manifest)
    return manifest


def _begin(output: Path, manifest: dict) -> None:
    """Put down what the folder is for, so that a call for something else does not go on with it."""
    path = output / MANIFEST
    if not path.exists():
        _write_json(path, manifest)
        return
    found = json.loads(path.read_text())
    if any(found.get(key) != value for key, value in manifest.items()):
        raise UserError(f"{output} holds data of another corpus or configuration: remove it or choose another folder")
    for torn in output.rglob(".*.partial*"):  # files that a killed call was about to write
        if torn.is_file():
            torn.unlink()


def _tokenizer(corpus: Corpus, folder: Path) -> PreTrainedTokenizerFast:
    if not folder.is_dir():
        with building(folder, config_hash(corpus.tokenizer)) as unfinished:
            build_tokenizer(corpus).save_pretrained(unfinished)
    return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def _must_fill(found: int, wanted: int, what: str) -> None:
    if found < wanted:
        raise UserError(f"the text has {found} tokens left, too few for {what}: add text, or lower the numbers")


def _measure(output: Path, pattern: str) -> dict[str, dict]:
    """Size and hash of the files that match, by their path in `output`."""
    return {
        path.relative_to(output).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(output.glob(pattern))
    }


def _write_json(path: Path, value: dict) -> None:
    with writing(path) as unfinished:
        unfinished.write_text(json.dumps(value, indent=2) + "\n")
