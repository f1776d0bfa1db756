"""The tutorials run as they are written, from the first block to the last, with a few steps of
training."""

import json
import re
import shlex
from pathlib import Path

import pytest
from notebook import notebook

from relpos.cli import main
from tests.packaging.links import ROOT

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
CAPTURED = re.compile(r"(\w+)=\$\((.*) \| tail -n 1\)")
TRAINING = ("steps=2", "batch=4", "evaluations=1")
MEASURING = ("examples=8", "pairs.limit=2")
FEWER = {
    "pretrain": TRAINING,
    "order": MEASURING,
    "reproduce": (
        *(f"pretrain.{key}" for key in TRAINING),
        *(f"order.{key}" for key in MEASURING),
        "engine=debug",
    ),
}
"""Subcommand → overrides that make it a matter of seconds."""


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs(page, toy_runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    ran = 0
    for language, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            Path(title).parent.mkdir(parents=True, exist_ok=True)
            Path(title).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, page.name, "exec"), names)
        elif language == "sh":
            for line in filter(None, text.splitlines()):
                captured = CAPTURED.fullmatch(line)
                words = shlex.split(captured[2] if captured else line, comments=True)
                words = [
                    re.sub(r"\$(\w+)", lambda name: str(names[name[1]]), word) for word in words
                ]
                capsys.readouterr()
                assert words[0] == "relpos"
                assert main([*words[1:], *FEWER.get(words[1], ())]) == 0, line
                if captured:
                    names[captured[1]] = capsys.readouterr().out.splitlines()[-1]
                ran += 1
    assert ran > 1


def test_the_notebook_is_the_page():
    page = ROOT / "docs" / "tutorials" / "what_a_checkpoint_knows.md"
    kept = json.loads(page.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert kept == notebook(page.read_text(encoding="utf-8")), (
        f"python docs/notebook.py {page.relative_to(ROOT)}"
    )
    commands = [
        line for cell in kept["cells"] if cell["cell_type"] == "code" for line in cell["source"]
    ]
    assert "!relpos analyze toeplitz network=$NETWORK" in commands
