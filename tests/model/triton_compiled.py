"""Compiles what a pre-training on a GPU launches, and prints a line of JSON for each program: its
registers and what it spills.

    python triton_compiled.py [CAPABILITY]        with TRITON_INTERPRET=0 and tests/ on the path; needs no GPU

Programs are launched on fake CUDA tensors by recorded passes in bfloat16, so that they are compiled
with the tiles, constants and alignments of a training.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import MockTensor

import relpos
from relpos.when_imported import import_quickly

import_quickly()
import fake_cuda  # noqa: E402

TRAININGS = [
    ("composite", 4, 128, False),
    ("composite", 4, 128, True),
    ("composite_key", 4, 128, True),
    ("composite_key", 4, 256, False),
    ("tupe_r", 4, 256, False),
    ("shaw", 8, 128, False),
]
"""Position scheme, heads of the 256 channels, tokens, whether half of them are padding; with all
kinds of terms."""


class Absent:
    """A GPU that there is not, of this compute capability."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0


USED = re.compile(
    r"(\w+) +0 +\w+ +PROGBITS [^\n]* \.text\..* REG:(\d+) STACK:(\d+) .* LOCAL:(\d+)", re.DOTALL
)
"""In what cuobjdump says: the bytes of a program, in hexadecimal digits, and what a thread has."""
INSTRUCTION = 16
"""Bytes. To have them disassembled and counted takes a quarter of the time of all this."""


def figures(compiled: Any) -> dict[str, Any]:
    """Warps, registers of a thread, bytes that it spills, shared memory, its instructions, and
    those that multiply matrices."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        Path(cubin.name).write_bytes(compiled.asm["cubin"])
        command = [tool, "--dump-elf", "--dump-resource-usage", cubin.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [(size, registers, stack, local)] = USED.findall(usage)
    matrices = [name for name in ("wgmma", "mma.sync") if name in compiled.asm["ptx"]]
    return {
        "warps": compiled.metadata.num_warps, "registers": int(registers), "spilled": int(local) + int(stack),
        "shared": compiled.metadata.shared, "instructions": int(size, 16) // INSTRUCTION, "matrices": " ".join(matrices),
    }  # fmt: skip


def main() -> None:
    triton.runtime.driver.set_active(Absent(int(*sys.argv[1:] or ["90"])))
    seen: set[tuple[Any, ...]] = set()
    for position, heads, n, padded in TRAININGS:
        of_size = ("layers=1", f"heads={heads}", f"max_positions={n}")
        overrides = [f"position={position}", "size=small", *(f"size.{key}" for key in of_size)]
        model = relpos.build(relpos.compose("params", overrides))
        ledger = fake_cuda.recorded(model, 32, n, held=16 * n if padded else None)
        for program, arguments, options in ledger.programs:
            mocks, kinds = [*arguments], [*arguments]
            for number, x in enumerate(arguments):
                if isinstance(x, Tensor):
                    mocks[number], kinds[number] = MockTensor(x.dtype, tuple(x.shape)), x.dtype
            constants = tuple(sorted((name, str(value)) for name, value in options.items()))
            key = (
                program.fn.__name__,
                tuple(kinds),
                constants,
            )
            if key not in seen:
                seen.add(key)
                compiled = program.warmup(*mocks, grid=(1,), **options)
                case = {
                    "program": program.fn.__name__,
                    "position": position,
                    "head": 256 // heads,
                    "n": n,
                    "padded": padded,
                }
                print(json.dumps(case | figures(compiled)), flush=True)


if __name__ == "__main__":
    main()
