"""Compiles every program of the kernels for an H100, where there is no GPU; prints their names.

Run as a script, without Triton's interpreter. It intercepts the launches of one forward and backward pass.
"""

from __future__ import annotations

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from weakspots.attention import triton_attend, triton_attend_kernels, triton_pool
from weakspots.attention.memory import Memory

TARGET = GPUTarget("cuda", 90, 32)
SHARED = 99 * 1024
"""Bytes of shared memory that one program may have on every card since compute capability 8.0."""
POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16"}


class Compiled:
    """Stands for a kernel: a launch compiles it for the types and sizes it is given, and does not run it."""

    seen: set[str] = set()

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return self.compile

    def compile(self, *arguments, num_stages=3, **constants) -> None:
        names = self.kernel.arg_names
        kinds, values, aligned = {}, dict(constants), {}
        for number, (name, value) in enumerate(zip(names, arguments, strict=False)):
            if torch.is_tensor(value):
                kinds[name], aligned[number,] = POINTERS[value.dtype], [["tt.divisibility", 16]]
            elif isinstance(value, float):
                kinds[name] = "fp32"
            elif value is None or value == 1:  # as Triton does
                kinds[name], values[name] = "constexpr", value
            else:
                kinds[name] = "i32"
        signature = {name: kinds.get(name, "constexpr") for name in names}
        source = ASTSource(self.kernel, signature, values, aligned)
        made = triton.compile(source, target=TARGET, options={"num_stages": num_stages})
        assert made.asm["cubin"]
        assert made.metadata.shared <= SHARED, f"{self.kernel.__name__}: {made.metadata.shared} bytes of shared memory"
        if self.kernel.__name__ not in self.seen:
            print(self.kernel.__name__)
        self.seen.add(self.kernel.__name__)


def main() -> None:
    for module, names in (
        (triton_attend_kernels, ("forward", "backward_queries", "backward_keys")),
        (triton_pool, ("_forward", "_backward")),
    ):
        for name in names:
            setattr(module, name, Compiled(getattr(module, name)))
    memory, length, width = Memory(8, 8, 0, "sliding", 16), 256, 128
    shapes = [(16, length), (2, length), (2, length), *[(2, memory.entry_count(length))] * 2]
    tensors = [torch.empty(1, *shape, width, dtype=torch.bfloat16, requires_grad=True) for shape in shapes]
    triton_attend.attend(*tensors, memory).sum().backward()
    for scores in (1, width):
        product = torch.empty(8, 1, 32, 2 * (width + scores), dtype=torch.bfloat16, requires_grad=True)
        bias = torch.empty(8, 2 * scores, requires_grad=True)
        triton_pool.pool(product, bias, 2, width, 0).sum().backward()


if __name__ == "__main__":
    main()
