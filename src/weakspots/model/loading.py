"""A causal language model and its tokenizer, from a folder, from the hub or from a GGUF file.

Code that comes with a model is never run, and pickled weights, which are code too, are never read.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from weakspots.errors import UserError, first_line
from weakspots.files.hashes import config_hash
from weakspots.machine import device as devices

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def load(
    source: str | Path, *, dtype: str = "float32", device: str = "cpu", remedy: str = "get it anew"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """The model that `source` names, ready to be asked on `device`, and its tokenizer.

    `source` is a folder with config.json and safetensors, a path that ends with .gguf, or a name on the hub. A folder
    may come without a tokenizer (None then). Raises UserError where there is no such model, device or dtype, where
    transformers does not know the architecture, and where weights are missing or pickled; `remedy` is what then helps
    against a damaged one.
    """
    if dtype not in DTYPES:
        raise UserError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    devices.check(device)
    path, options = _where(source, remedy)
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=DTYPES[dtype],
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
        without = Path(path).is_dir() and not options and not [*Path(path).glob("tokenizer*.json")]
        tokenizer = None if without else AutoTokenizer.from_pretrained(path, trust_remote_code=False, **options)
    except Exception as error:  # transformers raises many kinds
        reason = first_line(error)
        raise UserError(f"{source} does not load ({reason[:200]}): {remedy}") from error
    # transformers would go on with random numbers for a missing weight
    if wrong := sorted(map(str, [*found["missing_keys"], *found["mismatched_keys"]])):
        raise UserError(f"{source} lacks weights that its configuration asks for ({', '.join(wrong[:3])}): {remedy}")
    return model.to(device).eval(), tokenizer


def load_trained(folder: str | Path, device: str = "cpu") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model that the pipeline trained into `folder`, ready to be asked on `device`, and its tokenizer.

    Raises UserError, with the command that makes it anew, where the folder holds no model or a damaged one.
    """
    folder = Path(folder)
    if not (folder / "config.json").exists():
        raise UserError(f"{folder} holds no trained model: run `snakemake {folder}` first")
    remedy = f"delete the folder and run `snakemake {folder}`"
    model, tokenizer = load(folder, device=device, remedy=remedy)
    if tokenizer is None:
        raise UserError(f"{folder} holds no tokenizer: {remedy}")
    return model, tokenizer


def version(source: str | Path, model: PreTrainedModel) -> str:
    """What tells these weights from others of the same name: a commit of the hub, or the files' sizes and times."""
    path = Path(source)
    if not path.exists():
        return str(getattr(model.config, "_commit_hash", None))
    files = [path] if path.is_file() else sorted([*path.glob("*.safetensors"), path / "config.json"])
    return config_hash([[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files])


def _where(source: str | Path, remedy: str) -> tuple[str, dict[str, str]]:
    """What transformers calls the model's path and its options, after the mistakes that it explains badly."""
    path = Path(source)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise UserError(f"{source} does not exist: give the path of a GGUF file")
        if find_spec("gguf") is None:
            raise UserError('GGUF files need the package gguf: pip install "gguf>=0.19"')
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir():
        if not (path / "config.json").exists():
            raise UserError(f"{source} holds no model: it has no config.json")
        if not [*path.glob("*.safetensors")]:
            if any([*path.glob(pattern)] for pattern in _PICKLED):
                raise UserError(f"{source} has pickled weights, which can run code: convert them to safetensors first")
            raise UserError(f"{source} has no weights (*.safetensors is missing): {remedy}")
    elif path.is_file() or str(source).startswith(("/", ".", "~")) or str(source).count("/") > 1:
        raise UserError(f"{source} is no folder with a model: give a folder, a .gguf file or a name on the hub")
    return str(source), {}
