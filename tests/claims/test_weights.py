"""Weights of models set by hand: weights, toeplitz, fit. From records: losses of longer inputs, times of steps, server's scores."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from claims.made_up import saved, scale, scales, scored, trained
from relpos.claims.records import dev_above_test, serves_longer, step_time
from relpos.claims.verdict import Verdict
from relpos.claims.weights import (
    close_to_toeplitz,
    early_kinds,
    fits_fast,
    goes_with_score,
    kernel_kinds,
    neighbours,
    profile_kinds,
    profiles_close_to_toeplitz,
    rises_with_training,
    seldom_trained_is_less,
)
from relpos.data.store import Store
from relpos.files import write_json, write_text
from relpos.measures.kinds.toeplitz import reached
from relpos.results.scale import Scale, Scales
from relpos.results.values import GLUE
from relpos.runs.networks import resolve

GROUPS = [["previous"], ["next"], ["uniform", "avoiding"]]


def with_models(row: str, *folders: Path, **meaning: Any) -> Scale:
    return trained(scale({row: {"order": [1.0, 1.1]}}, **meaning), row, *folders)


def found(test: Any, made: Scale | None) -> Verdict:
    (finding,) = test.verdicts(scales(made) if made else Scales([]))
    assert isinstance(finding, Verdict)
    return finding


def peaked(model: Any) -> None:
    """Heads 1 to 4 of both layers: previous, next, uniform, avoiding the token itself."""
    for head, (column, value) in enumerate([(7, 3.0), (9, 3.0), (0, 0.1), (8, -3.0)]):
        model.encoder.position.beta[:, head, column] = value


def noisy(model: Any) -> None:
    model.encoder.position.beta.normal_(generator=torch.Generator().manual_seed(0))


def test_kinds_of_kernels(tmp_path: Path) -> None:
    good = saved(tmp_path / "good", peaked, "position=fixed")
    bad = [saved(tmp_path / f"bad{seed}", noisy, "position=fixed") for seed in range(3)]
    said = found(kernel_kinds(row="fixed", groups=GROUPS), with_models("fixed", good))
    assert said.verdict == "holds"
    assert "8 kernels of 1 model: " in said.figures
    assert "100% of 6 not uniform have a kind" in said.figures
    assert found(kernel_kinds(row="fixed", groups=GROUPS), with_models("fixed", *bad)).verdict == "fails"
    assert found(kernel_kinds(row="fixed", groups=GROUPS), with_models("fixed", bad[0])).verdict == "undecided"


def test_kinds_at_early_snapshots(tmp_path: Path) -> None:
    for name, early in (("early", peaked), ("late", noisy)):
        saved(tmp_path / name, peaked, "position=fixed")
        saved(tmp_path / name, early, "position=fixed", share=5)
    test = early_kinds(row="fixed")
    assert found(test, with_models("fixed", tmp_path / "early")).verdict == "holds"
    assert found(test, with_models("fixed", tmp_path / "late")).verdict == "fails"
    without = found(test, with_models("fixed", saved(tmp_path / "none", peaked, "position=fixed")))
    assert (without.verdict, without.figures) == ("not run", "needs snapshots=[…] at 10 % or before")


def near(model: Any) -> None:
    for layer in model.encoder.layers:
        weight = layer.attention.conv.values.weight
        weight[:8, 7] += 1
        weight[8:, 9] -= 1


def test_depthwise_channels(tmp_path: Path) -> None:
    overrides = ("position=none", "conv=depthwise")
    good, bad = saved(tmp_path / "good", near, *overrides), saved(tmp_path / "bad", lambda model: None, *overrides)
    assert found(neighbours(row="depthwise"), with_models("depthwise", good)).verdict == "holds"
    assert found(neighbours(row="depthwise"), with_models("depthwise", bad)).verdict == "fails"


def toeplitz(model: Any, strength: float = 1.0) -> None:
    """Sines and cosines: E·E^T depends on the distance alone."""
    angle = torch.arange(16)[:, None] * torch.tensor([0.2, 0.5, 0.9, 1.4])
    table = model.encoder.position.table
    table.copy_(strength * torch.cat([angle.sin(), angle.cos()], 1) + (1 - strength) * table / table.std())


ABSOLUTE = ("position=absolute", "size.max_positions=16")


def test_toeplitz_tables(tmp_path: Path) -> None:
    good = saved(tmp_path / "good", toeplitz, *ABSOLUTE)
    bad = saved(tmp_path / "bad", lambda model: None, *ABSOLUTE)
    said = found(close_to_toeplitz(row="absolute"), with_models("absolute", good))
    assert (said.verdict, said.figures[:7]) == ("holds", "R² 1.00")
    assert found(close_to_toeplitz(row="absolute"), with_models("absolute", bad)).verdict == "fails"
    assert found(profiles_close_to_toeplitz(row="absolute"), with_models("absolute", bad)).verdict == "fails"
    kernels = saved(tmp_path / "kernels", peaked, "position=fixed")
    said = found(profiles_close_to_toeplitz(row="fixed"), with_models("fixed", kernels))
    assert (said.verdict, said.figures) == ("holds", "R² 1.00 to 1.00, median 1.00, over 4 heads of the first layer")


@pytest.mark.parametrize(
    ("columns", "expected", "why"),
    [
        (
            {"order": [0.05, 0.14]},
            "cannot be said here",
            "absolute is on the bag-of-words plateau, so its positions are still random",
        ),
        ({"order": [0.25, 0.26]}, "fails", ""),
        ({}, "undecided", "whether absolute has learned any order was not measured"),
    ],
)
def test_positions_of_a_network_on_the_plateau_decide_nothing(
    columns: dict[str, list[float]], expected: str, why: str, tmp_path: Path
) -> None:
    made = scale({"absolute": columns})
    trained(made, "absolute", saved(tmp_path, lambda model: None, *ABSOLUTE))
    for test in (close_to_toeplitz(row="absolute"), profiles_close_to_toeplitz(row="absolute")):
        said = found(test, made)
        assert said.verdict == expected
        assert said.figures.startswith(why)


WIDE = ("position=absolute", "size.max_positions=16", "size.embedding=128")


def test_an_untrained_wide_table_is_not_close_to_toeplitz(tmp_path: Path) -> None:
    def shuffled(seed: int) -> Any:
        return lambda model: model.encoder.position.table.normal_(generator=torch.Generator().manual_seed(seed))

    folders = [saved(tmp_path / str(seed), shuffled(seed), *WIDE) for seed in range(3)]
    said = found(close_to_toeplitz(row="absolute"), with_models("absolute", *folders))
    assert min(float(one) for one in said.figures[3:].partition(" of ")[0].split(", ")) > 0.8
    assert said.verdict == "fails"
    assert "of 3 models, positions 1 to 16, which half" in said.figures
    assert "the highest of 20 random tables 0.9" in said.figures


@pytest.mark.parametrize(("first", "last", "expected"), [(0.1, 0.9, "holds"), (0.9, 0.1, "fails")])
def test_toeplitz_along_training(tmp_path: Path, first: float, last: float, expected: str) -> None:
    folders = []
    for run in range(3):
        folder = saved(tmp_path / str(run), toeplitz, *ABSOLUTE)
        for place, share in enumerate((5, 25, 100)):
            strength = first + (last - first) * place / 2 + 0.02 * run
            saved(folder, lambda model, s=strength: toeplitz(model, s), *ABSOLUTE, share=share)
        folders.append(folder)
    assert found(rises_with_training(row="absolute"), with_models("absolute", *folders)).verdict == expected
    assert found(rises_with_training(row="absolute"), with_models("absolute", folders[0])).verdict == "undecided"


@pytest.mark.parametrize(("sign", "expected"), [(-1.0, "holds"), (1.0, "fails"), (0.0, "undecided")])
def test_toeplitz_with_loss(tmp_path: Path, sign: float, expected: str) -> None:
    folders = [saved(tmp_path / str(run), lambda model, s=0.4 + run / 10: toeplitz(model, s), *ABSOLUTE) for run in range(6)]
    made = with_models("absolute", *folders)
    made.values["absolute"] = {"loss": scored({(run, 0): -(3 + sign * run / 10) for run in range(6)}, "loss")}
    assert found(goes_with_score(row="absolute"), made).verdict == expected
    assert found(goes_with_score(row="absolute"), with_models("absolute", *folders[:4])).verdict == "not run"


def test_only_positions_that_half_of_the_examples_reach_count(tmp_path: Path, prepared: Path) -> None:
    (store,) = (prepared / "store").iterdir()
    folder = saved(tmp_path / "one", lambda model: None, "position=absolute", "size.max_positions=128")
    made = trained(scale({"absolute": {"order": [1.0, 1.1]}}), "absolute", folder, store=store)
    rows = reached(resolve(folder), 128)
    lengths = Store(store).examples("train", "pair", 128).lengths(torch.arange(2_000))
    assert float((lengths >= rows).float().mean()) == pytest.approx(0.5, abs=0.1)
    assert 8 < rows < 64
    assert f"positions 1 to {rows}, " in found(close_to_toeplitz(row="absolute"), made).figures
    assert f" of positions {rows + 1} to {2 * rows}, " in found(seldom_trained_is_less(row="absolute"), made).figures
    made.meaning["first"] = {"share": 0.9, "length": 8, "batch": 8}
    trained(made, "absolute", folder, store=store)
    assert reached(resolve(folder), 128) == 8


def test_kept_results_decide_a_claim_without_the_weights(tmp_path: Path) -> None:
    folders = [saved(tmp_path / str(run), lambda model, s=0.9 - run / 10: toeplitz(model, s), *ABSOLUTE) for run in range(3)]
    for folder in folders:
        for place, share in enumerate((5, 25, 60)):
            saved(folder, lambda model, s=0.1 + place / 3: toeplitz(model, s), *ABSOLUTE, share=share)
    made = with_models("absolute", *folders, length=8)
    tests = [rule(row="absolute") for rule in (close_to_toeplitz, profiles_close_to_toeplitz, rises_with_training)]
    tests += [seldom_trained_is_less(row="absolute"), profile_kinds(row="absolute", groups=GROUPS), early_kinds(row="absolute")]
    before = [found(test, made) for test in tests[:-1]]
    for weights in tmp_path.rglob("*.safetensors"):
        weights.unlink()
    assert [found(test, made) for test in tests[:-1]] == before
    assert {verdict.verdict for verdict in before} <= {"holds", "fails", "undecided"}
    said = found(tests[-1], made)
    assert (said.verdict, said.figures[:33]) == ("not run", "needs the weights of absolute, wh")


def test_an_undecided_claim_about_weights_says_which_runs_it_takes(tmp_path: Path) -> None:
    folder = saved(tmp_path / "one", toeplitz, *ABSOLUTE)
    for place, share in enumerate((5, 25, 100)):
        saved(folder, lambda model, s=0.1 + place / 3: toeplitz(model, s), *ABSOLUTE, share=share)
    made = with_models("absolute", folder)
    takes = found(rises_with_training(row="absolute"), made).takes
    assert takes == "1 more pre-training seed of absolute at this scale with three snapshots=[…] or more"
    kernels = with_models("fixed", saved(tmp_path / "bad", noisy, "position=fixed"))
    assert "more pre-training seed" in found(kernel_kinds(row="fixed", groups=GROUPS), kernels).takes


@pytest.mark.parametrize(
    ("longer", "verdict"),
    [(-0.1, "holds"), (0.0, "holds"), (0.5, "fails"), (None, "fails"), (0.02, "undecided")],
)
def test_losses_at_longer_inputs(tmp_path: Path, longer: float | None, verdict: str) -> None:
    made = scale({}, length=32)
    for seed, jitter in enumerate((0.001, -0.001, 0.002)):
        folder = tmp_path / str(seed)
        more = None if longer is None else 3.0 + longer + jitter
        write_json(folder / "lengths-0.json", {"32": 3.0, "64": more, "128": more})
        made.folders.setdefault("tisa", {})[seed] = folder
    said = found(serves_longer(row="tisa", others=["absolute"]), made)
    assert said.verdict == verdict
    assert said.figures.startswith("tisa refuses 64" if longer is None else f"tisa {longer + 0.000667:+.3f} at 64, ")
    assert bool(said.takes) == (verdict == "undecided")
    made.folders["tisa"] = {0: tmp_path / "0"}
    assert found(serves_longer(row="tisa"), made).verdict == ("fails" if longer is None else "undecided")
    made.folders["tisa"] = {0: tmp_path}
    assert found(serves_longer(row="tisa"), made).verdict == "not run"


def test_seldom_trained_positions(tmp_path: Path) -> None:
    def half(model: Any) -> None:
        rest = model.encoder.position.table[8:].clone()
        toeplitz(model)
        model.encoder.position.table[8:] = rest

    folders = [saved(tmp_path / str(run), half, *ABSOLUTE) for run in range(2)]
    assert found(seldom_trained_is_less(row="absolute"), with_models("absolute", *folders, length=8)).verdict == "holds"
    assert found(seldom_trained_is_less(row="absolute"), with_models("absolute", *folders, length=16)).verdict == "not run"


@pytest.mark.parametrize("length", [8, 40])
def test_untrained_positions_are_alike_on_both_sides(tmp_path: Path, length: int) -> None:
    def untrained(seed: int) -> Any:
        return lambda model: model.encoder.position.table.normal_(generator=torch.Generator().manual_seed(seed))

    overrides = ("position=absolute", "size.max_positions=48")
    folders = [saved(tmp_path / str(seed), untrained(seed), *overrides) for seed in range(6)]
    made = with_models("absolute", *folders, length=length)
    said = found(seldom_trained_is_less(row="absolute"), made)
    assert said.verdict == "undecided", said.figures
    assert f" of positions {length - 7} to {length}, " in said.figures
    assert f" of positions {length + 1} to {length + 8}, " in said.figures


@pytest.mark.full
def test_a_fit_that_is_quick(tmp_path: Path) -> None:
    made = with_models("absolute", saved(tmp_path / "one", toeplitz, *ABSOLUTE), length=16)
    said = found(fits_fast(row="absolute", heads=4, seconds=1e6), made)
    assert said.verdict == "holds"
    assert said.figures.count(", ") + 1 == 4  # heads of the first layer
    assert found(fits_fast(row="absolute", heads=4, seconds=0.0), made).verdict == "fails"
    without = with_models("none", saved(tmp_path / "none", lambda model: None, "position=none"), length=16)
    assert found(fits_fast(row="none"), without).verdict == "not run"
    # Time is that of the machine, so that a claim may ask for it at one scale.
    longer = with_models("absolute", saved(tmp_path / "two", toeplitz, *ABSOLUTE), length=16, steps=9_999)
    assert [len(fits_fast(row="absolute", heads=4, at=at).verdicts(scales(made, longer))) for at in ("each", "largest")] == [2, 1]


@pytest.mark.parametrize(
    ("rate", "gpus", "expected"), [(8.0, ["a"], "holds"), (2.0, ["a"], "fails"), (8.0, [], "undecided"), (2.0, [], "undecided")]
)
def test_step_time(tmp_path: Path, rate: float, gpus: list[str], expected: str) -> None:
    made = scale({})
    for row, own in (("dynamic", rate), ("absolute", 10.0), ("fixed", 9.0)):
        folder = tmp_path / row
        write_json(folder / "record.json", {"hardware": {"cores": 2, "gpus": gpus}, "starts": [{"threads": 1}]})
        lines = [{"step": step, "steps_per_second": own if step else 0.1} for step in range(4)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        made.folders[row] = {0: folder}
    said = found(step_time(row="dynamic", others=["absolute", "fixed", "tisa"]), made)
    assert said.verdict == expected
    assert "tisa" not in said.figures
    assert said.figures.endswith(f"on {', '.join([*gpus, '2 cores', '1 threads'])}")
    write_json(tmp_path / "dynamic" / "record.json", {"hardware": {"cores": 4}, "starts": [{"threads": 1}]})
    assert step_time(row="dynamic", others=["absolute"]).verdicts(scales(made)) == []  # another machine


@pytest.mark.parametrize("content", ["{", '{"rows": [{"name": "row"}]}', "[]"])
def test_a_damaged_table_is_named_and_left_out(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path))
    write_text(tmp_path / "tables" / "damaged" / "table.json", content)
    assert found(dev_above_test(), None).verdict == "not run"
    assert "damaged/table.json" in capsys.readouterr().err


@pytest.mark.parametrize(("rows", "examples", "expected"), [(20, 300, "undecided"), (20, 300_000, "holds"), (1, 300_000, "holds")])
def test_rows_share_their_test_sets(
    rows: int, examples: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows: the examples of the sets are the same."""
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path))
    columns = {name: {"mean": 66.0, "examples": examples, "metric": "accuracy"} for name in GLUE}
    mean, server = {"mean": 66.0, "of": list(GLUE)}, dict.fromkeys(GLUE, 65.0)
    made = [{"name": f"row{place}", "mean": mean, "columns": columns, "server": server} for place in range(rows)]
    # A row of one task says nothing of GLUE, however far its scores are apart.
    of_one = {"mean": {"mean": 66.0, "of": ["rte"]}, "columns": {"rte": columns["rte"]}, "server": {"rte": 30.0}}
    made.append({"name": "rte"} | of_one)
    write_json(tmp_path / "tables" / "t" / "table.json", {"name": "t", "question": "?", "rows": made})
    assert found(dev_above_test(), None).verdict == expected
