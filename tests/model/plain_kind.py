"""What a proof of an attention kernel is about: content alone, in float32 on a CPU. For tests,
which replace what they vary."""

import torch

from relpos.model.kernels.proof import Kind

KIND = Kind(torch.device("cpu"), torch.float32, 8, True, False, None, None, False, None, "clamp")
