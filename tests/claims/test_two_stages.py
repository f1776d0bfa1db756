"""The claim about two stages, from losses that nobody has measured."""

from pathlib import Path

import pytest

from claims.made_up import scale, scales
from relpos.claims.trends import two_stages
from relpos.results.scale import Scale

FIRST = {"share": 0.9, "length": 128, "batch": 128}


def trained(losses: dict[str, list[float]], **meaning: object) -> Scale:
    made = scale({row: {"loss": [-loss for loss in values]} for row, values in losses.items()}, length=512, **meaning)
    made.folders = {row: dict.fromkeys(range(len(values)), Path()) for row, values in losses.items()}
    return made


@pytest.mark.parametrize(("lost", "verdict"), [(0.0, "holds"), (0.02, "undecided"), (0.3, "fails")])
def test_what_two_stages_lose(lost: float, verdict: str) -> None:
    one, jitter = [3.0, 3.1, 2.9], [0.001, -0.001, 0.002]
    whole = trained({"tisa": one, "absolute": one})
    two = trained(
        {"tisa": [loss + lost + more for loss, more in zip(one, jitter, strict=True)], "absolute": [3.5]},
        first=FIRST,
    )
    (found,) = two_stages(row="tisa", others=["absolute", "composite"]).verdicts(scales(whole, two))
    assert found.verdict == verdict
    assert f"tisa {lost + 0.001:+.3f} [" in found.figures
    assert "absolute +0.500 (too few seeds)" in found.figures
    assert "composite" not in found.figures
    assert found.scale.endswith("the first 90% of the steps 128 at 128")


def test_one_stage_alone_and_one_seed_decide_nothing() -> None:
    whole = trained({"tisa": [3.0]})
    assert two_stages(row="tisa").verdicts(scales(whole)) == []
    two = trained({"tisa": [3.0]}, first=FIRST)
    (found,) = two_stages(row="tisa").verdicts(scales(whole, two))
    assert found.verdict == "undecided"
