"""Rotary position embedding on all, some or none of a head's channels."""

from __future__ import annotations

import torch
from torch import nn


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

    def angles(self, positions: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Cosine and sine `[T, channels]` at integer `positions` `[T]`; None where nothing rotates."""
        if not self.channels:
            return None
        pairs = torch.arange(0, self.channels, 2, device=positions.device, dtype=torch.float32)
        angles = positions[:, None].float() * self.base ** (-pairs / self.channels)
        angles = angles.repeat_interleave(2, dim=-1) if self.last else torch.cat([angles, angles], dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def forward(self, x: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor] | None) -> torch.Tensor:
        """Rotates `x` `[..., T, D]` by the angles of its positions."""
        if angles is None:
            return x
        cos, sin = angles
        still = x.shape[-1] - self.channels
        if not still:
            return x * cos + self._half_turn(x) * sin
        rest, turning = x.split([still, self.channels] if self.last else [self.channels, still], dim=-1)
        if not self.last:
            rest, turning = turning, rest
        turned = turning * cos + self._half_turn(turning) * sin
        return torch.cat([rest, turned] if self.last else [turned, rest], dim=-1)

    def _half_turn(self, x: torch.Tensor) -> torch.Tensor:
        if self.last:
            even, odd = x[..., 0::2], x[..., 1::2]
            return torch.stack([-odd, even], dim=-1).flatten(-2)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([-second, first], dim=-1)
