"""The gated sum over every window in torch, as equations 1 and 2 of the paper read: the reference of the kernel.

Shapes: W window, B batch, N entries, J heads of all branches (R branches of K KV heads), D channels, g gate scores per
head (1 or D).
"""

from __future__ import annotations

import torch


def product(windows: torch.Tensor, *maps: torch.Tensor) -> torch.Tensor:
    """Every offset's hidden states through its own maps, in one product: `[W, B, N, M]`.

    `windows` is `[W, B, N, E]`; `maps` are `[W, E, ...]`, and M adds up their last axes.
    """
    joined = torch.cat(maps, dim=2) if len(maps) > 1 else maps[0]
    return torch.bmm(windows.flatten(1, 2), joined).unflatten(1, windows.shape[1:3])


def split(
    product: torch.Tensor, bias: torch.Tensor | None, heads: int, width: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Payloads `[W, B, N, J, D]` and gate logits `[W, B, N, J, g]`, or None where no gate was learnt.

    `product` `[W, B, N, J * (D + g)]` holds all payloads, then all gate products; `bias` is `[W, J * g]`.
    """
    payload = product[..., : heads * width].unflatten(-1, (heads, width))
    if product.shape[-1] == heads * width:
        return payload, None
    logits = product[..., heads * width :]
    if bias is not None:
        logits = logits + bias[:, None, None]
    return payload, logits.unflatten(-1, (heads, -1))


def softmax(logits: torch.Tensor, lead: int) -> torch.Tensor:
    """Gate scores over the window, at least in float32; the first entry lacks its first `lead` tokens."""
    if lead:  # the tokens before the text take no part in the first entry
        missing = logits.new_zeros(logits.shape[0], 1, logits.shape[2], 1, 1)
        missing[:lead, :, :1] = float("-inf")
        logits = logits + missing
    return logits.softmax(dim=0, dtype=torch.promote_types(logits.dtype, torch.float32)).to(logits.dtype)


def pool(product: torch.Tensor, bias: torch.Tensor | None, heads: int, width: int, lead: int) -> torch.Tensor:
    """Entries `[B, N, J, D]`: `sum_i softmax_i(logits) * payload`, or the mean payload where no gate was learnt."""
    payload, logits = split(product, bias, heads, width)
    return payload.mean(0) if logits is None else (softmax(logits, lead) * payload).sum(0)
