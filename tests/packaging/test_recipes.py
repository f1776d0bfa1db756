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

PAGE = ROOT / "CONTRIBUTING.md"
COPIED = ("src", "conf", "docs", "experiments", "tests")
MADE = {"tests/golden/schemes.json", "docs/mechanisms.md"}
"""What `make golden` and `make mechanisms` write."""
FOUND = {
    "tests/model/test_laws.py": "",
    "tests/packaging/test_mechanisms.py": "",
    "tests/model/test_golden.py": "every_preset_has_its_golden_losses",
    "tests/claims/test_claim.py": "all_claims_are_there or each_has_a_test",
    "tests/data/test_tasks.py": "there_is_a_file_for_each_task",
    "tests/measures/test_measure.py": "measures_are_the_files",
}
"""Tests that find what is new by themselves, and those of them that look at all there is."""
FOLLOW = """
import sys, pytest
sys.path[:0] = ["docs", "tests"]
import generate, golden
every = generate.presets
generate.presets = lambda group: [preset for preset in every(group) if preset.name in ("none", "absolute", "tilt", "peek")]
golden.main()
generate.main()
sys.exit(pytest.main(["-v", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""
"""The page of mechanisms is made of a few presets, which takes seconds less."""


@dataclass(frozen=True)
class Recipe:
    """An example of one.

    Args:
        title: its heading.
        words: what stands in capitals in the names of its files → what it is here.
        files: file → its text, or what is appended to it; or pairs of what is replaced and what by.
        tests: a word in the names of the tests that must pass, and how many there are at least.
    """

    title: str
    words: dict[str, str]
    files: dict[str, str | list[tuple[str, str]]]
    tests: tuple[str, int]


SUBCOMMAND = Recipe(
    "A subcommand",
    {"NAME": "greet"},
    {
        "src/relpos/commands/greet.py": '''
from relpos.ranges import Count


def greet(who: str, times: Count) -> str:
    """Says hello."""
    return f"hello {who} " * times
''',
        "conf/greet.yaml": """# relpos greet: says hello
# relpos greet who=world
defaults:
  - command
  - _self_

who: ???    # who is greeted
times: 2    # how often
""",
        "tests/commands/test_greet.py": """
import pytest

from relpos.cli import main


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--help"], 0, "greet         says hello"),
        (["greet", "--help"], 0, "times: 2                             # how often"),
        (["greet", "who=you"], 0, "hello you hello you"),
        (["greet", "who=you", "times=0"], 1, "relpos: times=0: a whole number of 1 or more"),
        (["greet", "whom=you"], 1, "unknown key 'whom'. Did you mean 'who'?"),
        (["greet"], 1, "who must be given"),
        (["gret"], 1, "unknown command 'gret'. Did you mean 'greet'?"),
    ],
)
def test_it_is_found_checked_and_explained(arguments, status, said, capsys):
    assert main(arguments) == status
    assert said in "".join(capsys.readouterr())
""",
    },
    ("test_greet", 7),
)
CLAIM = Recipe(
    "A claim",
    {"PAPER": "across", "RULES": "learned"},
    {
        "experiments/claims/across.yaml": """
X06:
  says: ALiBi learns nothing about positions
  source: both papers
  test: {rule: learned.nothing, row: alibi}
""",
        "experiments/claims/rows.yaml": "alibi: [position=alibi]\n",
        "src/relpos/claims/learned.py": '''
from relpos.claims.network import position_parameters
from relpos.claims.rule import Place, Test, once, rule
from relpos.claims.verdict import FAILS, HOLDS, Verdict


@rule("{row} has no parameters", places=once)
def nothing(test: Test, place: Place) -> Verdict:
    """The position scheme of the row has no parameters."""
    count = position_parameters(f"position={test.row}")
    return Verdict(FAILS if count else HOLDS, f"{count:,}")
''',
        "tests/claims/test_learned.py": """
