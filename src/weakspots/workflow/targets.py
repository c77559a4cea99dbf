"""What the workflow can make of one scale: every file, and the settings behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from weakspots import config as configuration
from weakspots.config import Config
from weakspots.config.deepseek import TESTS
from weakspots.errors import UserError
from weakspots.files.theory_columns import THEORY_TABLES
from weakspots.workflow.launch import gpus_per_job, process_count
from weakspots.workflow.layout import Layout
from weakspots.workflow.text_digests import text_digest


@dataclass(frozen=True)
class Targets(Layout):
    """The files of one scale that the workflow can make, and the settings behind each.

    `texts` holds, for every corpus, the digest of the files on disk that it is made of.
    """

    settings: Config
    texts: dict[str, str]

    @classmethod
    def of(cls, data: dict) -> Targets:
        """The targets of Snakemake's merged configuration.

        Ends the process where the configuration is wrong: the message is then all that the terminal shows, while
        Snakemake adds lines of the traceback to every exception, its own included.
        """
        try:
            settings = configuration.parse(data)
            texts = {name: text_digest(settings, name) for name in settings.corpora}
            process_count(settings)  # refuses a launcher that does not fit
        except UserError as error:
            raise SystemExit(f"Error in the configuration:\n{error}") from None
        return cls(f"results/{settings.scale}", settings, texts)

    @property
    def models(self) -> list[str]:
        """Folders of all trained models."""
        settings = self.settings
        return [self.model(corpus, name) for corpus in settings.corpora for name in settings.models_of(corpus)]

    @property
    def lookups(self) -> list[str]:
        """All lookup tables."""
        return [self.lookup(*run) for run in self._runs]

    @property
    def knockouts(self) -> list[str]:
        """All knockout tables."""
        return [self.knockout(*run) for run in self._runs]

    @property
    def cycles(self) -> list[str]:
        """All tables of cycled models."""
        return [self.cycling(model) for model in self.settings.cycling.models]

    @property
    def theories(self) -> list[str]:
        """All tables of the theory."""
        return [self.theory(name) for name in THEORY_TABLES]

    @property
    def stand_ins(self) -> list[str]:
        """Folders of all stand-ins of DeepSeek's models."""
        return [self.stand_in(name) for name in self.settings.deepseek.stand_ins]

    @property
    def deepseeks(self) -> list[str]:
        """All tables of DeepSeek's models and their stand-ins: of those that can be asked."""
        settings = self.settings.deepseek
        return [self.deepseek(model, test) for test in TESTS for model in settings.run(test)]

    @property
    def needles(self) -> list[str]:
        """The needle tables among these."""
        return [self.deepseek(model, "needle") for model in self.settings.deepseek.run("needle")]

    def trained_for(self, model: str) -> list[str]:
        """The trained folder that asking this model of `deepseek.models` needs: none unless it is a stand-in."""
        return [self.stand_in(model)] if model in self.settings.deepseek.stand_ins else []

    def gpus_for(self, model: str) -> int:
        """GPUs of a job that asks this model of `deepseek.models`: none where a server answers."""
        return gpus_per_job(self.settings) if self.settings.deepseek.models[model].on_transformers else 0

    @property
    def looked_up(self) -> list[str]:
        """Folders of the models that are asked."""
        corpus = self.settings.lookup.corpus
        return [self.model(corpus, name) for name in self.settings.models_of(corpus)]

    @property
    def _runs(self) -> list[tuple[str, str]]:
        lookup = self.settings.lookup
        return [(name, padding) for name in self.settings.models_of(lookup.corpus) for padding in lookup.paddings]


def one_of(names: Iterable[str]) -> str:
    """The regular expression of a wildcard that stands for one of `names`, so that no other name is taken for one."""
    return "|".join(map(re.escape, names))
