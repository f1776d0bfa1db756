"""Claims about trained position embeddings in published checkpoints."""

import json
from pathlib import Path

import pytest
import torch

from hosts import host, saved
from relpos.claims import claim as files
from relpos.claims.weights import close_to_toeplitz, goes_with_score, newer_is_more, rises_with_training, seldom_trained_is_less
from relpos.cli import main
from relpos.commands.claims import page
from relpos.errors import RelposError
from relpos.results.scale import Scales, published_checkpoints

HIDDEN, POSITIONS = 16, 20


def checkpoint(folder: Path, kind: str, toeplitz: bool) -> str:
    """A published network of which P is Toeplitz, or whose position table is random."""
    model = host(kind, **({"embedding_size": HIDDEN} if kind.startswith("Electra") else {}))
    waves = torch.arange(POSITIONS).double()[:, None] * torch.arange(1, HIDDEN // 2 + 1).double() * 0.3
    regular, random = torch.cat((waves.sin(), waves.cos()), 1), torch.randn(POSITIONS, HIDDEN).double()
    (table,) = (value for name, value in model.named_parameters() if name.endswith("position_embeddings.weight"))
    table.data.copy_(regular if toeplitz else random)
    return str(saved(model, folder))


def test_toeplitz_tables_hold_and_random_ones_fail_and_no_training_is_asked_for(tmp_path: Path) -> None:
    good, bad = checkpoint(tmp_path / "good", "BertModel", True), checkpoint(tmp_path / "bad", "BertModel", False)
    holds, fails = close_to_toeplitz(row="absolute").verdicts(Scales([], published=published_checkpoints([good, bad])))
    assert (holds.verdict, fails.verdict) == ("holds", "fails")
    assert holds.scale == "good (3×16)"
    assert f"positions 1 to {POSITIONS};" in holds.figures
    assert "half of the examples" not in holds.figures
    assert not holds.takes


def test_what_needs_a_training_says_nothing_of_a_checkpoint(tmp_path: Path) -> None:
    scales = Scales([], published=published_checkpoints([checkpoint(tmp_path / "some", "BertModel", False)]))
    for test in (rises_with_training, goes_with_score, seldom_trained_is_less):
        assert test(row="absolute").verdicts(scales) == []


@pytest.mark.parametrize(("newer_is_toeplitz", "expected"), [(True, "holds"), (False, "fails")])
def test_newer_families_are_held_against_older_ones_with_tables_of_one_shape(
    newer_is_toeplitz: bool, expected: str, tmp_path: Path
) -> None:
    old = checkpoint(tmp_path / "old", "BertModel", not newer_is_toeplitz)
    new = checkpoint(tmp_path / "new", "ElectraModel", newer_is_toeplitz)
    test = newer_is_more(newer=["electra"], older=["bert"])
    (said,) = test.verdicts(Scales([], published=published_checkpoints([old, new])))
    assert said.verdict == expected
    assert "old (3×16)" in said.figures
    assert test.verdicts(Scales([], published=published_checkpoints([old])))[0].verdict == "not run"


def test_another_scheme_is_refused_by_name(tmp_path: Path) -> None:
    folder = saved(host("RoFormerModel", embedding_size=8), tmp_path / "turned")
    with pytest.raises(RelposError, match=r"turned: it has no table of position embeddings but \w+"):
        published_checkpoints([str(folder)])


@pytest.mark.full
def test_the_page_has_a_verdict_of_each_checkpoint(tmp_path: Path) -> None:
    published = published_checkpoints([checkpoint(tmp_path / "some", "RobertaForMaskedLM", True)])
    wanted = [claim for claim in files.load("wennberg2021") if claim.id in ("W01", "W06", "W07", "W18")]
    claims = page(wanted, Scales([], published=published))["claims"]
    assert [[finding["scale"] for finding in claim["findings"]] for claim in claims] == [["some (3×16)"]] * 4


def test_the_command_reads_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("relpos.commands.claims.families", lambda wanted: [wanted])  # the other claims of the paper take seconds
    folder = checkpoint(tmp_path / "some", "BertModel", True)
    assert main(["claims", "ids=[W01]", f"network={folder}"]) == 0
    path = Path(capsys.readouterr().out.strip().splitlines()[-1])
    assert json.loads(path.read_text())["claims"][0]["findings"][-1]["scale"] == "some (3×16)"
    assert main(["claims", "ids=[W01]", f"network={tmp_path / 'nowhere'}"]) == 1
    assert "config.json is missing" in capsys.readouterr().err
