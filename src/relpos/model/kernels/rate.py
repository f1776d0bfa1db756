"""How fast this CPU multiplies in bfloat16, measured: its flags do not tell. With AVX-512 alone, or
with one multiplier for it where there are two for float32, it is slower than float32."""

from __future__ import annotations

import hashlib
import time
from functools import cache

import torch

from relpos.model.kernels import kept, library

SIDE = 512
"""Of the matrices: some milliseconds are enough to tell."""
SUFFIX = ".txt"


@cache
def bf16_gain() -> float:
    """The time of a matrix product in float32 over that in bfloat16, on this CPU. Kept in the
    user's cache folder, so that a machine gives the same answer again."""
    words = (torch.__version__, library._processor())
    stem = f"rate-{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:16]}"
    try:
        with kept.own_folder(kept.folder(), make=True) as place:
            gain = kept.read(place, stem, SUFFIX)
            if gain is None:
                gain = f"{_measured():.3f}".encode()
                kept.write(place, stem, gain, SUFFIX)
            return float(gain)
    except (OSError, RuntimeError):  # nothing can be kept here; RuntimeError: this user has no home
        return _measured()


def _measured() -> float:
    times = []
    with torch.inference_mode(False), torch.autocast("cpu", enabled=False):
        for dtype in (torch.float32, torch.bfloat16):
            x, seconds = torch.ones(SIDE, SIDE, dtype=dtype), []
            for _ in range(8):
                before = time.process_time()
                _ = x @ x
                seconds.append(time.process_time() - before)
            times.append(min(seconds[1:]))  # the first one prepares
    return times[0] / max(times[1], 1e-9)
