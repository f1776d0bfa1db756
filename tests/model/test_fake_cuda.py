"""Every preset trains in CUDA's number formats, copies nothing from the host and waits for nothing:
seen on fake tensors."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

import relpos
from relpos.errors import RelposError
from relpos.model.heads import Classifier, ClassifierKind, MaskedLM, ReplacedTokens
from schemes import CONVS, FULL, MODERN, POSITIONS, SIZE, VOCABULARY, build, model_of, preset
from schemes import SAMPLE as WAYS

pytest.importorskip("triton", reason="Triton is not installed: it is there for Linux alone")
import fake_cuda

CONSTRAINTS = (Path(__file__).parents[2] / "constraints.txt").read_text(encoding="utf-8")
PINNED = re.findall(r"^torch==([\d.]+)", CONSTRAINTS, re.MULTILINE)[0]
PRESETS = [
    *((name, "none") for name in POSITIONS),
    *(("none", name) for name in CONVS if name != "none"),
]
SAMPLE = [("composite", "depthwise"), ("window", "none"), ("none", "qkv"), ("none", "none")]
HERE = list(enumerate(PRESETS if FULL else SAMPLE))
KERNELS = ("auto", "fused", "eager")
KINDS = get_args(ClassifierKind)
IN_TURN = pytest.mark.parametrize(
    ("position", "conv", "turn"), [(*names, at) for at, names in HERE]
)
"""For what comes after the network, or stands around it: the presets take it in turn."""


@pytest.fixture(autouse=True)
def _there() -> None:
    """Fake CUDA may be missing from another torch than the pinned one."""
    if (reason := fake_cuda.missing()) and (
        torch.cuda.is_available() or torch.__version__.partition("+")[0] != PINNED
    ):
        pytest.skip(f"no fake CUDA: {reason}")


def network(position: str, conv: str, **keys: Any) -> MaskedLM:
    """A model of one layer; pre-trainings with the kernel `auto` have a second one."""
    return model_of(position, conv, **{"layers": 1, **keys}).float()


@pytest.mark.parametrize(
    ("position", "conv", "kernel", "precision", "turn"),
    [
        (*names, kernel, ("bf16", "fp32")[kernel == KERNELS[1 + at % 2]], at)
        for at, names in HERE
        for kernel in KERNELS
        if FULL or kernel == KERNELS[at % 3]
    ],
)
def test_a_pre_training(position, conv, kernel, precision, turn):
    """In float32 with one of the kernels: each has it with every other preset. The kernel that is
    taken by itself leaves out most of the padding, and has a second layer with `WAYS`; `eager` is
    in a modern block."""
    layers = 2 if kernel == "auto" and {position, conv} <= WAYS else 1
    size = SIZE | {"layers": layers} | (MODERN if kernel == "eager" else {})
    model = build(size, preset("position", position), VOCABULARY, preset("conv", conv), kernel)
    cut: dict[str, Any] = {"held": 40, "weighted": bool(turn % 2)} if kernel == "auto" else {}
    check(lambda: fake_cuda.recorded(model, precision=precision, **cut))


@pytest.mark.parametrize(("position", "conv"), PRESETS if FULL else SAMPLE[:1])
def test_a_causal_pre_training(position, conv):
    check(lambda: fake_cuda.recorded(network(position, conv, attention="causal")))


@IN_TURN
def test_a_plain_pass_of_a_fine_tuning_or_of_electras_discriminator(position, conv, turn):
    encoder = network(position, conv).encoder
    check(lambda: fake_cuda.plain(ReplacedTokens(encoder) if turn % 2 else Classifier(encoder, 2)))


@IN_TURN
def test_a_recorded_fine_tuning(position, conv, turn):
    kind = KINDS[turn // 2 % len(KINDS)]
    check(
        lambda: fake_cuda.recorded(
            Classifier(network(position, conv).encoder, 2, kind=kind), held=(None, 40)[turn % 2]
        )
    )


def check(run: Any) -> None:
    """No fault; or it is refused by name, as some presets are by `fused` and by causal networks."""
    try:
        ledger = run()
    except RelposError as error:
        message = str(error)
        assert re.search(
            "speed.kernel=auto takes one that serves|^size.attention=causal: ", message
        )
    else:
        assert ledger.faults == {}
        assert {phase for phase, _ in ledger.launches} == {"forward", "backward"}


PAIRS = 15_616
"""Tokens that a pass of 256 pairs of books and WikiText-2 computes."""
MODERN_SMALL = [f"size.{name}={str(value).lower()}" for name, value in MODERN.items()]


@pytest.mark.full
@pytest.mark.parametrize(
    ("overrides", "held", "most_launches", "most_gigabytes"),
    [
        (["position=composite"], None, 525, 19.9),
        (["position=composite"], PAIRS, 533, 9.93),
        (["position=none", *MODERN_SMALL], None, 1638, 91.3),
    ],
)
def test_the_launches_and_bytes_of_bert_small(overrides, held, most_launches, most_gigabytes):
    """Outside the attention programs, 256 rows of 128 tokens."""
    model = relpos.build(relpos.compose("params", ["size=small", *overrides]))
    ledger = fake_cuda.recorded(model, 256, 128, held=held)
    launches, gigabytes = sum(ledger.launches.values()), sum(ledger.bytes.values()) / 1e9
    assert ledger.faults == {}
    assert launches <= most_launches
    assert gigabytes <= most_gigabytes
