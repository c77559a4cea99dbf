"""The compressed KV cache: what decoding must remember of the tokens behind it.

Per layer: the entries of every closed window, the exact keys and values the next query may still see, and the hidden
states of the windows that are still open. So a text of T tokens costs about T / S entries per head, and a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicLayer

from weakspots.attention.memory import Memory

Pair = tuple[torch.Tensor, torch.Tensor]


def _own(view: torch.Tensor) -> torch.Tensor:
    """The same values in memory of their own size, so that what was cut off is freed.

    Not `contiguous()`, which copies nothing where the text is the only one of its batch, and keeps all of it.
    """
    own = view.untyped_storage().nbytes() == view.numel() * view.element_size()
    return view if own else view.clone(memory_format=torch.contiguous_format)


class CompressedLayer(CacheLayerMixin):
    """Cache of one chunk-compressed attention layer.

    `keys` and `values` are the entries `[B, K, N, D]`; `local_keys` and `local_values` `[B, K, L, D]` are the exact
    tokens before position `seen`; `open_hidden` `[B, M, E]` are the hidden states from the first open window on.
    """

    keys: Any  # this and the next four: None before the first tokens
    values: Any
    local_keys: Any
    local_values: Any
    open_hidden: Any

    def __init__(self, memory: Memory):
        super().__init__()
        self.memory = memory
        self.reset()

    def reset(self) -> None:
        """Forgets everything."""
        self.seen = 0
        self.keys = self.values = self.local_keys = self.local_values = self.open_hidden = None
        self.is_initialized = False

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to allocate: tensors come with the first tokens."""
        self.is_initialized = True

    def update(self, keys: torch.Tensor, values: torch.Tensor, *args: object, **kwargs: object) -> Pair:
        """Raises TypeError: a compressed layer needs hidden states, not keys and values alone."""
        raise TypeError("a compressed layer is extended with hidden states: call extend")

    def extend(
        self, keys: torch.Tensor, values: torch.Tensor, hidden: torch.Tensor, compress: Callable[..., Pair]
    ) -> tuple[Pair, torch.Tensor, Pair]:
        """Adds the next tokens and returns what their queries may see.

        `keys` and `values` are their exact `[B, K, Q, D]`, `hidden` `[B, Q, E]` the compressor's input for them.
        `compress(hidden, lead, first)` gives the finished entries of all windows that close in `hidden`, the first of
        which is entry `first`. Returns (local keys and values, their positions, entry keys and values).
        """
        memory, start = self.memory, self.seen
        first = memory.entry_count(start)
        if self.local_keys is not None:
            keys = torch.cat([self.local_keys, keys], dim=2)
            values = torch.cat([self.local_values, values], dim=2)
            hidden = torch.cat([self.open_hidden, hidden], dim=1)
        end = max(0, first * memory.stride - memory.lead) + hidden.shape[1]
        positions = torch.arange(end - keys.shape[2], end, device=keys.device)
        entries = compress(hidden, max(0, memory.lead - first * memory.stride), first)
        if self.keys is not None:
            entries = torch.cat([self.keys, entries[0]], dim=2), torch.cat([self.values, entries[1]], dim=2)
        self._keep(keys, values, hidden, entries, end)
        return (keys, values), positions, entries

    def _keep(self, keys: torch.Tensor, values: torch.Tensor, hidden: torch.Tensor, entries: Pair, end: int) -> None:
        self.keys, self.values = (_own(x) for x in entries)
        self.seen, self.is_initialized = end, True
        oldest = int(self.memory.local_start(torch.tensor(end)))
        kept = max(0, end - oldest)
        self.local_keys, self.local_values = (_own(x[:, :, x.shape[2] - kept :]) for x in (keys, values))
        open_from = max(0, self.memory.entry_count(end) * self.memory.stride - self.memory.lead)
        self.open_hidden = _own(hidden[:, max(0, hidden.shape[1] - (end - open_from)) :])

    def get_seq_length(self) -> int:
        """Tokens of text seen, not entries held."""
        return self.seen

    def get_max_length(self) -> int:
        """-1: there is no limit."""
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys that a mask of transformers would cover."""
        return self.seen + query_length, 0

    def _tensors(self) -> list[str]:
        names = ["keys", "values", "local_keys", "local_values", "open_hidden"]
        return [name for name in names if getattr(self, name) is not None]

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Keeps the chosen beams."""
        for name in self._tensors():
            tensor = getattr(self, name)
            setattr(self, name, tensor.index_select(0, beam_idx.to(tensor.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeats every text of the batch."""
        for name in self._tensors():
            setattr(self, name, getattr(self, name).repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keeps the texts `indices` of the batch."""
        for name in self._tensors():
            setattr(self, name, getattr(self, name)[indices])


def new_cache(memories: Iterable[Memory | None]) -> Cache:
    """An empty cache for a model whose layers have `memories`, None for full attention."""
    return Cache(layers=[CompressedLayer(memory) if memory else DynamicLayer() for memory in memories])
