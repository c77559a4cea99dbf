"""The shape of a model, as transformers saves it in config.json.

Importing this module registers it, so that `AutoConfig` reads the file.
"""

from __future__ import annotations

from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import AutoConfig  # loaded already: see weakspots/__init__.py

from weakspots.config import Backbone
from weakspots.model_table import ModelRow, model_row


class WeakSpotsConfig(PreTrainedConfig):
    """Shape of a model: the backbone's fields under transformers' names, and `row`, its row of the model table.

    `max_position_embeddings` is the length in tokens of the longest text it was trained on, where that is known; the
    model reads longer ones too, and nothing says how well.
    """

    model_type = "weakspots"

    vocab_size: int = 256
    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    num_key_value_heads: int = 1
    head_dim: int = 16
    intermediate_size: int = 192
    rms_norm_eps: float = 1e-6
    rope_base: float = 10_000.0
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    use_cache: bool = True
    max_position_embeddings: int | None = None
    row: dict | None = None
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None

    @classmethod
    def of(
        cls,
        row: ModelRow,
        backbone: Backbone,
        vocabulary: int,
        end_of_text: int | None = None,
        context: int | None = None,
    ) -> WeakSpotsConfig:
        """The configuration of one row of the model table on `backbone`, trained on texts of `context` tokens."""
        return cls(
            vocab_size=vocabulary,
            hidden_size=backbone.width,
            num_hidden_layers=backbone.layers,
            num_attention_heads=backbone.query_heads,
            num_key_value_heads=row.kv_heads,
            head_dim=backbone.head_width,
            intermediate_size=backbone.mlp_width,
            rms_norm_eps=backbone.norm_epsilon,
            rope_base=backbone.rope_base,
            initializer_range=backbone.initial_std,
            max_position_embeddings=context,
            row={**row.model_dump(exclude_unset=not row.compressed), "compressor": row.compressor},
            bos_token_id=end_of_text,
            eos_token_id=end_of_text,
            pad_token_id=end_of_text,
        )

    def model_row(self) -> ModelRow:
        """The row of the model table this model was built from."""
        row = {"compressor": "none", "kv_heads": self.num_key_value_heads} if self.row is None else self.row
        return model_row(**row)


AutoConfig.register(WeakSpotsConfig.model_type, WeakSpotsConfig)
