"""Columns about order: `order: [shuffle, pairs]` in an experiment file."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from linked import TINY, link_runs
from relpos.analysis.resampling import mean_interval
from relpos.cli import main
from relpos.errors import RelposError
from relpos.measures.measure import measured_columns
from relpos.measures.sample import Sample
from relpos.results.values import Value, figure_values
from relpos.runs.run import runs_root
from relpos.runs.table_file import read_table
from relpos.tables.experiment import load
from relpos.tables.measurements import instrument
from relpos.tables.plan import plan_table
from relpos.tables.rows import order_columns, rows_of
from relpos.tables.table import Column, Table


def write(folder: Path, **changes: Any) -> Path:
    """An experiment of two networks, each trained for two steps with two seeds."""
    content: dict[str, Any] = {
        "question": "does it know?",
        "rows": {"none": ["position=none"], "absolute": ["position=absolute"]},
        "stages": {
            "pretrain": [*TINY, "snapshots=[50]"],
            "order": ["examples=20", "pairs.limit=4"],
            "order_snapshots": ["pairs.limit=3", "pairs.others=0"],
        },
        "tasks": [],
        "order": ["shuffle", "pairs"],
        "pretrain_seeds": [0, 1],
    }
    path = folder / "ordered.yaml"
    path.write_text(yaml.safe_dump(content | changes, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def runs(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs folder after the table was made."""
    root = tmp_path_factory.mktemp("ordered")
    link_runs(prepared, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELPOS_RUNS", str(root))
        assert main(["reproduce", f"table={write(root)}", "engine=debug"]) == 0
    return root


def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, this process fails when it measures a network."""
    monkeypatch.setattr(Sample, "model", property(lambda _: pytest.fail("measured again")))


def reproduce(runs: Path, *words: str) -> int:
    return main(["reproduce", f"table={runs / 'ordered.yaml'}", *words])


def table_in(root: Path) -> Table:
    return read_table(root / "tables" / "ordered", Table)


@pytest.fixture
def table(runs: Path) -> Table:
    return table_in(runs)


def test_a_network_without_positions_shows_that_it_knows_no_order(table):
    columns = table.row("none").columns
    assert list(columns) == ["shuffle_gap", "same_word_pairs", "other_pairs"]
    assert columns["shuffle_gap"].mean == pytest.approx(0, abs=1e-5)
    assert (columns["same_word_pairs"].mean, columns["same_word_pairs"].sem) == (50.0, 0.0)


def test_every_pre_training_gives_one_value(table):
    for column in table.row("absolute").columns.values():
        assert (column.seeds, len(column.values), column.n_missing) == ([(0, 0), (1, 0)], 2, 0)
        assert column.sem is not None
        assert column.interval is not None


def test_the_interval_over_few_pre_trainings_is_that_of_the_t_distribution(table):
    column = table.row("absolute").columns["other_pairs"]
    half = 12.706 * column.sem
    ends = max(column.mean - half, 0), min(column.mean + half, 100)
    assert column.interval == pytest.approx(ends, rel=1e-3)


def made_results(seed: int, n: int = 40) -> dict[str, Any]:
    """Results of a network that knows 0.5 nats and nine in ten pairs, give or take."""
    chance = np.random.default_rng(seed)
    gaps = chance.normal(0.5, 0.2, n) * 10
    marks = "".join(map(str, (chance.random(n) < 0.9).astype(int)))
    accuracy = 100 * marks.count("1") / n
    pooled = {
        "accuracy": accuracy,
        "interval": [accuracy - 9, accuracy + 9],
        "n": n,
        "ties_right": accuracy,
        "guess": 50.0,
    }
    return {
        "shuffle_gap": {"all": gaps.sum() / (10 * n)},
        "shuffle_gap_intervals": {"all": [0.4, 0.6]},
        "by_example": {"predicted": [10] * n, "all": gaps.tolist()},
        "pairs": {"same_words": pooled, "others": {"accuracy": None, "interval": None, "n": 0}},
        "answers": {"same_words": {"a": marks}, "others": {}},
    }


def made_column(name: str, results: list[dict[str, Any]]) -> Column:
    """The column of pre-trainings with these results, and seeds from 0."""
    measure, kind = measured_columns()[name]
    values: list[Value] = []
    for seed, of_seed in enumerate(results):
        base = Value(Path(), "pretrain", "", 0.0, pretrain_seed=seed)
        values += figure_values(base, measure, of_seed)
    return order_columns([kind], values, ["finished"] * len(results))[name]


@pytest.mark.parametrize("name", ["shuffle_gap", "same_word_pairs"])
def test_the_interval_over_five_pre_trainings_is_over_these_and_their_examples(name):
    column = made_column(name, [made_results(seed) for seed in range(5)])
    low, high = column.interval or (0, 0)
    assert low < column.mean < high <= 100
    assert column.majority == (50 if name == "same_word_pairs" else None)  # what guessing gives
    # the spread of the seeds is none, that of the examples stays
    same = made_column(name, [made_results(0)] * 5)
    assert same.interval == (
        (0.4, 0.6) if name == "shuffle_gap" else (same.mean - 9, same.mean + 9)
    )


def test_an_interval_over_five_pre_trainings_is_of_all_of_them_where_some_have_kept_no_examples():
    results = [
        made_results(seed) | {"shuffle_gap": {"all": 0.3 + 0.1 * seed}, "by_example": {}}
        for seed in range(4)
    ]
    # the last one alone is about 0.5
    column = made_column("shuffle_gap", [*results, made_results(4)])
    assert column.interval == mean_interval(column.values)


def test_the_columns_about_order_have_no_mean(runs):
    head = (runs / "tables" / "ordered" / "table.md").read_text(encoding="utf-8").splitlines()[4]
    assert (
        head
        == "| row | parameters | perplexity | n | shuffle gap | same-word pairs | other pairs |"
    )
    assert "mean of" not in (runs / "tables" / "ordered" / "table.html").read_text(encoding="utf-8")


def test_nothing_is_measured_twice(runs, monkeypatch):
    monkeypatch.setenv("RELPOS_RUNS", str(runs))
    nothing_is_measured(monkeypatch)
    before = (runs / "tables" / "ordered" / "table.json").read_bytes()
    assert reproduce(runs) == 0
    assert (runs / "tables" / "ordered" / "table.json").read_bytes() == before


@pytest.fixture
def unmeasured(runs: Path, tmp_path: Path) -> Path:
    """A runs folder with the table's pre-trainings, and nothing measured."""
    link_runs(runs, tmp_path / "again")
    shutil.copytree(
        runs / "pretrain",
        tmp_path / "again" / "pretrain",
        ignore=shutil.ignore_patterns("claim.lock"),
    )
    return tmp_path / "again"


def figures(root: Path) -> dict[str, bytes]:
    """Every file with figures by its place below the runs folder."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.glob("order/*/results.json")
    }


@pytest.mark.full
def test_order_is_a_stage_that_can_be_left_for_later(unmeasured, runs, monkeypatch):
    monkeypatch.setenv("RELPOS_RUNS", str(unmeasured))
    words = ["rows=[none]", "order.examples=2", "engine=debug"]
    assert reproduce(runs, *words, "stages=[pretrain]") == 0
    assert not figures(unmeasured)
    assert reproduce(runs, *words, "stages=[order]") == 0
    assert table_in(unmeasured).rows[0].columns["shuffle_gap"].mean == pytest.approx(0, abs=1e-5)


@pytest.mark.full
def test_networks_measured_side_by_side_have_the_same_figures_to_the_last_bit(
    runs, unmeasured, python, monkeypatch
):
    monkeypatch.setenv("RELPOS_RUNS", str(unmeasured))
    nothing_is_measured(monkeypatch)
    assert reproduce(runs, "workers=2", "rows=absolute") == 0
    assert figures(unmeasured) == {
        place: content for place, content in figures(runs).items() if "-absolute-" in place
    }
    values, before = (
        {name: column.values for name, column in table_in(root).row("absolute").columns.items()}
        for root in (unmeasured, runs)
    )
    assert values == before


def test_a_network_that_cannot_be_measured_fails_by_measure_and_the_others_are_measured(
    runs, unmeasured, python, monkeypatch, capsys
):
    monkeypatch.setenv("RELPOS_RUNS", str(unmeasured))
    first, second = sorted((unmeasured / "pretrain").glob("none*"))
    for run in (first, second):
        shutil.rmtree(run / "snapshots")
    (first / "model" / "model.safetensors").unlink()
    words = [
        "order_snapshots.examples=20",
        "order_snapshots.pairs.limit=4",
        "order_snapshots.pairs.others=null",
    ]
    assert reproduce(runs, "workers=2", "rows=none", *words) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [
        line.partition(" failed: no model in")[0] for line in lines if "relpos: order" in line
    ] == [f"relpos: order {measure}-{first.name}" for measure in ("shuffle", "pairs")]
    columns = table_in(unmeasured).row("none").columns
    assert [(column.seeds, column.n_missing) for column in columns.values()] == [([(1, 0)], 1)] * 3


def test_an_override_of_the_command_line_reaches_the_measurement(tmp_path):
    chosen = instrument(
        load(str(write(tmp_path))), ["order.examples=7", "order.pairs.limit=3", "pretrain.steps=9"]
    )
    shuffle, pairs = (measure.meaning(toy=True) for measure in chosen.measures)
    assert (shuffle["examples"], pairs["pairs"]["limit"]) == (7, 3)


def test_pre_trainings_that_are_not_finished_are_missing(tmp_path):
    experiment = load(str(write(tmp_path)))
    row = rows_of(plan_table(experiment), instrument(experiment))[0]
    assert [(column.mean, column.n_missing) for column in row.columns.values()] == [(None, 2)] * 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": ["shufle"]}, "order: unknown measure 'shufle'. Did you mean 'shuffle'"),
        ({"order": []}, "stages.order: nothing is measured without the key order"),
    ],
)
def test_wrong_keys_about_order_are_refused_when_the_file_is_read(changes, message, tmp_path):
    with pytest.raises(RelposError, match=message):
        load(str(write(tmp_path, **changes)))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("order.measure=shuffle", "order.measure=shuffle: not a dial of a table"),
        ("order.examples=0", "examples=0: a whole number of 1 or more is expected"),
        ("order.pairs=zoro", "unknown pairs 'zoro'. Did you mean 'zorro'"),
    ],
)
def test_a_wrong_override_is_one_line_before_any_run(override, message, tmp_path):
    with pytest.raises(RelposError, match=message):
        instrument(load(str(write(tmp_path))), [override])


@pytest.mark.parametrize(
    ("order", "override"),
    [
        (None, "order.examples=7"),
        (None, "order_snapshots.examples=7"),
        (["shuffle"], "order_snapshots.threads=1"),
    ],
)
def test_an_override_of_a_stage_that_the_table_has_not_is_refused(order, override, tmp_path):
    experiment = load(str(write(tmp_path, stages={"pretrain": TINY}, order=order)))
    with pytest.raises(
        RelposError,
        match=f"{override}: nothing is measured without {override.partition('.')[0]}: in the file",
    ):
        instrument(experiment, [override])


def test_pairs_that_cannot_be_read_are_refused_before_any_run(tmp_path, capsys):
    (tmp_path / "odd.txt").write_text("a b .\nb a .\nc d .\n", encoding="utf-8")
    overrides = [f"order.pairs.path={tmp_path / 'odd.txt'}", "order.pairs=files"]
    assert main(["reproduce", f"table={write(tmp_path)}", *overrides]) == 1
    assert "odd.txt, line 3: an odd number of lines" in capsys.readouterr().err
    assert not (runs_root() / "pretrain").exists()


def test_snapshots_are_measured_beside_the_end_with_dials_of_their_own(table):
    row = table.row("absolute")
    assert (row.columns["same_word_pairs"].examples, row.columns["other_pairs"].examples) == (
        28,
        24,
    )
    assert list(row.snapshots) == [50, 100]
    for then in row.snapshots.values():
        assert list(then) == ["heldout_loss", "shuffle_gap", "same_word_pairs", "other_pairs"]
        assert (then["same_word_pairs"].examples, then["same_word_pairs"].seeds) == (
            21,
            [(0, 0), (1, 0)],
        )
        assert then["other_pairs"].mean is None
    assert row.snapshots[100]["shuffle_gap"].values == row.columns["shuffle_gap"].values


def test_a_table_with_snapshots_shows_their_course(runs):
    folder = runs / "tables" / "ordered"
    text = (folder / "table.md").read_text(encoding="utf-8")
    assert "| shuffle gap at per cent of the steps | 50 % | 100 % |" in text
    assert "| none | 0.000 ± 0.000 | 0.000 ± 0.000 |" in text
    assert (folder / "snapshots.png").read_bytes().startswith(b"\x89PNG")


def test_snapshots_that_nobody_keeps_are_refused_before_any_run(tmp_path):
    experiment = load(
        str(write(tmp_path, stages={"pretrain": TINY, "order_snapshots": ["examples=2"]}))
    )
    with pytest.raises(
        RelposError, match=r"row 'none': stages.order_snapshots: no snapshots are kept; name some"
    ):
        instrument(experiment, [], plan_table(experiment))
