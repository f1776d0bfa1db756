"""Training runs, small but real: the step, the loggers, the surface for notebooks."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import relpos
from interrupted import interrupt
from relpos.counter import fold
from relpos.data.steps import Step, Steps
from relpos.data.store import Store
from relpos.data.tokenizer import SEP
from relpos.errors import RelposError
from relpos.model.architecture import Size
from relpos.model.dropout import seed_dropout
from relpos.model.heads import MaskedLM
from relpos.runs.cost import costs, forward
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import Run
from relpos.runs.shelf import logged
from relpos.train import room
from relpos.train.checkpoint_files import newest
from relpos.train.loggers import JsonLines
from relpos.train.optim import Recipe
from relpos.train.pretrain import Pretraining, PretrainingData
from schemes import FULL

TINY = ["steps=3", "batch=8", "log_every=1", "evaluations=1", "data.pairs=64"]


def gradient(model: MaskedLM, step: Step, least: int) -> Tensor:
    """The gradient of one update, unclipped, every micro-batch padded to `least` tokens."""
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    for part in step.microbatches:
        width = max(0, least - part.input_ids.shape[1])
        ids, labels = (
            functional.pad(part.input_ids, (0, width)),
            functional.pad(part.labels, (0, width), value=-100),
        )
        seed_dropout(model, fold(3, step.index), part.keys)
        loss, _, _ = model.loss_sum(ids, labels, functional.pad(part.attention_mask, (0, width)))
        (loss / step.chosen).backward()
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()
    return gradients


CUT = ["composite-none", "shaw-convbert", "absolute-lightconv"]
ALSO_CUT = ["none-none", "tupe-none", "rope-none", "none-lightconv", "composite-convbert"]


@pytest.mark.parametrize("pair", [*CUT, *(ALSO_CUT if FULL else [])])
def test_an_update_does_not_depend_on_how_it_is_cut_or_padded(prepared, pair):
    """With dropout: an example has its own, in whatever forward pass it stands. RELPOS_FULL=1 tries
    more pairs."""
    position, conv = pair.split("-")
    torch.manual_seed(0)
    model = relpos.build(
        relpos.compose(
            "params", ["size=tiny", f"position={position}", f"conv={conv}", "vocabulary=232"]
        )
    )
    model.double().train()
    examples = Store(next((prepared / "store").iterdir())).examples("train", "pair", 128, 500)
    cuts = {
        microbatch: Steps(examples, 0, 24, microbatch, 232).step(2)
        for microbatch in (1, 16, 64, 128)
    }
    assert len(cuts[1].microbatches) > len(cuts[16].microbatches)
    whole = gradient(model, cuts[64], 0)
    assert float(whole.norm()) > 0.1
    for microbatch, least in ((1, 0), (16, 0), (128, 0), (64, 128)):
        assert (
            float((gradient(model, cuts[microbatch], least) - whole).norm() / whole.norm()) < 1e-9
        )


def test_a_run_that_goes_on_keeps_its_micro_batch(toy_runs, monkeypatch):
    run = plan(relpos.compose("pretrain", TINY))
    interrupt(run, 2)
    monkeypatch.setattr(room, "CPU_TOKENS", 256)
    execute(run)
    assert [start["microbatch"] for start in run.record["starts"]] == [16, 16]


@pytest.mark.parametrize(
    ("command", "overrides"),
    [
        ("pretrain", ["steps=30", "data.pairs=64"]),
        ("finetune", ["task=rte", "intermediate=none", "steps=30"]),
    ],
)
def test_a_run_that_diverges_fails_in_one_line_and_keeps_its_checkpoint(
    toy_runs, command, overrides
):
    if command == "finetune":
        overrides = [*overrides, f"network={relpos.run(relpos.compose('pretrain', TINY)).path}"]
    diverging = [
        "recipe.lr=1e30",
        "recipe.warmup=3",
        "batch=8",
        "checkpoint_every=1",
        "log_every=50",
    ]
    cfg = relpos.compose(command, [*overrides, *diverging])
    run = plan(cfg)
    with pytest.raises(
        RelposError,
        match=r"training diverged after \d+ steps: .* is (nan|inf); try a lower recipe.lr",
    ):
        execute(run)
    assert run.state == "failed"
    kept = newest(run.path / "checkpoint")
    assert all(
        bool(value.isfinite().all())
        for value in torch.load(kept, weights_only=True)["state_dict"].values()
    )


def test_rows_of_a_table_differ_in_nothing_but_the_position():
    models = []
    for position in ("none", "absolute", "composite"):
        torch.manual_seed(7)
        model = relpos.build(relpos.compose("params", ["size=tiny", f"position={position}"]))
        models.append(dict(model.named_parameters()))
    for other in models[1:]:
        assert all(torch.equal(models[0][name], other[name]) for name in models[0])


def data_of(run: Run, start: int = 0) -> Any:
    """The data of a run whose trainer is at a step."""
    store = Store(execute(run.inputs["store"]).path)
    keys = ("seed", "steps", "batch", "length", "packing", "pairs", "first")
    data = PretrainingData(store, **{key: asdict(run.config)[key] for key in keys}, microbatch=16)
    data.trainer = SimpleNamespace(global_step=start)  # type: ignore[assignment]
    return data


def test_two_stages_read_short_text_first_and_go_on_where_they_stopped(toy_runs):
    overrides = [
        "packing=document",
        "length=64",
        "batch=2",
        "steps=5",
        "first.share=0.6",
        "first.length=16",
        "first.batch=8",
    ]
    run = plan(relpos.compose("pretrain", overrides))

    def read(start: int) -> list[tuple[int, int, int]]:
        return [
            (
                step.index,
                sum(len(part.input_ids) for part in step.microbatches),
                step.microbatches[0].input_ids.shape[1],
            )
            for step in data_of(run, start).train_dataloader()
        ]

    whole = read(0)
    assert whole == [(0, 8, 16), (1, 8, 16), (2, 8, 16), (3, 2, 64), (4, 2, 64)]
    assert [read(start) for start in range(6)] == [whole[start:] for start in range(6)]
    assert costs(run)["flops"] == pytest.approx(
        3 * (3 * 8 * 16 * rate(run, 16) + 2 * 2 * 64 * rate(run, 64))
    )


def test_the_first_of_two_stages_may_read_pairs_and_the_other_documents(toy_runs):
    dials = ["packing=document", "length=64", "steps=4", "batch=2", "first.share=0.5"]
    mixed = plan(relpos.compose("pretrain", [*dials, "first.length=32", "first.packing=pair"]))
    alike = plan(relpos.compose("pretrain", [*dials, "first.length=32", "first.packing=document"]))
    assert mixed.meaning["first"]["packing"] == "pair"
    assert "packing" not in alike.meaning["first"]  # as the identities of such runs have it
    data = data_of(mixed)
    parts = [step.microbatches[0].input_ids for step in data.train_dataloader()]
    assert [int((ids == SEP).sum()) for ids in parts] == [4, 4, 2, 2]
    assert data.heldout.length == 64


def rate(run: Run, length: int) -> float:
    vocabulary = run.inputs["tokenizer"].config.vocabulary
    return forward(Size(**run.meaning["size"]), length, vocabulary, 0.15)


def test_the_surface_for_notebooks(toy_runs, drawing, monkeypatch):
    drawing(monkeypatch)
    cfg = relpos.compose("pretrain", [*TINY, "position=composite", "snapshots=[1,100]"])
    run = relpos.run(cfg)
    model, tokenizer = relpos.load(run.path)
    ids = torch.tensor([[tokenizer.cls, *tokenizer.encode(["the dog sleeps"])[0], tokenizer.sep]])
    assert model(ids).shape == (1, ids.shape[1], tokenizer.size)
    assert run.metrics["parameters"] == sum(p.numel() for p in model.parameters())
    assert run.metrics["perplexity"] > 1
    assert run.record["starts"][-1]["kernels"] == ["fused"]
    assert {path.stem for path in (run.path / "snapshots").iterdir()} == {"1", "100"}
    assert (run.path / "figures" / "kernels.png").exists()


def test_a_model_of_another_shape_is_refused_by_name(model_folder):
    config = (model_folder / "config.yaml").read_text()
    (model_folder / "config.yaml").write_text(config.replace("ffn: 256", "ffn: 128"))
    with pytest.raises(RelposError, match="model.safetensors: '.*' has shape"):
        relpos.load(model_folder)


def test_without_a_predicted_token_the_held_out_loss_is_refused_and_that_of_a_line_is_0():
    module = Pretraining(
        nn.Linear(1, 1), Recipe(lr=1e-3, warmup=0), steps=10, seed=3, precision="fp32", log_every=10
    )
    module.on_validation_epoch_start()
    with pytest.raises(RelposError, match="^data: no token of the held-out text is predicted"):
        module.on_validation_epoch_end()
    assert (
        module.averages(
            {"loss": 0.0, "correct": 0.0, "chosen": 0.0, "tokens": 8.0, "seconds": 1.0}
        )["loss"]
        == 0
    )


def test_the_logged_rate_is_that_of_the_step(toy_runs):
    run = relpos.run(relpos.compose("pretrain", [*TINY, "recipe.warmup=2"]))
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], run.meaning["recipe"]["lr"])
    scheduler = Recipe.of(run.meaning["recipe"]).scheduler(optimizer, 3)
    expected = []
    for _ in range(3):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert [line["learning_rate"] for line in logged(run.path) if "loss" in line] == expected


def test_a_damaged_line_of_the_log_is_cut(tmp_path):
    lines = ['{"step": 1}\n', '\0\0{"st}\n', "{}\n", '{"step": 2}\n', '{"step": 3}\n']
    (tmp_path / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    JsonLines(tmp_path / "metrics.jsonl", step=2)
    assert (tmp_path / "metrics.jsonl").read_text(encoding="utf-8") == lines[0] + lines[3]


def test_tensorboard(toy_runs):
    run = relpos.run(relpos.compose("pretrain", [*TINY, "position=fixed", "logger=tensorboard"]))
    assert list(run.path.rglob("events.out.tfevents.*"))


def test_wandb_offline_under_our_own_identity(toy_runs, monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / name.lower()))
    run = relpos.run(relpos.compose("pretrain", [*TINY, "position=fixed", "logger=wandb"]))
    assert list(run.path.rglob(f"run-{run.identity}.wandb"))
