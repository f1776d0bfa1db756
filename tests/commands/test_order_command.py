"""`relpos order`."""

import json
import shutil
from pathlib import Path

import pytest

import relpos
from linked import link_runs, pretrained
from relpos.cli import main
from relpos.config.arguments import rewritten
from relpos.config.compose import compose, resolved
from relpos.runs.run import input_of
from relpos.stages.measure import kept

FEW = ["examples=20", "pairs.limit=4", "threads=1"]


RESULT = {"accuracy": 50.0, "interval": [50.0, 50.0], "ties_right": 100.0, "guess": 50.0}
"""The result on pairs of a network that does not know the order."""


@pytest.fixture(scope="module")
def run(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-training of two steps without positions, with a snapshot."""
    overrides = {"none": ["snapshots=[50]", "position=none"]}
    return pretrained(prepared, tmp_path_factory.mktemp("runs"), overrides)["none"]


@pytest.fixture
def none(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the run, as nobody has measured it."""
    monkeypatch.setenv("RELPOS_RUNS", str(run.parents[1]))
    return shutil.copytree(run, tmp_path / run.name)


def test_the_command_prints_the_folder_of_its_results_last(none, capsys):
    assert main(["order", f"network={none}", *FEW]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    content = json.loads((folder / "order.json").read_text())
    assert (
        set(content["shuffle_gap"])
        == {"2", "3", "4", "8", "all"}
        == set(content["shuffle_gap_intervals"])
    )
    assert max(map(abs, content["shuffle_gap"].values())) <= 1e-5
    assert content["pairs"]["same_words"] == RESULT | {"n": 28}
    assert set(content["pairs"]) == {"same_words", "others", "paradigms"}
    assert len(content["attention"]["mass"]) == 1
    assert (folder / "shuffle_gap.png").read_bytes().startswith(b"\x89PNG")


def test_results_are_kept_and_not_measured_again(none, monkeypatch):
    before = relpos.order(none, overrides=FEW)
    monkeypatch.setattr(
        "relpos.runs.networks.Network.load", lambda _: pytest.fail("measured again")
    )
    assert relpos.order(none, overrides=FEW) == before
    assert relpos.order(none / "model", overrides=FEW)["pairs"] == before["pairs"]
    with pytest.raises(pytest.fail.Exception, match="measured again"):
        relpos.order(none, overrides=["examples=20", "pairs.limit=5"])


@pytest.mark.parametrize(
    "harm", [lambda text: text[:-5], lambda text: text.replace('"all": ', '"all": 1')]
)
def test_damaged_results_are_named_and_measured_again_once_they_are_deleted(
    run, none, capsys, harm, tmp_path, monkeypatch, refused
):
    link_runs(run.parents[1], tmp_path)
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path))
    overrides = ["measure=shuffle", *FEW]
    before = relpos.order(none, overrides=overrides)
    (file,) = (tmp_path / "order").glob("shuffle-*/results.json")
    file.write_text(harm(file.read_text()))
    assert kept(none, "shuffle") == []
    assert f"damaged results {file.parent}" in capsys.readouterr().err
    assert f"damaged: {file} is not what" in refused("order", f"network={none}", *overrides)
    shutil.rmtree(file.parent)
    assert relpos.order(none, overrides=overrides) == before


@pytest.mark.full
def test_a_model_folder_that_stands_alone_is_measured_on_the_pairs_that_are_named(
    none, tmp_path, capsys
):
    alone = shutil.copytree(none / "model", tmp_path / "alone")
    overrides = ["pairs=toy", *FEW]
    assert set(relpos.order(alone, overrides=overrides)) == {"name", "folder", "pairs", "form"}
    assert "without shuffle: " in capsys.readouterr().err
    store = input_of(none, "store")
    assert (
        relpos.order(alone, overrides=[*overrides, f"store={store}"])["shuffle_gap"]
        == relpos.order(none, overrides=overrides)["shuffle_gap"]
    )


def test_a_file_of_ones_own_is_named_like_an_option(none, tmp_path):
    path = tmp_path / "own pairs.txt"
    path.write_text("dogs the sleep.\nthe dogs sleep.\n")
    results = relpos.order(none, overrides=[f"pairs={path}", "measure=pairs", "form=plain"])
    assert results["pairs"]["paradigms"] == {"own pairs": RESULT | {"n": 1}}
    assert rewritten("order", ["pairs=zorro", "pairs=a/b"]) == [
        "pairs=zorro",
        "pairs=files",
        "pairs.path='a/b'",
    ]


@pytest.mark.parametrize("name", ["it's", "one, two", r"back\slash's", "${here}", "[x]=1"])
def test_from_python_a_folder_s_name_reaches_the_command_as_it_is(name, tmp_path, monkeypatch):
    (tmp_path / "order.json").write_text("{}")
    calls: list[list[str]] = []
    monkeypatch.setattr(
        "relpos.config.compose.called",
        lambda _, overrides: calls.append(overrides) or str(tmp_path),
    )
    relpos.order(tmp_path / name, Path("other"))
    assert list(resolved(compose("order", calls[0]))["network"]) == [str(tmp_path / name), "other"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["measure=[order]"],
            "measure=order: no such measure. Known: attention, kernels, lengths, masking, mirror,",
        ),
        (["measure=[]"], "measure=[]: at least one is needed"),
        (["examples=0"], "examples=0: a whole number of 1 or more"),
        (["form=word"], "form=word: within_word or plain is expected"),
        (["pairs=zoro"], "unknown pairs 'zoro'. Did you mean 'zorro'?"),
        (["pairs=gone/file.txt"], "pairs=gone/file.txt: no such file or folder"),
        (["store=/nonexistent"], " is the network of a run, which has its own text"),
        (["pairs.limit=0"], "pairs.limit=0: a whole number of 1 or more"),
    ],
)
def test_wrong_overrides_are_one_line(none, refused, overrides, message):
    assert message in refused("order", f"network={none}", *overrides)
