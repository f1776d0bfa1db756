"""CONTRIBUTING's recipes, followed in a copy of the tree: the files that they name are written, no others, and it works.

One process makes what `make golden` and `make mechanisms` make, and runs the tests that the recipes write or extend.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packaging.links import ROOT
from tests.packaging.recipes import CONVOLUTION, RECIPES, SCHEME, Recipe

PAGE = ROOT / "CONTRIBUTING.md"
COPIED = ("src", "conf", "docs", "experiments", "tests")
MADE = {"tests/golden/schemes.json", "docs/mechanisms.md"}
"""What `make golden` and `make mechanisms` write."""
FOUND = {
    "tests/model/test_laws.py": "",
    "tests/packaging/test_mechanisms.py": "",
    "tests/model/test_golden.py": "every_preset_has_its_golden_losses",
    "tests/claims/test_claim.py": "all_claims_are_there or each_has_a_judgement",
    "tests/data/test_tasks.py": "there_is_a_file_for_each_task",
    "tests/measures/test_measure.py": "measures_are_the_files",
}
"""Tests that find what is new by themselves, and those of them that look at all there is."""
FOLLOW = """
import json, sys, pytest
sys.path[:0] = ["docs", "tests"]
import generate, golden
every = generate.presets
generate.presets = lambda group: [preset for preset in every(group) if preset.name in ("none", "absolute", "tilt", "peek")]
known, compute = json.loads(golden.PATH.read_text()), golden.losses
golden.losses = lambda name: compute(name) if name in ("position=absolute", "position=tilt", "conv=peek") else known[name]
golden.main()
generate.main()
sys.exit(pytest.main(["-v", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""
"""The page of mechanisms and the golden losses are made of a few presets, which takes seconds less."""


EVERY = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.words.get("NAME", "claim"))


def write(tree: Path, recipe: Recipe) -> None:
    """Does in the tree what the example says."""
    for name, content in recipe.files.items():
        path = tree / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for old, new in content if isinstance(content, list) else []:
            assert text.count(old) == 1, f"{name}: {old}"
            text = text.replace(old, new)
        path.write_text(text + content if isinstance(content, str) else text, encoding="utf-8")


def contents(tree: Path) -> dict[str, bytes]:
    """File → its content, below the folders that are copied."""
    files = (path for name in COPIED for path in (tree / name).rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(tree).as_posix(): path.read_bytes() for path in files}


def named(recipe: Recipe) -> list[str]:
    """The files in backticks with which the lines of a recipe begin, with the words of its example."""
    section = re.split(r"^#+ ", PAGE.read_text(encoding="utf-8").partition(f"\n### {recipe.title}\n")[2], flags=re.MULTILINE)[0]
    files = re.findall(r"^\d\. (?:`make \w+`: )?`([^`]+)`", section, re.MULTILINE)
    for word, here in recipe.words.items():
        files = [file.replace(word, here) for file in files]
    return files


@dataclass(frozen=True)
class Followed:
    """What came of all recipes in one copy.

    Args:
        before: file → its content before they were followed.
        after: the same afterwards.
        passed: the tests that passed in the copy.
    """

    before: dict[str, bytes]
    after: dict[str, bytes]
    passed: list[str]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    tree = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        # `results` of experiments, not of the package.
        left_out = ("results", "slurm") if name in ("experiments", "tests") else ()
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns(*left_out))
    shutil.copy(ROOT / "pyproject.toml", tree)
    before = contents(tree)
    for recipe in RECIPES:
        write(tree, recipe)
    files = sorted({file for recipe in RECIPES for file in recipe.files if "/test_" in file})
    words = [*(recipe.tests[0] for recipe in RECIPES), *filter(None, FOUND.values())]
    command = [sys.executable, "-c", FOLLOW, *files, *FOUND, "-k", " or ".join(words)]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return Followed(before, contents(tree), re.findall(r"^(\S+::.*) PASSED", done.stdout, re.MULTILINE))


@EVERY
def test_the_page_names_the_files(recipe: Recipe) -> None:
    made = MADE if recipe in (SCHEME, CONVOLUTION) else set()
    assert set(named(recipe)) == recipe.files.keys() | made


@pytest.mark.full
@EVERY
def test_what_it_adds_works(recipe: Recipe, followed: Followed) -> None:
    word, least = recipe.tests
    assert len([name for name in followed.passed if word in name]) >= least


@pytest.mark.full
def test_no_other_file_is_written(followed: Followed) -> None:
    changed = {name for name, content in followed.after.items() if followed.before.get(name) != content}
    assert changed == MADE.union(*(recipe.files for recipe in RECIPES))


@pytest.mark.full
def test_golden_values_of_the_others_stay(followed: Followed) -> None:
    before, after = (json.loads(files["tests/golden/schemes.json"]) for files in (followed.before, followed.after))
    assert after == before | {name: after[name] for name in ("position=tilt", "conv=peek")}


@pytest.mark.full
def test_the_page_of_mechanisms_has_their_entries(followed: Followed) -> None:
    page = followed.after["docs/mechanisms.md"].decode()
    assert "- `relpos pretrain position=tilt`" in page
    assert "- `relpos pretrain position=none conv=peek`" in page
