"""Files that were changed at random: each is read, or refused in one line. RELPOS_FULL=1 tries 40
of each kind."""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import relpos
from relpos.data.own_task import OwnTask, read_task_file
from relpos.data.pairs import PairFiles
from relpos.errors import RelposError
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table

EXAMPLES = 40 if os.environ.get("RELPOS_FULL") else 8
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [
            0,
            -1,
            3,
            10**9,
            10**30,
            0.5,
            -0.0,
            "",
            "x",
            "${size.hidden}",
            "${oc.env:HOME}",
            "../..",
            "\0",
            "é\n",
            [],
            {},
        ]
    ),
    st.sampled_from(
        [
            "relpos.model.position.Merge",
            "relpos.model.conv.NoConv",
            "os.mkdir",
            "relpos.files.write_text",
        ]
    ),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(
        st.sampled_from(["_target_", "a", "k"]), st.text(max_size=3) | st.integers(), max_size=2
    ),
)
EXPERIMENT = {
    "question": "why",
    "base": ["size=tiny", "steps=1"],
    "rows": {"none": ["position=none"], "other": ["position=fixed", "k=2"]},
    "tasks": [],
    "stages": {"pretrain": ["batch=2"]},
    "seeds": 2,
    "printed": "numbers.csv",
    "baseline": "none",
}
TASK = {
    "name": "mine",
    "columns": ["a", "b"],
    "label": "y",
    "labels": ["no", "yes"],
    "metric": "f1",
    "batch": 4,
    "epochs": 1.5,
}


@st.composite
def changed(draw: st.DrawFn, content: Any) -> Any:
    """The content with one to three values replaced, removed or added at random places."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        node = content
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and draw(st.booleans()):
                node = node[key]
                continue
            how = draw(st.sampled_from(["replace", "remove", "add"]))
            if how == "remove":
                del node[key]
            elif how == "add" and isinstance(node, dict):
                names = st.sampled_from(["_args_", "_partial_", "parts", "hydra"])
                node[draw(st.text(max_size=3) | names)] = draw(VALUES)
            else:
                node[key] = draw(VALUES)
            break
    return content


def tried(
    original: Any, file: Path, write: Callable[[Any], str], read: Callable[[], Any], long: int = 300
) -> None:
    """Reads a file whose content was changed, and which now and then ends within so many
    characters."""

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(changed(original), st.integers(0, 13 * long))
    def trial(content: Any, end: int) -> None:
        file.write_text(write(content)[: end if end < long else None], encoding="utf-8")
        try:
            read()
        except RelposError as error:
            if "\n" in str(error):
                pytest.fail(f"more than a line: {error!s}")

    trial()


@pytest.mark.parametrize(
    ("name", "write", "more"),
    [("config.yaml", yaml.safe_dump, {}), ("config.json", json.dumps, {"model_type": "relpos"})],
)
def test_a_model_folder_is_read_or_refused(name, write, more, model_folder):
    content = yaml.safe_load((model_folder / "config.yaml").read_text(encoding="utf-8"))
    (model_folder / "config.yaml").unlink()
    tried(content | more, model_folder / name, write, lambda: relpos.load(model_folder))


def test_an_experiment_file_is_read_or_refused(tmp_path):
    file = tmp_path / "mine.yaml"
    tried(EXPERIMENT, file, yaml.safe_dump, lambda: plan_table(load(str(file))))


@pytest.mark.parametrize(
    "read",
    [read_task_file, lambda file: relpos.compose("finetune", ["size=tiny", f"task={file}"])],
    ids=["alone", "composed"],
)
def test_a_task_file_is_read_or_refused(read, tmp_path):
    for split in ("train", "dev"):
        text = "a\tb\ty\none\ttwo\tno\nthree\tfour\tyes\n"
        (tmp_path / f"{split}.tsv").write_text(text, encoding="utf-8")
    file = tmp_path / "mine.yaml"
    tried(TASK, file, yaml.safe_dump, lambda: read(str(file)))


EWOK = {"Domain": "d", "Context1": "a", "Context2": "b", "Target1": "c", "Target2": "e"}
COMPS = {"prefix_acceptable": "a", "prefix_unacceptable": "b", "property_phrase": "c"}
ENTITIES = {"input_prefix": "a", "options": ["b", "c"], "numops": 1}
BLIMP = {"sentence_good": "a", "sentence_bad": "b", "UID": "u"}


@pytest.mark.parametrize(
    "original", [BLIMP, EWOK, COMPS, ENTITIES], ids=["blimp", "ewok", "comps", "entities"]
)
def test_json_lines_of_pairs_are_read_or_refused(original, tmp_path):
    file = tmp_path / "mine.jsonl"
    tried(original, file, json.dumps, PairFiles(file, limit=1).pairs, 60)


def test_json_lines_of_a_task_are_read_or_refused(tmp_path):
    own = OwnTask(folder=str(tmp_path), columns=["a", "b"])
    line = {"a": "c", "b": "d", "label": "e"}
    (tmp_path / "dev.jsonl").write_text(json.dumps(line), encoding="utf-8")
    tried(line, tmp_path / "train.jsonl", json.dumps, own.arguments, 60)
