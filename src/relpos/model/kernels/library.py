"""Builds `cpu.cpp` for the processor at hand, once, and loads it.

The library is called through ctypes: compiling takes seconds, with torch's headers it would take a
minute, and needs nothing but a compiler. It is [kept](kept.py) in the user's cache folder, one for
each source, compiler, torch and processor. Without a compiler or with `RELPOS_COMPILE=0` there is
none, and plain torch computes everything.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

import torch
from filelock import FileLock

from relpos.errors import say
from relpos.model import precision
from relpos.model.kernels import kept

SOURCE = Path(__file__).with_name("cpu.cpp")
FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fopenmp",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
)
"""No -ffast-math: with it loading the library would switch off denormal numbers for the whole
process."""

_loaded: dict[str, ctypes.CDLL | None] = {}


def load(build: bool) -> ctypes.CDLL | None:
    """The library, or None where there is none.

    Args:
        build: compile it where that has not been done; false: load it only if it was compiled
            before.
    """
    if "library" in _loaded:
        return _loaded["library"]
    if os.getenv("RELPOS_COMPILE") == "0" or sys.platform != "linux":
        return None
    compiler = _which(_compiler())
    if compiler is None and build:
        say(
            f"relpos: no C++ compiler {_compiler()}: plain torch computes instead of the compiled CPU "
            f"kernels"
        )
        return _loaded.setdefault("library", None)
    if compiler is None or (not build and "none kept" in _loaded):
        return None
    try:
        content = _content(compiler, build)
        if content is None:
            # Looked for once, and not again in each forward pass of a process that does not train.
            return _loaded.setdefault("none kept", None)
        _loaded["library"] = None  # where something fails, it is not tried again in this process
        _loaded["library"] = _from_memory(content)
        _keep_freed_memory()
    except (
        OSError,
        RuntimeError,
        subprocess.SubprocessError,
    ) as error:  # RuntimeError: this user has no home
        _loaded["library"] = None
        messages = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        reason = messages[0] if messages else type(error).__name__
        warnings.warn(
            f"the compiled CPU kernels cannot be built: {reason}; plain torch computes instead",
            stacklevel=2,
        )
    return _loaded["library"]


def key() -> str | None:
    """The key of the library that is loaded; None where there is none."""
    compiler = _which(_compiler())
    return _key(compiler) if _loaded.get("library") and compiler else None


def _compiler() -> str:
    return os.getenv("CXX") or "g++"


def _content(compiler: str, build: bool) -> bytes | None:
    """The library as it was kept, or compiled now; of several processes that do so at once, one
    compiles and the others wait."""
    folder = kept.folder()
    if not build and not folder.exists():
        return None
    stem, content = f"cpu-{_key(compiler)}", None
    try:
        with kept.own_folder(folder, make=build) as place:
            content = kept.read(place, stem)
            if content is None and build:
                with FileLock(folder / f"{stem}.lock"):
                    content = kept.read(place, stem)
                    if content is None:
                        content = _compiled(compiler)
                        kept.write(place, stem, content)
    except OSError as error:
        instead = (
            "they are compiled for this process alone" if build else "plain torch computes instead"
        )
        say(f"relpos: compiled CPU kernels cannot be kept: {error}; {instead}")
    return _compiled(compiler) if content is None and build else content


def _from_memory(content: bytes) -> ctypes.CDLL:
    """Loads a library from a file in memory: what is run is what was checked, and nobody can
    truncate it while it is mapped.

    The file stays open, because the linker would take the next one of the same number for the same
    library.
    """
    file = f"/proc/self/fd/{os.memfd_create('relpos')}"
    Path(file).write_bytes(content)
    return ctypes.CDLL(file)


def _keep_freed_memory() -> None:
    """Tells glibc to reuse large blocks instead of returning each to the system and getting a
    zeroed one for the next activation.

    The page faults that this saves are 4 to 5 % of a training step, in BERT-base, whose word table
    has gradients of 92 MB, another 4 % and more; the peak of memory is the same.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, top_pad, most_mapped = -1, -2, -4
        mallopt(most_mapped, 0)  # a threshold of their size could be 32 MB at most
        mallopt(trim_threshold, 1 << 30)
        mallopt(top_pad, 64 << 20)


_which = cache(shutil.which)


@cache
def _key(compiler: str) -> str:
    """What tells apart the libraries of all sources, compilers, versions of torch and
    processors."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    parts = (
        SOURCE.read_text("utf-8"),
        version,
        torch.__version__,
        str(Path(torch.__file__).parent),
        *_flags(),
    )
    return hashlib.sha256("\0".join((*parts, _processor())).encode()).hexdigest()[:16]


def _flags() -> list[str]:
    flags = [*FLAGS, "-mprefer-vector-width=512"] if "avx512f" in _processor() else [*FLAGS]
    return flags if precision.has_bf16() else [*flags, "-DPRODUCTS_IN_FLOAT"]


def _processor() -> str:
    """The architecture and the instruction sets of this processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {flags}"


def _compiled(compiler: str) -> bytes:
    say("relpos: compiling the CPU kernels for this processor, once: some ten seconds")
    with tempfile.TemporaryDirectory() as folder:
        shared_library = Path(folder) / "cpu.so"
        libraries = Path(torch.__file__).parent / "lib"
        # torch's own OpenMP, where it brings one: two in one process would compete for the cores,
        # each with its own threads.
        openmp = [str(file) for file in libraries.glob("libgomp*.so*")]
        command = [compiler, *_flags(), "-fPIC", "-shared", str(SOURCE), "-o", str(shared_library)]
        command += ["-Wl,--as-needed", *openmp, f"-L{libraries}", "-ltorch_cpu"]
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            timeout=600,
        )
        return shared_library.read_bytes()
