"""Which keys a query sees: the geometry of the compressed memory, as arithmetic on positions.

Window j reads the W tokens from `j * S - lead` on. Its entry is visible to query t as soon as the window has closed,
the query's own token included. DeepSeek-V4 lets its first window begin before the text (`lead = W - S`, the missing
tokens get weight 0); everywhere else `lead` is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Memory:
    """Window W, stride S and the exact local tokens of one compressed layer; all lengths in tokens."""

    window: int
    stride: int
    lead: int
    local: Literal["sliding", "tail"]
    local_window: int

    @property
    def first_query(self) -> int:
        """The first position that sees an entry: the last token of window 0."""
        return self.window - 1 - self.lead

    @property
    def block(self) -> int:
        """A length such that the local tokens of a query lie in its own block of that length or the one before."""
        return self.local_window if self.local == "sliding" else max(self.stride, self.first_query)

    def entry_count(self, length: int) -> int:
        """Entries that exist after `length` tokens: about `length / S`."""
        return max(0, (length - 1 - self.first_query) // self.stride + 1)

    def entries_seen(self, positions: torch.Tensor) -> torch.Tensor:
        """For every query position, how many entries it sees (the first ones)."""
        return ((positions - self.first_query).div(self.stride, rounding_mode="floor") + 1).clamp(min=0)

    def local_start(self, positions: torch.Tensor) -> torch.Tensor:
        """For every query position, the first token it sees exactly.

        With a tail this is the first token that no closed window holds; it may lie after the query itself, whose
        token then is in the entry that has just closed.
        """
        if self.local == "sliding":
            return (positions - self.local_window + 1).clamp(min=0)
        seen = self.entries_seen(positions)
        return (seen * self.stride + self.window - self.stride - self.lead) * (seen > 0)

    def local_visible(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Whether each query sees each exact token; positions broadcast against each other."""
        return (keys >= self.local_start(queries)) & (keys <= queries) & (keys >= 0)
