"""The common tests of transformers (test_modeling_common and test_configuration_common of its
source package) run on our classes and on exported folders, with and without relpos.

pip fetches the source package, once, into pytest's cache; or RELPOS_TRANSFORMERS names it unpacked.
"""

import json
import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch

from relpos.commands.export import write
from relpos.data.tokenizer import Tokenizer
from relpos.model.architecture import Architecture, Size
from relpos.model.build import build
from schemes import SIZE, node

pytest.importorskip("transformers", reason="needs relpos[pretrained]")

RUNNER = Path(__file__).with_name("common_of_transformers.py")
MERGED = {
    "_target_": "relpos.model.position.Merge",
    "parts": [node("position", "rope"), node("position", "composite")],
}
NETWORKS = {
    "with relpos": (MERGED, node("conv", "canon")),
    # without a convolution it would be a BERT
    "without relpos": (node("position", "absolute"), node("conv", "depthwise")),
}
OURS, BERT = 73, 5
"""How many pass with our classes, and how many of the others with BERT's: three about SDPA, of
whose cases one is taken, two about how transformers collects the outputs of its layers."""
REASONS = {
    "accelerator": "needs a GPU",
    "accelerators": "needs GPUs",
    "MPS": "needs a Mac",
    "accelerate": "needs accelerate, and a GPU",
    "deepspeed": "needs deepspeed",
    "the kernels library": "needs kernels",
    "Flash Attention": "has attention kernels of its own",
    "SDPA": "has attention kernels of its own",
    "sdpa": "has attention kernels of its own",
    "RoPE": "has schemes of its own",
    "grouped_mm": "no experts",
    "experts": "no experts",
    "router_logits": "no experts",
    "capture": "collects outputs by itself",
    "No conversion found": "has one form of weights",
    "TP plan": "no tensor parallelism",
    "composite": "one network",
    "subconfigs": "one network",
    "language modeling head": "no decoder among these classes",
    "_keep_in_fp32_modules": "any number format",
    "position embeddings": "schemes are no tables that could be resized",
    "sliding window": "`window` is a scheme",
    "test is slow": "compiles for minutes",
}
"""Words of the reason with which a test skips → what that is for us."""


@pytest.fixture(scope="module")
def source(pytestconfig: pytest.Config) -> Path:
    """The unpacked source package of the installed version."""
    wanted = f"transformers-{version('transformers')}"
    folder = Path(
        os.environ.get("RELPOS_TRANSFORMERS") or pytestconfig.cache.mkdir(wanted) / wanted
    )  # type: ignore[union-attr]
    if not (folder / "tests").is_dir():
        try:
            fetch(wanted, folder.parent)
        except OSError as error:
            pytest.skip(f"the source package of {wanted} cannot be fetched: {error}")
    return folder


def fetch(wanted: str, to: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-binary",
        ":all:",
        "--no-deps",
        "--dest",
        str(to),
    ]
    done = subprocess.run(
        [*command, wanted.replace("-", "==")], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(done.stderr[-500:])
    with tarfile.open(to / f"{wanted}.tar.gz") as archive:
        archive.extractall(
            to,
            [member for member in archive if member.name.startswith(f"{wanted}/tests/")],
            filter="data",
        )


@pytest.fixture(scope="module")
def folders(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each network, as `relpos export` writes it."""
    root = tmp_path_factory.mktemp("folders")
    for name, (position, conv) in NETWORKS.items():
        torch.manual_seed(0)
        model = build(Architecture(Size(**SIZE), position, conv, tokenizer.size))
        write(root / name, model, tokenizer, str)
    return root


def common(
    source: Path, folder: Path, cache: Path, before: str, *names: str
) -> list[dict[str, Any]]:
    """What became of the tests in a process of its own, at whose beginning some lines run; nothing
    unexplained, and no failure."""
    start = f"{before}\nimport runpy, sys\nsys.argv[0] = {str(RUNNER)!r}\nrunpy.run_path({str(RUNNER)!r}, run_name='__main__')"
    environment = os.environ | {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "RELPOS_COMPILE": "0"}
    command = [sys.executable, "-c", start, str(source), str(folder), *names]
    done = subprocess.run(
        command,
        cwd=cache,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    runs: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    for run in runs:
        assert run["failed"] == []
        assert [
            skipped
            for skipped in run["skipped"]
            if not any(words in skipped[1] for words in REASONS)
        ] == []
    return runs


HIDDEN = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("relpos", "jaxtyping", "pytorch_lightning", "hydra", "omegaconf"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refusing())
"""


@pytest.mark.full
def test_the_common_tests_of_transformers_hold(source, folders, tmp_path):
    """Those that skip hold with BERT: they are run rightly, and skip for what is ours.

    Without relpos every sixth: the folder's code is that of relpos, and computes the same
    (test_standalone.py).
    """
    ours, bert = common(source, folders / "with relpos", tmp_path, "import relpos")
    assert [len(ours["passed"]), len(bert["passed"])] == [OURS, BERT]
    names = sorted(ours["passed"])[::6]
    [alone] = common(source, folders / "without relpos", tmp_path, HIDDEN, *names)
    assert sorted(alone["passed"]) == names
