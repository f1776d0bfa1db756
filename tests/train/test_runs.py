"""Training runs, small but real: the step, the loggers, the surface for notebooks."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import relpos
from relpos.data.store import Store
from relpos.errors import RelposError
from relpos.runs import Run, execute, plan
from relpos.runs.cost import flops, forward
from relpos.train.pretrain import PretrainingData

TINY = ["steps=3", "batch=8", "log_every=1", "evaluations=1", "data.pairs=64"]


def test_an_update_does_not_depend_on_how_it_is_cut(toy_runs: Path) -> None:
    losses = []
    for cut in (8, 2):
        run = relpos.run(relpos.compose("pretrain", [*TINY, f"microbatch={cut}", "size.dropout=0", "size.attention_dropout=0"]))
        lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
        losses.append([line["loss"] for line in lines if "loss" in line])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_rows_of_a_table_differ_in_nothing_but_the_position() -> None:
    models = []
    for position in ("none", "absolute", "composite"):
        torch.manual_seed(7)
        models.append(dict(relpos.build(relpos.compose("params", ["size=tiny", f"position={position}"])).named_parameters()))
    for other in models[1:]:
        assert all(torch.equal(models[0][name], other[name]) for name in models[0])


def test_two_stages_read_short_text_first_and_go_on_where_they_stopped(toy_runs: Path) -> None:
    words = ["packing=document", "length=64", "batch=2", "steps=5", "first.share=0.6", "first.length=16", "first.batch=8"]
    run = plan(relpos.compose("pretrain", words))
    store = Store(execute(run.inputs["store"]).path)
    dials = {key: run.config[key] for key in ("seed", "steps", "batch", "microbatch", "length", "packing", "pairs", "first")}

    def read(start: int) -> list[tuple[int, int, int]]:
        data = PretrainingData(store, **dials)
        data.trainer = SimpleNamespace(global_step=start)  # type: ignore[assignment]
        return [
            (step.index, sum(len(part.input_ids) for part in step.microbatches), step.microbatches[0].input_ids.shape[1])
            for step in data.train_dataloader()
        ]

    whole = read(0)
    assert whole == [(0, 8, 16), (1, 8, 16), (2, 8, 16), (3, 2, 64), (4, 2, 64)]
    assert [read(start) for start in range(6)] == [whole[start:] for start in range(6)]
    assert flops(run) == pytest.approx(3 * (3 * 8 * 16 * rate(run, 16) + 2 * 2 * 64 * rate(run, 64)))


def rate(run: Run, length: int) -> float:
    return forward(run.meaning["size"], length, run.inputs["tokenizer"].config["vocabulary"])


def test_the_surface_for_notebooks(toy_runs: Path) -> None:
    cfg = relpos.compose("pretrain", [*TINY, "position=composite", "snapshots=[1,100]"])
    run = relpos.run(cfg)
    model, tokenizer = relpos.load(run.path)
    ids = torch.tensor([[tokenizer.cls, *tokenizer.encode(["the dog sleeps"])[0], tokenizer.sep]])
    assert model(ids).shape == (1, ids.shape[1], tokenizer.size)
    assert run.metrics["parameters"] == sum(p.numel() for p in model.parameters())
    assert run.metrics["perplexity"] > 1
    assert {path.stem for path in (run.path / "snapshots").iterdir()} == {"1", "100"}
    assert (run.path / "figures" / "kernels.png").exists()


def test_fine_tuning_from_a_model_folder(toy_runs: Path, tmp_path: Path) -> None:
    pretrained = relpos.run(relpos.compose("pretrain", [*TINY, "position=fixed"]))
    words = ["task=rte", "intermediate=none", "steps=2", f"from={pretrained.path / 'model'}"]
    run = relpos.run(relpos.compose("finetune", words))
    assert set(run.metrics["columns"]) == {"rte"}
    assert (run.path / "predictions" / "RTE.tsv").read_text().startswith("index\tprediction\n")
    model, _ = relpos.load(run.path)
    assert type(model).__name__ == "Classifier"


def test_a_model_of_another_shape_is_refused_by_name(toy_runs: Path, tmp_path: Path) -> None:
    run = relpos.run(relpos.compose("pretrain", [*TINY, "position=fixed"]))
    config = run.path / "model" / "config.yaml"
    config.write_text(config.read_text().replace("ffn: 256", "ffn: 128"))
    with pytest.raises(RelposError, match="model.safetensors: '.*' has shape"):
        relpos.load(run.path)


def test_a_model_folder_cannot_call_just_anything(toy_runs: Path) -> None:
    run = relpos.run(relpos.compose("pretrain", [*TINY, "position=fixed"]))
    config = run.path / "model" / "config.yaml"
    config.write_text(config.read_text().replace("relpos.model.position.Fixed", "torch.nn.Linear"))
    with pytest.raises(RelposError, match="torch.nn.Linear is not a"):
        relpos.load(run.path)


def test_tensorboard(toy_runs: Path) -> None:
    run = relpos.run(relpos.compose("pretrain", [*TINY, "position=fixed", "logger=tensorboard"]))
    assert list(run.path.rglob("events.out.tfevents.*"))


def test_wandb_offline_under_our_own_identity(toy_runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / name.lower()))
    run = relpos.run(relpos.compose("pretrain", [*TINY, "position=fixed", "logger=wandb"]))
    assert list(run.path.rglob(f"run-{run.identity}.wandb"))
