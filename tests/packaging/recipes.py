"""An example of each of CONTRIBUTING's recipes: the files that it writes, and the tests that must then pass."""

from dataclasses import dataclass


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
    {"PAPER": "across", "NAME": "alibi"},
    {
        "experiments/claims/across.yaml": """
X98:
  says: ALiBi beats no positions
  source: both papers
  test: {rule: contrast, above: 0, contrasts: [[alibi, none]]}
X99:
  says: ALiBi learns nothing about positions
  source: both papers
  not_tested: would be tested by its number of parameters
""",
        "experiments/claims/rows.yaml": "alibi: [position=alibi]\n",
        "tests/claims/test_alibi.py": """
import pytest
from relpos.cli import main


@pytest.mark.parametrize("said", ["X98  not run  ALiBi beats", "X99  not tested  ALiBi learns"])
def test_it_is_on_the_page(said, capsys):
    assert main(["claims", "ids=[X98,X99]"]) == 0
    assert said in capsys.readouterr().out
""",
    },
    ("test_alibi", 2),
)
COLUMN = Recipe(
    "A measured column",
    {"NAME": "width"},
    {
        "src/relpos/measures/kinds/width.py": '''
from relpos.measures.measure import Figure, Measure, MeasuredColumn


class Width(Measure):
    """Numbers in a hidden state."""

    columns = (MeasuredColumn("width", "width of the network", "accuracy"),)
    note = "Width: numbers in a hidden state."

    def measure(self, sample):
        return {"width": sample.model.encoder.shape.hidden}

    def figure(self, column, results):
        return Figure(results["width"]) if "width" in results else None
''',
        "tests/measures/test_width.py": """
from hosts import host, saved
from published import published
from relpos.cli import main
from relpos.measures.measure import measured_columns


def test_it_is_measured(tmp_path, capsys):
    network = saved(host("RobertaForMaskedLM", vocab_size=300), published("roberta", tmp_path))
    assert main(["order", f"network={network}", "measure=[width]"]) == 0
    assert "width of the network 16.0" in capsys.readouterr().err


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


def test_answers_are_fine_tuned(tmp_path, capsys):
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
    ("tilt", 15),
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
    ("chinese_clip", 1),
)
RECIPES = (SUBCOMMAND, CLAIM, COLUMN, TASK, SCHEME, CONVOLUTION, FAMILY)
