"""Loading a checkpoint copies no weight but those of several that are one matrix here, and changes
nothing on disk."""

from pathlib import Path

import pytest
import torch

import relpos
from hosts import host, saved

MAPS = Path("/proc/self/maps")


def mapped(address: int, file: Path) -> bool:
    """Whether an address lies in the part of memory into which the file is mapped."""
    for line in MAPS.read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            return line.endswith(str(file))
    return False


@pytest.mark.skipif(not MAPS.is_file(), reason="needs Linux's list of what is mapped into memory")
def test_weights_are_mapped_from_the_file(tmp_path):
    folder = saved(host("BertForMaskedLM"), tmp_path)
    model, _ = relpos.load(folder)
    copied = {
        name
        for name, p in model.named_parameters()
        if not mapped(p.data_ptr(), folder / "model.safetensors")
    }
    assert copied == {
        f"encoder.layers.{n}.attention.project.{kind}"
        for n in range(3)
        for kind in ("weight", "bias")
    }


def test_training_leaves_the_file_as_it_was(tmp_path):
    folder = saved(host("BertForMaskedLM"), tmp_path)
    before = (folder / "model.safetensors").read_bytes()
    model, _ = relpos.load(folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert (folder / "model.safetensors").read_bytes() == before
