"""Error reductions, on answers that nobody gave."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from claims.made_up import changed, scale, scales, scored
from relpos.claims.columns import error_reduction
from relpos.claims.verdict import Verdict
from relpos.results.scale import Scale, Seed
from relpos.train.finetune import write_answers

RIGHT = np.tile([0.0, 1.0], 100)


def answered(folder: Path, shares: dict[str, dict[Seed, float]], columns: tuple[str, ...] = ("rte",)) -> Scale:
    """A scale whose rows answer wrongly this share of the time, seed by seed."""
    made = scale({row: {} for row in shares})
    for place, (row, seeds) in enumerate(shares.items()):
        for column in columns:
            made.values[row][column] = []
            for (pretrain, tune), share in seeds.items():
                wrong = np.random.default_rng([place, pretrain, tune]).permutation(200) < 200 * share
                said = np.where(wrong, 1 - RIGHT, RIGHT)
                path = folder / f"{row}-{column}-{pretrain}-{tune}.tsv"
                write_answers(path, said, RIGHT)
                score = {(pretrain, tune): float(100 * np.mean(said == RIGHT))}
                made.values[row][column] += scored(score, column, metric="relpos.train.metrics.accuracy", answers=path)
    return made


def found(test: error_reduction, made: Scale) -> Verdict:
    (one,) = test.verdicts(scales(made))
    return one


@pytest.mark.parametrize(("share", "expected"), [(0.1, "holds"), (0.6, "fails"), (0.31, "undecided")])
def test_error_reduction(tmp_path: Path, share: float, expected: str) -> None:
    shares = {(p, 0): share + by for p, by in enumerate((-0.04, 0.04, -0.02, 0.02))}
    made = answered(tmp_path, {"base": dict.fromkeys(shares, 0.3), "s5": shares})
    said = found(error_reduction(contrasts=[["s5", "base"]]), made)
    assert said.verdict == expected, said.figures
    assert "over 4 pre-training seeds" in said.figures
    changed(made, lambda each: replace(each, answers=None), "rte", rows=["s5"])
    assert found(error_reduction(contrasts=[["s5", "base"]]), made).verdict == "not run"


def test_fine_tunings_of_one_pre_training_are_averaged(tmp_path: Path) -> None:
    """One pre-training of three is worse, which eight fine-tunings of each do not make up for."""
    better = {(p, s): 0.27 if p else 0.32 for p in range(3) for s in range(8)}
    made = answered(tmp_path, {"base": dict.fromkeys(better, 0.3), "s5": better})
    said = found(error_reduction(contrasts=[["s5", "base"]]), made)
    assert said.verdict == "undecided"
    assert "over 3 pre-training seeds" in said.figures


def test_fine_tunings_of_one_pre_training_alone_decide_nothing(tmp_path: Path) -> None:
    seeds: list[Seed] = [(0, s) for s in range(4)]
    made = answered(tmp_path, {"base": dict.fromkeys(seeds, 0.3), "s5": dict.fromkeys(seeds, 0.1)})
    said = found(error_reduction(contrasts=[["s5", "base"]]), made)
    assert said.verdict == "undecided"
    assert said.takes == "two pre-training seeds or more of each row"


def test_only_the_columns_of_the_claim(tmp_path: Path) -> None:
    seeds: list[Seed] = [(p, 0) for p in range(2)]
    shares = {"base": dict.fromkeys(seeds, 0.3), "s5": dict.fromkeys(seeds, 0.1)}
    made = answered(tmp_path, shares, ("mnli_m", "mnli_mm"))
    assert "mnli_mm" not in found(error_reduction(contrasts=[["s5", "base"]], columns=["mnli_m"]), made).figures
