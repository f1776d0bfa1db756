"""`relpos fill` and `relpos score`."""

from pathlib import Path
from typing import Any

import pytest

import relpos
from linked import pretrained
from relpos.cli import main
from relpos.config.compose import compose
from relpos.files import write_json
from relpos.runs.run import runs_root


@pytest.fixture(scope="module")
def run(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-training of two steps, with a snapshot."""
    return pretrained(prepared, tmp_path_factory.mktemp("runs"), {"absolute": ["snapshots=[50]"]})["absolute"]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_fill_shows_each_masked_token_with_its_guesses(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = answer(capsys, "fill", "the [MASK] sleeps [MASK].", f"network={run}", "top=2").splitlines()
    assert [lines[0], lines[1], lines[4]] == ["the [MASK] sleeps [MASK].", "masked token 1", "masked token 2"]
    assert len(lines) == 7
    [[best, _], _] = relpos.FillMask(run)("the [MASK] sleeps [MASK].", top=2)
    assert lines[2].split()[:2] == [f"{best.probability:.4f}", best.piece]
    assert lines[2].endswith(best.text)


def test_score_shows_a_line_a_token_and_the_sum(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, *tokens, summary = answer(capsys, "score", "the dog sleeps.", f"network={run}").splitlines()
    scored = relpos.Score(run)("the dog sleeps.")
    assert text == "the dog sleeps."
    assert [line.split()[1] for line in tokens] == scored.pieces
    assert summary.startswith(f"{scored.total:.3f} nats, {len(scored.pieces)} tokens")


def test_model_folders_snapshots_and_rows_of_tables_are_runs_too(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fill", "a [MASK]"]
    expected = answer(capsys, *arguments, f"network={run}")
    assert answer(capsys, *arguments, f"network={run / 'model'}") == expected
    assert answer(capsys, *arguments, f"network={run / 'snapshots' / '50.safetensors'}") != expected
    row = {"stage": "pretrain", "identity": "1", "state": "finished", "path": str(run)}
    unfinished = {"name": "later", "runs": [row | {"state": "running"}]}
    table = {"name": "mine", "question": "?", "rows": [{"name": "absolute", "runs": [row]}, unfinished]}
    write_json(runs_root() / "tables" / "mine" / "table.json", table)
    assert answer(capsys, *arguments, "network=mine:absolute") == expected
    assert main([*arguments, "network=mine:later"]) == 1
    assert capsys.readouterr().err == "relpos: network=mine:later: no pre-training of this row is finished\n"
    assert main([*arguments, "network=mine:absolut"]) == 1
    assert "unknown row 'absolut'. Did you mean 'absolute'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fill", "no mask"], "no [MASK] in it"),
        (["fill"], "text must be given"),
        (["fill", "a [MASK]", "top=0"], "top=0: a whole number of 1 or more"),
        (["score", "a", "form=word"], "form=word: within_word or plain is expected"),
        (["score", "a", "tpo=1"], "unknown key 'tpo'"),
        (["score", "dog " * 40], "Absolute has 32 positions"),
    ],
)
def test_a_mistake_in_a_text_is_one_line(run: Path, refused: Any, arguments: list[str], said: str) -> None:
    assert said in refused(*arguments, f"network={run}")


@pytest.mark.parametrize("text", ["it's 'so'", "a = b, [c] {d}", "${x} \\${y}", "ends with \\", "\\' \\\\'", "a, b", "null", " 5"])
def test_any_text_arrives_as_it_was_typed(text: str) -> None:
    assert list(compose("score", [text, "network=x", "b"]).text) == [text, "b"]
