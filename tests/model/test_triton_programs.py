"""The Triton programs as a compiler for a GPU sees them: their syntax, and what they become,
without a GPU."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fake_cuda
from relpos.model.kernels import proof

pytest.importorskip("triton", reason="Triton is not installed: it is there for Linux alone")
PROGRAMS = sorted(Path(proof.__file__).parent.glob("*triton*.py"))
ATTENTION = {"forward", "value_band", "backward_columns", "backward_rows", "backward_dense"}
LOADS = {"load", "load_rows"}
SPILLED = {128: 72, 256: 600}
"""Tokens → bytes that a thread may spill: those of `backward_columns` with a and b."""


def called(node: ast.AST) -> str:
    """The last part of the name of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_loaded(node: ast.AST, loads: set[str]) -> bool:
    """Whether an expression is a load, or a name of one, maybe in another number format."""
    if called(node) == "to" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return is_loaded(node.func.value, loads)
    return called(node) in LOADS or (isinstance(node, ast.Name) and node.id in loads)


def assignments(program: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """(name, what it becomes) of a program."""
    for node in ast.walk(program):
        if isinstance(node, ast.Assign):
            targets, values = [node.targets[0]], [node.value]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                targets, values = node.targets[0].elts, node.value.elts
            yield from (
                (name.id, of)
                for name, of in zip(targets, values, strict=True)
                if isinstance(name, ast.Name)
            )


def turned_products(source: str) -> Iterator[str]:
    """Factors of matrix products that are the transpose of what a program has computed, and not of
    what it has loaded."""
    for program in (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)):
        assigned = list(assignments(program))
        # a caller has loaded these
        loads = {name for name, _ in assigned} | {argument.arg for argument in program.args.args}
        while computed := {
            name for name, of in assigned if name in loads and not is_loaded(of, loads)
        }:
            loads -= computed
        for dot in (node for node in ast.walk(program) if called(node) == "dot"):
            for turn in (node for node in ast.walk(dot) if called(node) == "trans"):
                if not is_loaded(turn.args[0], loads):  # type: ignore[attr-defined]
                    yield f"{program.name}: {ast.unparse(turn)}"


def test_no_product_takes_the_transpose_of_another():
    """Triton 3.4 to 3.7.0 compiles such products of tiles of 64 wrongly for Hopper."""
    assert [
        factor for path in PROGRAMS for factor in turned_products(path.read_text(encoding="utf-8"))
    ] == []


@pytest.mark.full
@pytest.mark.skipif(fake_cuda.missing() is not None, reason=f"no fake CUDA: {fake_cuda.missing()}")
def test_the_programs_compile_for_a_gpu_without_one(tmp_path, capsys, record_property):
    """In a process of its own, where Triton compiles instead of interpreting; the figures go into
    the report."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = os.environ | {
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": path,
    }
    script = str(Path(__file__).with_name("triton_compiled.py"))
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    with capsys.disabled():
        for row in rows:
            print("\n" + ", ".join(f"{name} {value}" for name, value in row.items()), end="")
    for row in rows:
        record_property(
            f"{row['program']} {row['position']} {row['head']} {row['n']} {row['padded']}", row
        )
    attention = [row for row in rows if row["program"] in ATTENTION]
    assert {row["program"] for row in attention} == ATTENTION
    assert all(row["matrices"] for row in attention)
    assert [row for row in rows if row["spilled"] > SPILLED[row["n"]]] == []
