"""A trained model's folder, loaded whole or refused."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from weakspots import device as devices
from weakspots.errors import UserError


def load(folder: str | Path, device: str = "cpu") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model in `folder`, ready to be asked on `device`, and its tokenizer.

    Raises UserError where the folder holds no model, or one that lacks weights or whose files are damaged (transformers
    itself would go on with random numbers for a missing weight), and where there is no such device.
    """
    folder = Path(folder)
    if not (folder / "config.json").exists():
        raise UserError(f"{folder} holds no trained model: run `snakemake {folder}` first")
    devices.check(device)
    again = f"delete the folder and run `snakemake {folder}`"
    try:
        model, found = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # transformers raises many kinds for a damaged folder
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"{folder} does not load ({reason}): {again}") from error
    if wrong := sorted(map(str, [*found["missing_keys"], *found["mismatched_keys"]])):
        raise UserError(f"{folder} lacks weights that its config.json asks for ({', '.join(wrong[:3])}): {again}")
    return model.to(device).eval(), tokenizer
