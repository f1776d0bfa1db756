"""Compiles the Triton programs for compute capability 9.0, small tiles with all terms, and says whether they multiply matrices."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from relpos.model.kernels import triton_programs as programs

CONSTANTS = {
    "D": 64, "PADDED": 64, "BLOCK": 16, "ALL": 128, "CONTENT": True, "HAS_OFFSET": True, "QUERY": 17, "KEY": 17, "VALUE": 17,
    "HAS_DENSE": True, "HAS_MASK": True, "CLAMP": True, "THRESHOLD": 3277, "RESCALE": 1.111, "DOT": tl.bfloat16, "WHOLE": False,
}  # fmt: skip
STORED = ("Q", "K", "V", "Y", "GRAD", "GRAD_Q", "GRAD_K", "GRAD_V")  # in bfloat16; all other tensors are in float32
INTEGERS = {"REAL": "*u8", "ROW_WORDS": "*i64", "COLUMN_WORDS": "*i64", "H": "i32"}


def kind(name: str) -> str:
    if name in CONSTANTS:
        return "constexpr"
    if name in INTEGERS or name.islower() or name == "dense_b":
        return INTEGERS.get(name, "i32")
    return "*bf16" if name in STORED else "*fp32"


def main() -> None:
    for program in (
        programs.forward, programs.value_band, programs.backward_columns, programs.backward_rows, programs.backward_dense,
    ):  # fmt: skip
        names = program.arg_names
        constants = {(names.index(name),): value for name, value in CONSTANTS.items() if name in names}
        source = ASTSource(program, {name: kind(name) for name in names}, constants)
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})
        print(program.__name__, "mma.sync" if "mma.sync" in compiled.asm["ptx"] else "no matrix instruction")


if __name__ == "__main__":
    main()
