"""Compiles every program of the kernels for GPUs that are not here; prints their names.

    python compiled_for.py 80 90 100    # compute capabilities

Run without Triton's interpreter. It intercepts the launches of forward and backward passes. Triton makes another
program where an integer argument is 1, where it is divisible by 16, and where it is neither, so sizes of all three
kinds are passed.
"""

from __future__ import annotations

import sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from weakspots.attention import triton_attend, triton_attend_kernels, triton_pool
from weakspots.attention.memory import Memory

LENGTHS = (256, 8, 20, 137)
"""Tokens: entries and rows are divisible by 16, 1, and neither; the last length is odd."""
ENTRIES = ((1, 1), (1, 16), (3, 5))
"""Texts and entries of each that are pooled."""
SHARED = {80: 99 * 1024, 90: 99 * 1024, 100: 227 * 1024}
"""Bytes of shared memory that one program may have: on every card from 8.0 to 9.0, and on those of 10.0."""
POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16"}


class Compiled:
    """Stands for a kernel: a launch compiles it for the types and sizes it is given, and does not run it."""

    seen: set[tuple] = set()
    target: GPUTarget

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
                if value % 16 == 0:
                    aligned[number,] = [["tt.divisibility", 16]]
        made = (self.kernel.__name__, str(kinds), str(values), str(aligned), self.target.arch)
        if made in self.seen:
            return
        if not any(self.kernel.__name__ == name for name, *_ in self.seen):
            print(self.kernel.__name__)
        self.seen.add(made)
        signature = {name: kinds.get(name, "constexpr") for name in names}
        source = ASTSource(self.kernel, signature, values, aligned)
        made = triton.compile(source, target=self.target, options={"num_stages": num_stages})
        assert made.asm["cubin"]
        assert made.metadata.shared <= SHARED[self.target.arch], (
            f"{self.kernel.__name__}: {made.metadata.shared} bytes of shared memory"
        )


def main() -> None:
    for module, names in (
        (triton_attend_kernels, ("forward", "backward_queries", "backward_keys")),
        (triton_pool, ("_forward", "_backward")),
    ):
        for name in names:
            setattr(module, name, Compiled(getattr(module, name)))
    memory, width = Memory(8, 8, 0, "sliding", 16), 128
    for capability in map(int, sys.argv[1:]):
        Compiled.target = GPUTarget("cuda", capability, 32)
        for length in LENGTHS:
            shapes = [(16, length), (2, length), (2, length), *[(2, memory.entry_count(length))] * 2]
            tensors = [torch.empty(1, *shape, width, dtype=torch.bfloat16, requires_grad=True) for shape in shapes]
            triton_attend.attend(*tensors, memory).sum().backward()
        for scores in (1, width):
            for texts, entries in ENTRIES:
                shape = (8, texts, entries, 2 * (width + scores))
                product = torch.empty(shape, dtype=torch.bfloat16, requires_grad=True)
                bias = torch.empty(8, 2 * scores, requires_grad=True)
                triton_pool.pool(product, bias, 2, width, 0).sum().backward()


if __name__ == "__main__":
    main()
