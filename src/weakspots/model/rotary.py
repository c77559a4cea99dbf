"""Rotary position embedding on all, some or none of a head's channels."""

from __future__ import annotations

import torch
from torch import nn

from weakspots.model.elementwise import rotate_halves

Angles = tuple[torch.Tensor, torch.Tensor] | None
"""Cosine and sine `[T, channels]`; None where nothing rotates."""


class Rotary(nn.Module):
    """Angles for `channels` rotating channels (even; 0 for a model without positions) at base `base`.

    Qwen3 rotates channel i with channel i + channels / 2, from the front. With `last`, the last channels rotate in
    neighbouring pairs, as DeepSeek-V4's do.
    """

    def __init__(self, head_width: int, fraction: float, base: float, last: bool):
        super().__init__()
        self.channels = 2 * round(head_width * fraction / 2)
        if fraction and not self.channels:
            self.channels = 2  # a fraction of a narrow head still rotates one pair
        self.base, self.last = base, last

    def angles(self, positions: torch.Tensor, dtype: torch.dtype) -> Angles:
        """Cosine and sine `[T, channels]` at integer `positions` `[T]`; None where nothing rotates."""
        if not self.channels:
            return None
        pairs = torch.arange(0, self.channels, 2, device=positions.device, dtype=torch.float32)
        angles = positions[:, None].float() * self.base ** (-pairs / self.channels)
        angles = angles.repeat_interleave(2, dim=-1) if self.last else torch.cat([angles, angles], dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def forward(self, x: torch.Tensor, angles: Angles) -> torch.Tensor:
        """Rotates `x` `[..., T, D]` by the angles of its positions."""
        if angles is None:
            return x
        cos, sin = angles
        still = x.shape[-1] - self.channels
        if not still and not self.last:
            return rotate_halves(x, cos, sin)
        if not self.last:
            turning, rest = x.split([self.channels, still], dim=-1)
            return torch.cat([rotate_halves(turning, cos, sin), rest], dim=-1)
        rest, turning = x.split([still, self.channels], dim=-1)
        even, odd = turning[..., 0::2], turning[..., 1::2]
        turned = turning * cos + torch.stack([-odd, even], dim=-1).flatten(-2) * sin
        return torch.cat([rest, turned], dim=-1)
