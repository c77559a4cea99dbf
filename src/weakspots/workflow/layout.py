"""Where every file of a run lies.

Paths are text, since Snakemake matches the text of one rule's input to that of another's output.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Paths in the folder of one scale, `results/<scale>`; arguments may be Snakemake's wildcards."""

    root: str

    @classmethod
    def beside(cls, config: str | Path) -> Layout:
        """The layout of the folder that holds this `config.yaml`."""
        return cls(str(Path(config).parent))

    @property
    def config(self) -> str:
        """The configuration of these results, every default spelled out."""
        return f"{self.root}/config.yaml"

    @property
    def tracking(self) -> str:
        """Where and under what name the jobs of this scale are tracked by MLflow."""
        return f"{self.root}/tracking.json"

    @property
    def summary(self) -> str:
        """The page about the last run of the workflow."""
        return f"{self.root}/SUMMARY.md"

    def data(self, corpus: str) -> str:
        """Folder of a prepared corpus: tokenizer, token shards, manifest."""
        return f"{self.root}/data/{corpus}"

    def model(self, corpus: str, model: str) -> str:
        """Folder of a trained model: weights, tokenizer, and the tables of its training."""
        return f"{self.root}/models/{corpus}/{model}"

    def gates(self, corpus: str, model: str) -> str:
        """Table of the gate statistics that were taken while a model trained."""
        return f"{self.model(corpus, model)}/gates.parquet"

    def validation(self, corpus: str, model: str) -> str:
        """Validation loss of a trained model."""
        return f"{self.model(corpus, model)}/validation.json"

    def lookup_folder(self, model: str) -> str:
        """Folder of the lookup tables of a model, one for each padding."""
        return f"{self.root}/lookup/{model}"

    def lookup(self, model: str, padding: str) -> str:
        """Lookup table of a model under one padding."""
        return f"{self.lookup_folder(model)}/{padding}.parquet"

    def knockout_folder(self, model: str) -> str:
        """Folder of the knockout tables of a model, one for each padding."""
        return f"{self.root}/knockout/{model}"

    def knockout(self, model: str, padding: str) -> str:
        """Knockout table of a model under one padding."""
        return f"{self.knockout_folder(model)}/{padding}.parquet"

    def cycling(self, model: str) -> str:
        """Table of a model whose gates are cycled."""
        return f"{self.root}/cycling/{model}.parquet"

    def deepseek(self, model: str, table: str) -> str:
        """A table of one of DeepSeek's models; `table` is needle, code_completion or layer_knockout."""
        return f"{self.root}/deepseek/{model}/{table}.parquet"

    def stand_in(self, model: str) -> str:
        """Folder of a trained stand-in."""
        return self.model("deepseek", model)

    def stand_in_validation(self, model: str) -> str:
        """Validation loss of a trained stand-in."""
        return self.validation("deepseek", model)

    @property
    def theory_folder(self) -> str:
        """Folder of the tables of the idealised model."""
        return f"{self.root}/theory"

    def theory(self, name: str) -> str:
        """One table of the idealised model."""
        return f"{self.theory_folder}/{name}.parquet"

    @property
    def figures_folder(self) -> str:
        """Folder of the figures, and of the notebooks that drew them."""
        return f"{self.root}/figures"

    def figure(self, name: str, suffix: str) -> str:
        """A figure (png, svg), or its executed notebook (ipynb)."""
        return f"{self.figures_folder}/{name}.{suffix}"

    @property
    def tables_folder(self) -> str:
        """Folder of the tables for readers."""
        return f"{self.root}/tables"

    def table(self, name: str, suffix: str) -> str:
        """A table for readers (csv, md)."""
        return f"{self.tables_folder}/{name}.{suffix}"

    def claims(self, suffix: str) -> str:
        """The verdicts on the paper's claims (parquet, md)."""
        return f"{self.root}/claims.{suffix}"

    @property
    def explorer(self) -> str:
        """The interactive page."""
        return f"{self.root}/explorer.html"

    def log(self, *parts: str, suffix: str = "log") -> str:
        """Log of the job named by `parts`, or its notebook up to the cell that failed (suffix ipynb)."""
        return f"{self.root}/logs/{'/'.join(parts)}.{suffix}"
