"""Experiment files: what ships can be planned; a mistake is one line with the nearest right
word."""

import csv

import pytest

from relpos.config.conf import shipped
from relpos.errors import RelposError
from relpos.tables.experiment import load, printed_numbers
from tables.small_data import small

NAMES = sorted(path.stem for path in shipped("experiments").glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_first_comment_is_the_command(name):
    first = (shipped("experiments") / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(f"# relpos reproduce table={name}")
    assert load(name).question


def test_a_table_is_found_by_name_and_by_path(tmp_path):
    assert list(load("demo").rows) == ["none", "absolute", "fixed", "dynamic", "composite"]
    assert small(tmp_path).name == "small"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sedes": [0]}, "unknown key 'sedes'. Did you mean 'seeds'"),
        ({"tasks": ["colla"]}, "unknown task 'colla'. Did you mean 'cola'?"),
        ({"stages": {"pretain": []}}, "unknown stage 'pretain'. Did you mean 'pretrain'?"),
        ({"rows": {}}, "rows is missing"),
        ({"rows": {"none": "position=none"}}, "rows.none: a list of overrides is expected"),
        ({"base": ["tiny"]}, "base: 'tiny' is not an override"),
        ({"seeds": [0, 0]}, "seeds: a seed is given twice"),
        (
            {"seeds": ["a"]},
            "seeds=['a']: a whole number from 1 to 1,000 or a list [a whole number "
            "of 0 or more, …] is expected",
        ),
        ({"threads": 0}, "threads=0: a whole number from 1 to"),
        ({"seeds": []}, "seeds: a seed is expected"),
        ({"seeds": -1}, "seeds=-1: a whole number from 1 to 1,000 or a list"),
        ({"seeds": 999_999_999}, "seeds=999999999: a whole number from 1 to 1,000 or a list"),
        ({"rows": [1]}, "rows=[1]: a group of keys {key: value} is expected"),
        ({"tasks": "cola"}, "tasks=cola: a list [a word, …] is expected"),
        ({"lengths": [4]}, "lengths=[4]: a list [a whole number of 8 or more, …] is expected"),
        (
            {"statistic": "man"},
            "statistic=man: mean, best or median is expected. Did you mean 'mean' or 'median'?",
        ),
        ({"split": True}, "split=true: dev or test is expected"),
        ({"baseline": "nome"}, "baseline: unknown row 'nome'. Did you mean 'none'?"),
        ({"server": {"nome": {"rte": 64.1}}}, "server: unknown row 'nome'. Did you mean 'none'?"),
        (
            {"server": {"none": {"colla": 38}}},
            "server.none: unknown column 'colla'. Did you mean 'cola'?",
        ),
        (
            {"server": {"none": {"cola": 0.385, "rte": 0.64}}},
            "server.none: scores are × 100, as in cola: 41.2",
        ),
        (
            {"server": {"none": {"cola": 385}}},
            "server.none.cola=385: a number from -100 to 100 is expected",
        ),
        (
            {"server": {"none": {"mrpc": "88.1/84.0"}}},
            "server.none.mrpc=88.1/84.0: a number from -100 to 100",
        ),
        ({"server": {"none": 64.1}}, "server.none=64.1: a group of keys"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, changes, message):
    with pytest.raises(RelposError) as caught:
        small(tmp_path, **changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_table_names_the_nearest():
    with pytest.raises(RelposError, match=r"unknown table 'dmo'. Did you mean 'demo'"):
        load("dmo")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("question: x\nrows: [a\ntasks: [cola]\n", "t.yaml:3: not YAML"),
        (
            "question: x\nrows:\n  a: [k=2]\n  a: [k=3]\ntasks: [cola]\n",
            "t.yaml:4: not YAML: 'a' is given twice",
        ),
    ],
)
def test_a_yaml_error_names_file_and_line(content, message, tmp_path):
    (tmp_path / "t.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(RelposError, match=message):
        load(str(tmp_path / "t.yaml"))


def test_unknown_row_names_the_nearest():
    with pytest.raises(RelposError, match=r"unknown row 'compsite'. Did you mean 'composite'"):
        load("demo").select(["compsite"])


@pytest.mark.parametrize(
    "name",
    [
        "../../../x",
        "/etc/passwd",
        "a\\\\b",
        "a\\0b",
        "a\\nb",
        "a\\e[2J",
        "a" * 101,
        "a\\u202eb",
        "",
        "a ",
    ],
)
def test_a_name_that_is_a_path_or_cannot_be_printed_is_refused(name, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        f'question: why\nrows: {{"{name}": [position=none]}}\ntasks: []\n'
    )
    with pytest.raises(RelposError, match=r"mine\.yaml:.*( without / and|a control character)"):
        load(str(tmp_path / "mine.yaml"))


@pytest.mark.parametrize(
    "printed",
    ["/proc/self/mem", "/dev/zero", "../secret.csv", "link.csv", "there/../../secret.csv"],
)
def test_printed_numbers_lie_beside_the_experiment(printed, tmp_path):
    folder = tmp_path / "received"
    folder.mkdir()
    (tmp_path / "secret.csv").write_text("row,cola\nnone,1\n")
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "mine.yaml").write_text(
        f"question: '?'\nrows: {{none: [position=none]}}\ntasks: []\nprinted: {printed}\n"
    )
    with pytest.raises(
        RelposError, match=r"table mine: printed: .* lies outside the folder of the experiment file"
    ):
        printed_numbers(load(str(folder / "mine.yaml")))


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", b"\xff\xfe\n", b"row,cola\nnone,1,2\n", b"row\n" + b"x" * 200_000]
)
def test_printed_numbers_that_are_no_table_are_named(content, tmp_path):
    csv.field_size_limit(131_072)  # Python's own, whatever a reader that is still open has set
    (tmp_path / "numbers.csv").write_bytes(content)
    (tmp_path / "mine.yaml").write_text(
        "question: '?'\nrows: {none: [position=none]}\ntasks: []\nprinted: numbers.csv\n"
    )
    with pytest.raises(RelposError, match=r"numbers\.csv is no CSV with a column 'row'"):
        printed_numbers(load(str(tmp_path / "mine.yaml")))