from claims.made_up import scales
from relpos.claims.claim import Claim
from relpos.cli import main


def test_it_holds(capsys):
    assert main(["claims", "ids=[X06]"]) == 0
    assert "X06  holds (at any size)  ALiBi learns nothing" in capsys.readouterr().out


def test_it_fails_where_something_is_learned():
    claim = Claim("M01", "", "", "", {"rule": "learned.nothing", "row": "fixed"})
    assert [verdict.verdict for verdict in claim.verdicts(scales())] == ["fails"]
""",
    },
    ("test_learned", 2),
)
COLUMN = Recipe(
    "A measured column",
    {"NAME": "width"},
    {
        "src/relpos/measures/kinds/width.py": '''
from relpos.measures.measure import Figure, Measure, MeasuredColumn


class Width(Measure):
    """Numbers in a hidden state."""

    columns = (MeasuredColumn("width", "width of the network"),)

    def measure(self, sample):
        return {"width": sample.model.encoder.shape.hidden}

    def figure(self, column, results):
        return Figure(results["width"]) if "width" in results else None

    def said(self, results):
        return [f"{results['width']} wide"]
''',
        "tests/measures/test_width.py": """
from hosts import host, saved
from published import published
from relpos.cli import main
from relpos.measures.measure import measured_columns


def test_it_is_measured(tmp_path, capsys):
    network = saved(host("RobertaForMaskedLM", vocab_size=300), published("roberta", tmp_path))
    assert main(["order", f"network={network}", "measure=[width]"]) == 0
    assert "16 wide" in capsys.readouterr().err


def test_tables_have_its_column():
    assert measured_columns()["width"][1].title == "width of the network"
""",
    },
    ("test_width", 2),
)
TASK = Recipe(
    "A task",
    {"NAME": "answers"},
    {
        "conf/task/answers.yaml": """# ANSWERS: is it one? Accuracy.
_target_: relpos.data.tasks.Task
name: answers
folder: ANSWERS
sentences: [text]
label: label
labels: ["no", "yes"]
columns: [answers]
dev: {answers: dev}
test: {ANSWERS: test}
metric: relpos.train.metrics.accuracy
rows: 16
batch: 4
steps: 12
lr: 3.0e-4
intermediate: null
""",
        "tests/data/test_answers.py": """
import json
from pathlib import Path

from glue_tasks import write
from hosts import host, saved
from published import published
from relpos.cli import main


def test_it_is_fine_tuned(tmp_path, capsys):
    network = saved(host("RobertaModel", vocab_size=300), published("roberta", tmp_path / "network"))
    for split in ("train", "dev"):
        write(tmp_path / "ANSWERS", f"{split}.tsv", "text\\tlabel\\n" + "the cat\\tno\\nit sat\\tyes\\n" * 8)
    sizes = ["steps=2", "batch=4", "length=16"]
    assert main(["finetune", "task=answers", f"network={network}", "data=files", f"data.glue={tmp_path}", *sizes]) == 0
    record = json.loads((Path(capsys.readouterr().out.strip()) / "record.json").read_text())
    assert 0 <= record["metrics"]["columns"]["answers"] <= 100
