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
        """The whole merged configuration of the run."""
        return f"{self.root}/config.yaml"

    @property
    def tracking(self) -> str:
        """Which MLflow run the jobs of this invocation belong to."""
        return f"{self.root}/tracking.json"

    def data(self, corpus: str) -> str:
        """Folder of a prepared corpus: token shards, tokenizer, manifest."""
        return f"{self.root}/data/{corpus}"

    def model(self, corpus: str, model: str) -> str:
        """Folder of a model that was trained on a corpus."""
        return f"{self.root}/models/{corpus}/{model}"

    def gates(self, corpus: str, model: str) -> str:
        """Table of gate statistics, taken while the model trained."""
        return f"{self.model(corpus, model)}/gates.parquet"

    def validation(self, corpus: str, model: str) -> str:
        """The validation loss of a trained model."""
        return f"{self.model(corpus, model)}/validation.json"

    def lookup(self, model: str, padding: str) -> str:
        """Table of the answers to every prompt under one padding."""
        return f"{self.root}/lookup/{model}/{padding}.parquet"

    def knockout(self, model: str, padding: str) -> str:
        """Table of the answers under every knockout, for the same prompts."""
        return f"{self.root}/knockout/{model}/{padding}.parquet"

    def cycling(self, model: str) -> str:
        """Table of the answers with cycled gates, for every shift."""
        return f"{self.root}/cycling/{model}.parquet"

    def deepseek(self, model: str, table: str) -> str:
        """`table` is needle, code_completion or layer_knockout."""
        return f"{self.root}/deepseek/{model}/{table}.parquet"

    def stand_in(self, model: str) -> str:
        """Folder of a trained stand-in."""
        return self.model("deepseek", model)

    def theory(self, name: str) -> str:
        """Table of the theory; `name` is one of its kinds."""
        return f"{self.root}/theory/{name}.parquet"

    def figure(self, name: str, suffix: str) -> str:
        """One figure in one format, or the notebook that drew it."""
        return f"{self.root}/figures/{name}.{suffix}"

    @property
    def tables(self) -> Path:
        """Folder of the tables for readers."""
        return Path(self.root) / "tables"

    def table(self, name: str, suffix: str) -> str:
        """One table for readers, in one format."""
        return f"{self.root}/tables/{name}.{suffix}"

    def claims(self, suffix: str) -> str:
        """The claims with their verdicts, in one format."""
        return f"{self.root}/claims.{suffix}"

    @property
    def explorer(self) -> str:
        """The page to explore the results of a run in."""
        return f"{self.root}/explorer.html"

    def log(self, *parts: str, suffix: str = "log") -> str:
        """The log of a job, or with another suffix what else it reports of itself."""
        return f"{self.root}/logs/{'/'.join(parts)}.{suffix}"
