"""Where every file of a run lies."""

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
        return f"{self.root}/config.yaml"

    @property
    def tracking(self) -> str:
        return f"{self.root}/tracking.json"

    def data(self, corpus: str) -> str:
        return f"{self.root}/data/{corpus}"

    def model(self, corpus: str, model: str) -> str:
        return f"{self.root}/models/{corpus}/{model}"

    def gates(self, corpus: str, model: str) -> str:
        return f"{self.model(corpus, model)}/gates.parquet"

    def validation(self, corpus: str, model: str) -> str:
        return f"{self.model(corpus, model)}/validation.json"

    def lookup(self, model: str, padding: str) -> str:
        return f"{self.root}/lookup/{model}/{padding}.parquet"

    def knockout(self, model: str, padding: str) -> str:
        return f"{self.root}/knockout/{model}/{padding}.parquet"

    def cycling(self, model: str) -> str:
        return f"{self.root}/cycling/{model}.parquet"

    def deepseek(self, model: str, table: str) -> str:
        """`table` is needle, code_completion or layer_knockout."""
        return f"{self.root}/deepseek/{model}/{table}.parquet"

    def stand_in(self, model: str) -> str:
        """Folder of a trained stand-in."""
        return self.model("deepseek", model)

    def theory(self, name: str) -> str:
        return f"{self.root}/theory/{name}.parquet"

    def figure(self, name: str, suffix: str) -> str:
        return f"{self.root}/figures/{name}.{suffix}"

    @property
    def tables(self) -> Path:
        """Folder of the tables for readers."""
        return Path(self.root) / "tables"

    def table(self, name: str, suffix: str) -> str:
        return f"{self.root}/tables/{name}.{suffix}"

    def claims(self, suffix: str) -> str:
        return f"{self.root}/claims.{suffix}"

    @property
    def explorer(self) -> str:
        return f"{self.root}/explorer.html"

    def log(self, *parts: str, suffix: str = "log") -> str:
        return f"{self.root}/logs/{'/'.join(parts)}.{suffix}"
