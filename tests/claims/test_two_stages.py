"""The claim about two stages, from records that nobody has trained."""

from pathlib import Path

import pytest

from claims.made_up import scale, scales
from relpos.claims.scales import Scale
from relpos.claims.trends import two_stages
from relpos.files import write_json

FIRST = {"share": 0.9, "length": 128, "batch": 128}


def trained(folder: Path, losses: dict[str, list[float]], **meaning: object) -> Scale:
    made = scale({}, length=512, **meaning)
    for row, values in losses.items():
        for seed, loss in enumerate(values):
            path = folder / row / str(seed)
            write_json(path / "record.json", {"metrics": {"heldout_loss": loss}})
            made.folders.setdefault(row, {})[seed] = path
    return made


@pytest.mark.parametrize(("lost", "verdict"), [(0.0, "holds"), (0.02, "undecided"), (0.3, "fails")])
def test_what_two_stages_lose(tmp_path: Path, lost: float, verdict: str) -> None:
    one, jitter = [3.0, 3.1, 2.9], [0.001, -0.001, 0.002]
    whole = trained(tmp_path / "one", {"tisa": one, "absolute": one})
    two = trained(
        tmp_path / "two",
        {"tisa": [loss + lost + more for loss, more in zip(one, jitter, strict=True)], "absolute": [3.5]},
        first=FIRST,
    )
    (found,) = two_stages(row="tisa", others=["absolute", "composite"]).verdicts(scales(whole, two))
    assert found.verdict == verdict
    assert f"tisa {lost + 0.001:+.3f} [" in found.figures
    assert "absolute +0.500 (too few seeds)" in found.figures
    assert "composite" not in found.figures
    assert found.scale.endswith("the first 90% of the steps 128 at 128")


def test_one_stage_alone_and_one_seed_decide_nothing(tmp_path: Path) -> None:
    whole = trained(tmp_path / "one", {"tisa": [3.0]})
    assert two_stages(row="tisa").verdicts(scales(whole)) == []
    two = trained(tmp_path / "two", {"tisa": [3.0]}, first=FIRST)
    (found,) = two_stages(row="tisa").verdicts(scales(whole, two))
    assert found.verdict == "undecided"
