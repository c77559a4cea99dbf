"""Batches of texts that begin at different columns: pads stand on the left, as tokenizers put them before prompts.

A pad must not count: it would move the boundaries of all windows behind it. So texts with equally many pads are read
together, without their pads, and every such group has a cache of its own. The result is that of the texts one by one.

Shapes: B texts, T columns, Q columns of one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from transformers.cache_utils import Cache


def pads_before(mask: torch.Tensor | None) -> torch.Tensor | None:
    """Number of pads before each text `[B]` of a batch with attention mask `mask` `[B, T]`; None where there are none.

    Raises ValueError where a token that is hidden lies between two that are not.
    """
    if mask is None:
        return None
    shown = mask.bool()
    if bool((shown[:, 1:] & ~shown[:, :-1]).sum(dim=1).gt(1 - shown[:, :1].sum(dim=1)).any()):
        raise ValueError(
            "a pad between two tokens would move the window boundaries: pad on one side, and on the left to generate"
        )
    pads = shown.cumsum(dim=1).eq(0).sum(dim=1)
    return pads if bool(pads.any()) else None


class PaddedCache(Cache):
    """The caches of a left-padded batch, one for each number of pads, which holds its texts in the batch's order."""

    def __init__(self, pads: torch.Tensor, new_cache: Callable[[], Cache]):
        super().__init__(layers=[])
        self.pads, self.columns = pads, 0
        self.caches = {pad: new_cache() for pad in sorted(set(pads.tolist()))}

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Columns seen, pads included, which is what `generate` counts in."""
        return self.columns

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeats every text of the batch."""
        self.pads = self.pads.repeat_interleave(repeats)
        for cache in self.caches.values():
            cache.batch_repeat_interleave(repeats)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Keeps the chosen beams."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keeps the texts `indices` of the batch, in this order; a text may be named more than once."""
        chosen = self.pads[indices]
        for pad, cache in list(self.caches.items()):
            place = (self.pads == pad).cumsum(dim=0) - 1  # of a text in its group
            if len(mine := place[indices[chosen == pad]]):
                cache.batch_select_indices(mine)
            else:
                del self.caches[pad]
        self.pads = chosen


def groups(pads: torch.Tensor, start: int, columns: int) -> Iterator[tuple[int, torch.Tensor, int]]:
    """The texts with equally many pads: pads, numbers of the texts, and the first of the `columns` after column `start`
    that is theirs. Texts that have not begun are left out.
    """
    for pad in sorted(set(pads.tolist())):
        first = max(0, pad - start)
        if first < columns:
            yield pad, (pads == pad).nonzero()[:, 0], first