""",
    },
    ("test_answers", 1),
)
SCHEME = Recipe(
    "A position scheme",
    {"NAME": "tilt"},
    {
        "src/relpos/model/position/tilt.py": '''
import torch
from torch import nn

from relpos.model.position.base import Scheme, Terms


class Tilt(Scheme):
    """T_ij = r (j − i), one learned slope r per head (Doe 2024, Eq. 1).

    Parameters: H
    """

    def __init__(self, shape):
        super().__init__(shape)
        self.slope = nn.Parameter(torch.zeros(shape.heads))

    def prepare(self, n):
        return self.slope[:, None] * torch.arange(1 - n, n, device=self.slope.device)

    def terms(self, layer, q, k, state):
        return Terms(offset=state)

    def count(self, shape):
        return shape.heads
''',
        "conf/position/tilt.yaml": "_target_: relpos.model.position.tilt.Tilt\n_partial_: true\n",
        "tests/reference.py": '''

def tilt(scheme, layer, head, i, j, q, k):
    """r (j − i)"""
    return scheme.slope[head] * (j - i)


TERMS["Tilt"] = tilt
''',
    },
    ("tilt", 16),
)
CONVOLUTION = Recipe(
    "A convolution",
    {"NAME": "peek"},
    {
        "src/relpos/model/conv/peek.py": '''
import torch
from torch import nn
from torch.nn import functional

from relpos.model.conv.base import Conv
from relpos.model.conv.window import hide


class Peek(Conv):
    """y_{i,c} = Σ_j softmax_j(s_ij) v_{j,c} + w_c v_{i+1,c}, one learned weight per channel (Doe 2024, Eq. 2).

    Parameters: L·d
    """

    def __init__(self, shape):
        super().__init__(shape)
        self.weight = nn.Parameter(torch.zeros(shape.heads * shape.head_dim))

    def after(self, v, mask):
        return self.weight * functional.pad(hide(v, mask)[:, 1:], (0, 0, 0, 1))

    def count(self, shape):
        return shape.heads * shape.head_dim
''',
        "conf/conv/peek.yaml": "_target_: relpos.model.conv.peek.Peek\n_partial_: true\n",
        "tests/reference_conv.py": '''

def peek(part, v, real):
    """w_c v_{i+1,c}"""
    return [part.weight * v[i] if i < len(v) and real[i] else 0 * part.weight for i in range(1, len(v) + 1)]


AFTER["Peek"] = peek
''',
    },
    ("peek", 8),
)
FAMILY = Recipe(
    "A family of checkpoints",
    {"NAME": "chinese_clip"},
    {
        "src/relpos/pretrained/chinese_clip.py": '''
"""The text encoder of Chinese CLIP (Yang et al. 2022), which is that of BERT."""

from dataclasses import replace

from relpos.pretrained.bert import FAMILY as BERT

FAMILY = replace(
    BERT, model_type="chinese_clip_text_model", prefix="chinese_clip.", base="ChineseCLIPTextModel", heads=()
)
''',
        "src/relpos/pretrained/families.py": [
            ("import albert, bert,", "import albert, bert, chinese_clip,"),
            ("in (albert, bert,", "in (albert, bert, chinese_clip,"),
        ],
        "tests/pretrained/test_parity.py": [
            ('    "mpnet": (', '    "chinese_clip": ("ChineseCLIPTextModel", {}),\n    "mpnet": (')
        ],
    },
    ("chinese_clip", 2),
)
RECIPES = (SUBCOMMAND, CLAIM, COLUMN, TASK, SCHEME, CONVOLUTION, FAMILY)
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
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("results", "slurm"))
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


@EVERY
def test_a_recipe_has_five_lines_at_most(recipe: Recipe) -> None:
    assert 2 <= len(named(recipe)) <= 5


@EVERY
def test_what_it_adds_works(recipe: Recipe, followed: Followed) -> None:
    word, least = recipe.tests
    assert len([name for name in followed.passed if word in name]) >= least


def test_no_other_file_is_written(followed: Followed) -> None:
    changed = {name for name, content in followed.after.items() if followed.before.get(name) != content}
    assert changed == MADE.union(*(recipe.files for recipe in RECIPES))


def test_golden_values_of_the_others_stay(followed: Followed) -> None:
    before, after = (json.loads(files["tests/golden/schemes.json"]) for files in (followed.before, followed.after))
    assert after == before | {name: after[name] for name in ("position=tilt", "conv=peek")}


def test_the_page_of_mechanisms_has_their_entries(followed: Followed) -> None:
    page = followed.after["docs/mechanisms.md"].decode()
    assert "- `relpos pretrain position=tilt`" in page
    assert "- `relpos pretrain position=none conv=peek`" in page
