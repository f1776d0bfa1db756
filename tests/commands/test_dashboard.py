"""Weights & Biases: what a table's runs log offline reads back exactly, and the workspace is built
without network or key."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

import wandb_file
from relpos.cli import main
from relpos.commands import dashboard
from relpos.config.compose import compose
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import Run
from relpos.runs.shelf import logged
from relpos.tables import experiment
from relpos.tables.plan import plan_table
from relpos.tables.table import Table, written
from relpos.train.pretrain import Pretraining
from tables.small_data import write_data, write_experiment
from tables.written_table import table, write


@dataclass
class Result:
    """A finished run, and what Weights & Biases has of it."""

    run: Run
    path: Path
    metrics: dict[str, Any]
    wandb: dict[str, Any]

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls(run, run.path, run.metrics, offline(run.path))


def offline(folder: Path) -> dict[str, Any]:
    """The last offline run below a folder, closed. Closing returns a moment before the file is
    whole."""
    *_, path = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
    deadline = time.monotonic() + 400
    while not (content := wandb_file.read(path))["finished"]:
        assert time.monotonic() < deadline, f"{path} was not closed"
        time.sleep(0.1)
    return content


def history(result: Result) -> list[dict[str, Any]]:
    """The rows that `metrics.jsonl` has too, in its form. The names of a fine-tuning's metrics begin
    with its stage."""
    prefix = "" if result.run.stage == "pretrain" else f"{result.run.stage}-"
    rows = [
        {key: value for key, value in row.items() if key[0] != "_"}
        for row in result.wandb["history"]
    ]
    rows = [row for row in rows if not any(key.startswith("kernels") for key in row)]
    return [
        {"step": row.pop("trainer/global_step")}
        | {key.removeprefix(prefix): row[key] for key in row if key.startswith(prefix)}
        for row in rows
    ]


SMALL = [
    "data=files",
    "size=tiny",
    "size.hidden=16",
    "size.embedding=16",
    "size.ffn=16",
    "logger=wandb",
    "log_every=1",
]


def beside_runs(patch: pytest.MonkeyPatch, root: Path) -> None:
    """Runs are made in this folder, of the data beside it, and logged offline."""
    for name, value in (("RUNS", root), ("DATA", root.parent / "data")):
        patch.setenv(f"RELPOS_{name}", str(value))
    patch.setenv("WANDB_MODE", "offline")
    patch.delenv("WANDB_API_KEY", raising=False)


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, drawing: Callable[..., None]
) -> Iterator[list[Result]]:
    """The runs of a table of two rows, each a pre-training and a fine-tuning, made one after the
    other in this process, as a worker makes them."""
    folder = tmp_path_factory.mktemp("made")
    write_data(folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        drawing(patch)
        beside_runs(patch, folder / "runs")
        rows = {"fixed": ["position=fixed", "k=2"], "both": ["position=absolute_tisa"]}
        path = write_experiment(folder, base=SMALL, rows=rows, tasks=["cola"])
        yield [
            Result.of(execute(run))
            for row in plan_table(experiment.load(str(path)))
            for run in (row.pretrainings[0], row.tunings[0].run)
        ]


@pytest.fixture
def beside(results: list[Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """More runs are made where those of the table are."""
    beside_runs(monkeypatch, results[0].path.parents[1])


@pytest.fixture(scope="module")
def sections(results: list[Result]) -> dict[str, list[Any]]:
    """What `relpos dashboard` makes of the table of these runs: name of a section → kind and
    configuration of its panels."""
    pytest.importorskip("wandb_workspaces", reason="wandb-workspaces is not installed")
    root = results[0].path.parents[1]
    with pytest.MonkeyPatch.context() as patch:
        beside_runs(patch, root)
        assert main(["reproduce", f"table={root.parent / 'small.yaml'}"]) == 0
        bank = built(written("small")[1])["panelBankConfig"]
    return {
        section["name"]: [(panel["viewType"], panel["config"]) for panel in section["panels"]]
        for section in bank["sections"]
    }


def built(shown: Table) -> dict[str, Any]:
    """The workspace of a table, as it is sent."""
    model = (
        dashboard.build(shown, "relpos", "me")
        ._to_model()
        .model_dump_json(by_alias=True, exclude_none=True)
    )
    section: dict[str, Any] = json.loads(model)["spec"]["section"]
    return section


def test_the_runs_of_a_table_share_its_group(results):
    rows = [("fixed", "fixed")] * 2 + [("both", "absolute_tisa")] * 2
    for result, (row, scheme) in zip(results, rows, strict=True):
        keys = {"table": "small", "row": row, "scheme": scheme, "stage": result.run.stage}
        fields = {"id": result.run.identity, "name": result.path.name, "group": "small"}
        record = result.wandb["run"]
        assert (fields | {"type": result.run.stage}).items() <= record.items()
        assert sorted(record["tags"]) == sorted({*keys.values()})  # no tag twice
        assert keys.items() <= record["config"].items()


def test_the_logged_configuration_is_the_meaning_of_the_run(results):
    for result in results:
        meaning = json.loads(json.dumps(result.run.meaning))
        config = result.wandb["run"]["config"]
        assert config | meaning == config
        # The pieces that the text yields, and not as many as were asked for.
        assert config["data"]["_target_"] == "relpos.data.source.Files"
        assert config["vocabulary"] == 30


def test_the_workspace_has_its_panels_with_what_the_runs_logged(results, sections):
    assert {
        name: [(kind, config.get("chartTitle")) for kind, config in panels]
        for name, panels in sections.items()
    } == {
        "Curves by row": [
            ("Run History Line Plot", "held-out loss"),
            ("Run History Line Plot", "training loss"),
        ],
        "Columns by row: mean and standard error": [
            ("Bar Chart", "perplexity"),
            ("Bar Chart", "CoLA"),
        ],
        "Kernels": [("Media Browser", "kernels")],
        "The table": [("Markdown Panel", None)],
    }
    stages = dict.fromkeys(["heldout_loss", "loss", "perplexity"], "pretrain")
    stages["cola"] = "finetune"
    for _, curve in sections["Curves by row"]:
        assert (curve["xAxis"], curve["groupBy"]) == ("trainer/global_step", "row.value")
        (name,) = curve["metrics"]
        for result in results:
            rows = [row for row in result.wandb["history"] if name in row and curve["xAxis"] in row]
            # nothing else is averaged into a row's curve
            assert bool(rows) == (result.run.stage == stages[name])
    for _, bars in sections["Columns by row: mean and standard error"]:
        assert (bars["groupBy"], bars["groupArea"]) == ("row.value", "stderr")
        name = bars["metrics"][0].removeprefix("summary_metrics.")
        assert [name in result.wandb["summary"] for result in results] == [
            result.run.stage == stages[name] for result in results
        ]
    assert sections["Kernels"][0][1]["mediaKeys"] == ["kernels"]
    written = results[0].path.parents[1] / "tables/small/table.md"
    assert sections["The table"][0][1]["value"] == written.read_text(encoding="utf-8")


def test_the_history_is_what_was_logged(results):
    for result in results:
        assert len(logged(result.path)) >= 3
        assert history(result) == logged(result.path)  # to the last bit


@pytest.mark.full
@pytest.mark.usefixtures("beside")
def test_a_run_that_goes_on_has_its_whole_history(monkeypatch):
    run = plan(
        compose("pretrain", [*SMALL, "steps=5", "batch=8", "checkpoint_every=1", "position=none"])
    )
    step = Pretraining.training_step

    def stop(self: Pretraining, batch: Any, index: int) -> None:
        if batch.index == 3:
            raise KeyboardInterrupt
        step(self, batch, index)

    with monkeypatch.context() as patch:
        patch.setattr(Pretraining, "training_step", stop)
        with pytest.raises(KeyboardInterrupt):
            execute(run)
    time.sleep(1)  # the folder of a start has its second in its name
    result = Result.of(execute(run))
    assert [start["from_step"] for start in run.record["starts"]] == [0, 3]
    assert [row["step"] for row in logged(result.path) if "loss" in row] == [1, 2, 3, 4, 5]
    assert history(result) == logged(result.path)


def test_the_summary_has_the_final_figures(results):
    pretraining, tuning, *_ = results
    for name in ("perplexity", "parameters", "position_parameters"):
        assert pretraining.wandb["summary"][name] == pretraining.metrics[name]
    assert tuning.wandb["summary"]["cola"] == tuning.metrics["columns"]["cola"]
    assert "cola" not in pretraining.wandb["summary"]


def test_kernels_of_pre_trainings_are_logged_as_pictures(results):
    pretrainings = [result for result in results if result.run.stage == "pretrain"]
    assert len(pretrainings) == 2
    for result in pretrainings:
        (shown,) = [row for row in result.wandb["history"] if "kernels/_type" in row]
        assert shown["kernels/_type"] == "images/separated"  # what a media browser shows
        (name,) = shown["kernels/filenames"]
        assert name in result.wandb["files"]  # what `wandb sync` uploads
        (picture,) = result.path.glob(f"wandb/offline-run-*/files/{name}")
        assert picture.read_bytes() == (result.path / "figures/kernels.png").read_bytes()


def test_nothing_is_uploaded_but_figures_and_pictures(results):
    for result in results:
        assert result.wandb["artifacts"] == 0
        rows = result.wandb["history"]
        kinds = {row[key] for row in rows for key in row if key.endswith("_type")}
        media = result.path.glob("wandb/offline-run-*/files/media/**/*")
        assert kinds <= {"images/separated"}
        assert {path.suffix for path in media if path.is_file()} <= {".png"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A written table, no key, and no network."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)

    def refuse(*_: Any) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return write(tmp_path / "runs", table())


def test_without_a_key_nothing_is_uploaded(folder, refused):
    assert "nothing was uploaded: set WANDB_API_KEY, or type mode=online" in refused(
        "dashboard", "table=small"
    )


def test_runs_that_another_table_made_are_named(folder):
    first, second, *_ = table().rows
    for row, maker in ((first, "small"), (second, "other")):
        run = folder.parents[1] / row.runs[0].path
        run.mkdir(parents=True)
        (run / "config.yaml").write_text(f"steps: 3\ntable: {maker}\nrow: x\n", encoding="utf-8")
    assert dashboard.shared(table()) == [second.runs[0].identity]


def test_the_workspace_shows_the_runs_of_the_group_and_those_of_other_tables(monkeypatch):
    pytest.importorskip("wandb_workspaces", reason="wandb-workspaces is not installed")
    for identities, more in (([], []), (["abc"], [("name", ["abc"])])):
        monkeypatch.setattr(dashboard, "shared", lambda _, identities=identities: identities)
        filters = built(table())["runSets"][0]["filters"]["filters"]
        assert [(condition["key"]["name"], condition["value"]) for condition in filters] == [
            ("group", "small"),
            *more,
        ]


def test_with_a_key_the_workspace_is_uploaded(folder, monkeypatch, capsys):
    sent: list[Any] = []

    def upload(*arguments: Any) -> str:
        sent.append(arguments)
        return "https://the/workspace"

    monkeypatch.setattr(dashboard, "upload", upload)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert main(["dashboard", "table=small"]) == 1  # WANDB_MODE=offline, as in all tests
    assert sent == []
    monkeypatch.delenv("WANDB_MODE")
    capsys.readouterr()
    assert main(["dashboard", "table=small"]) == 0
    assert capsys.readouterr().out.strip() == "https://the/workspace"
    assert sent == [(table(), "relpos", None)]


@pytest.mark.parametrize(("overrides", "message"), [
    (["table=smal"], "Did you mean 'small'?"),
    (["table=small", "mode=maybe"], "mode=maybe: auto or online is expected"),
])  # fmt: skip
def test_a_wrong_override_of_a_dashboard_is_one_line(overrides, message, folder, refused):
    assert message in refused("dashboard", *overrides)
