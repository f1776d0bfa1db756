"""Judgements of the weights of models that were set by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch

from claims.made_up import judged, saved, scale, trained
from relpos.claims.networks import OfNetworks, Shares, Toeplitzness
from relpos.data.store import Store
from relpos.measures.kinds.toeplitz import reached
from relpos.results.scale import Scale
from relpos.runs.networks import resolve

KERNELS, CHANNELS = Shares("fixed", "kernels"), Shares("depthwise", "channels")
TABLE, HEADS = Toeplitzness("absolute", "table"), Toeplitzness("absolute", "heads")
ABSOLUTE = ("position=absolute", "size.max_positions=16")


def with_models(row: str, *folders: Path, **meaning: Any) -> Scale:
    return trained(scale({row: {"order": [1.0, 1.1]}}, **meaning), row, *folders)


def peaked(model: Any) -> None:
    """Heads 1 to 4 of both layers: previous, next, uniform, avoiding the token itself."""
    for head, (column, value) in enumerate([(7, 3.0), (9, 3.0), (0, 0.1), (8, -3.0)]):
        model.encoder.position.beta[:, head, column] = value


def noisy(model: Any) -> None:
    model.encoder.position.beta.normal_(generator=torch.Generator().manual_seed(0))


def test_kernels_of_any_of_the_kinds_are_more_than_by_chance(tmp_path):
    good = saved(tmp_path / "good", peaked, "position=fixed")
    verdict = judged(KERNELS, with_models("fixed", good))
    # None of them leans to one side, which a claim that names kinds with `or` does not ask for.
    assert verdict.verdict == "holds"
    assert "8 kernels of 1 model: " in verdict.figures
    assert "100% of 6 not uniform have a kind" in verdict.figures
    bad = saved(tmp_path / "bad", noisy, "position=fixed")
    verdict = judged(KERNELS, with_models("fixed", bad))
    assert verdict.verdict == "undecided"
    assert verdict.takes == "more pre-training seeds"


def near(model: Any) -> None:
    for layer in model.encoder.layers:
        weight = layer.attention.conv.values.weight
        weight[:8, 7] += 1
        weight[8:, 9] -= 1


def far(model: Any) -> None:
    for layer in model.encoder.layers:
        layer.attention.conv.values.weight[:, 0] += 9
        layer.attention.conv.values.weight[:, 1] -= 9


@pytest.mark.parametrize(("change", "expected"), [(near, "holds"), (far, "fails")])
def test_depthwise_channels(change, expected, tmp_path):
    folder = saved(tmp_path / "one", change, "position=none", "conv=depthwise")
    verdict = judged(CHANNELS, with_models("depthwise", folder))
    assert verdict.verdict == expected
    assert verdict.figures.startswith("weight at −1 or +1 of 32 channels: largest ")


def toeplitz(model: Any, strength: float = 1.0) -> None:
    """Sines and cosines: E·E^T depends on the distance alone."""
    angle = torch.arange(16)[:, None] * torch.tensor([0.2, 0.5, 0.9, 1.4])
    table = model.encoder.position.table
    regular = torch.cat([angle.sin(), angle.cos()], 1)
    table.copy_(strength * regular + (1 - strength) * table / table.std())


def test_toeplitz_tables(tmp_path):
    good = saved(tmp_path / "good", toeplitz, *ABSOLUTE)
    bad = saved(tmp_path / "bad", lambda model: None, *ABSOLUTE)
    verdict = judged(TABLE, with_models("absolute", good))
    assert (verdict.verdict, verdict.figures[:7]) == ("holds", "R² 1.00")
    assert judged(TABLE, with_models("absolute", bad)).verdict == "fails"
    assert judged(HEADS, with_models("absolute", bad)).verdict == "fails"
    kernels = saved(tmp_path / "kernels", peaked, "position=fixed")
    verdict = judged(Toeplitzness("fixed", "heads"), with_models("fixed", kernels))
    spread = "R² 1.00 to 1.00, median 1.00, over 4 heads of the first layer"
    assert (verdict.verdict, verdict.figures) == ("holds", spread)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"order": [0.05, 0.14]}, "cannot be said here"),
        ({"order": [0.25, 0.26]}, "fails"),
        ({}, "cannot be said here"),
    ],
)
def test_positions_of_a_network_on_the_plateau_decide_nothing(columns, expected, tmp_path):
    runs = scale({"absolute": columns})
    trained(runs, "absolute", saved(tmp_path, lambda model: None, *ABSOLUTE))
    for test in (TABLE, HEADS):
        verdict = judged(test, runs)
        assert verdict.verdict == expected
        assert verdict.figures.startswith("absolute is not known") == (expected != "fails")


WIDE = ("position=absolute", "size.max_positions=16", "size.embedding=128")


def test_an_untrained_wide_table_is_toeplitz_by_its_diagonal_alone(tmp_path):
    def shuffled(seed: int) -> Any:
        return lambda model: model.encoder.position.table.normal_(
            generator=torch.Generator().manual_seed(seed)
        )

    folders = [saved(tmp_path / str(seed), shuffled(seed), *WIDE) for seed in range(3)]
    verdict = judged(TABLE, with_models("absolute", *folders))
    assert min(map(float, verdict.figures[3:].partition(" of ")[0].split(", "))) > 0.8
    assert verdict.verdict == "fails"
    assert "of 3 models, positions 1 to 16, which half" in verdict.figures
    assert "the highest of 20 random tables 0.9" in verdict.figures
    assert "without the main diagonal 0.10, 0.08, 0.05, random 0.19" in verdict.figures


def test_only_positions_that_half_of_the_examples_reach_count(tmp_path, prepared):
    (store,) = (prepared / "store").iterdir()
    wide = ("position=absolute", "size.max_positions=128")
    folder = saved(tmp_path / "one", lambda model: None, *wide)
    runs = trained(scale({"absolute": {"order": [1.0, 1.1]}}), "absolute", folder, store=store)
    rows = reached(resolve(folder), 128)
    lengths = Store(store).examples("train", "pair", 128).lengths(torch.arange(2_000))
    assert float((lengths >= rows).float().mean()) == pytest.approx(0.5, abs=0.1)
    assert 8 < rows < 64
    assert f"positions 1 to {rows}, " in judged(TABLE, runs).figures
    runs.meaning["first"] = {"share": 0.9, "length": 8, "batch": 8}
    trained(runs, "absolute", folder, store=store)
    assert reached(resolve(folder), 128) == 8


def test_kept_results_decide_a_claim_without_the_weights(tmp_path):
    folders = [
        saved(tmp_path / str(run), lambda model, s=0.9 - run / 10: toeplitz(model, s), *ABSOLUTE)
        for run in range(3)
    ]
    runs = with_models("absolute", *folders, length=8)
    tests: list[OfNetworks] = [
        TABLE,
        HEADS,
        Shares("absolute", "heads"),
        Shares("absolute", "kernels"),
    ]
    before = [judged(test, runs) for test in tests[:-1]]
    for weights in tmp_path.rglob("*.safetensors"):
        weights.unlink()
    assert [judged(test, runs) for test in tests[:-1]] == before
    assert {verdict.verdict for verdict in before} <= {"holds", "fails", "undecided"}
    verdict = judged(tests[-1], runs)
    needs = "needs results of relpos order measure=kernels, or the weights of absolute"
    assert verdict.verdict == "not run"
    assert verdict.figures == needs
