"""Compiles what a pre-training on a GPU launches, and prints a line of JSON for each program: its
registers and what it spills.

    python triton_compiled.py [CAPABILITY]        with TRITON_INTERPRET=0 and tests/ on the path; needs no GPU

Programs are launched on fake CUDA tensors by recorded passes in bfloat16, so that they are compiled
with the tiles, constants and alignments of a training.
"""

import json
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


def figures(compiled: Any, capability: int) -> dict[str, Any]:
    """Warps, registers of a thread, bytes that it spills, shared memory, its instructions, and
    those that multiply matrices."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "program.cubin")
        cubin.write_bytes(compiled.asm["cubin"])
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        asked = ["--dump-resource-usage", "--dump-sass"]
        told, code = (
            subprocess.run([tool, one, cubin], capture_output=True, text=True, check=True).stdout
            for one in asked
        )
    used = dict(
        word.split(":")
        for line in told.splitlines()
        if "REG:" in line
        for word in line.split()
        if ":" in word
    )
    matrices = [name for name in ("wgmma", "mma.sync") if name in compiled.asm["ptx"]]
    return {
        "warps": compiled.metadata.num_warps, "registers": int(used["REG"]), "spilled": int(used["LOCAL"]) + int(used["STACK"]),
        "shared": compiled.metadata.shared, "instructions": code.count(";"), "matrices": " ".join(matrices),
    }  # fmt: skip


def main() -> None:
    capability = int((sys.argv[1:] or ["90"])[0])
    triton.runtime.driver.set_active(Absent(capability))
    seen: set[tuple[Any, ...]] = set()
    for position, heads, n, padded in TRAININGS:
        overrides = [
            f"position={position}",
            "size=small",
            "size.layers=1",
            f"size.heads={heads}",
            f"size.max_positions={n}",
        ]
        ledger = fake_cuda.recorded(
            relpos.build(relpos.compose("params", overrides)),
            32,
            n,
            held=16 * n if padded else None,
        )
        for program, arguments, options in ledger.programs:
            mocks = [
                MockTensor(x.dtype, tuple(x.shape)) if isinstance(x, Tensor) else x
                for x in arguments
            ]
            constants = tuple(sorted((name, str(value)) for name, value in options.items()))
            key = (
                program.fn.__name__,
                tuple(x.dtype if isinstance(x, Tensor) else x for x in arguments),
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
                print(json.dumps(case | figures(compiled, capability)), flush=True)


if __name__ == "__main__":
    main()
