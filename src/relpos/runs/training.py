"""A training, of whatever stage: where a start begins, with what it computes, Lightning's trainer,
and what is left behind."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments import LightningEnvironment
from pytorch_lightning.loggers import Logger
from pytorch_lightning.profilers import AdvancedProfiler, SimpleProfiler

from relpos.config.schema import WATCHING, TrainingConfig
from relpos.errors import RelposError, say, with_class
from relpos.model.architecture import Architecture, scheme_name
from relpos.model.attention import kernels_used
from relpos.model.encoder import Encoder
from relpos.model.precision import has_bf16
from relpos.process import ASKED, set_threads
from relpos.readers import read_yaml
from relpos.runs import trunk
from relpos.runs.run import TrainingRun
from relpos.runs.shelf import LOGGED, SNAPSHOTS, logged, made_from
from relpos.train.checkpoint import (
    Checkpointing,
    EvaluatedFirst,
    Kept,
    Snapshots,
    WholeCheckpoints,
    stopping,
)
from relpos.train.checkpoint_files import newest
from relpos.train.group import LONG, Group
from relpos.train.loggers import Bar, JsonLines, identified, log_again, logger_of
from relpos.train.module import Training
from relpos.train.prefetch import StepsData
from relpos.train.pretrain import Pretraining
from relpos.train.recorded import CudaGraphs, Recorder
from relpos.train.room import explained_memory, fitting_microbatch
from relpos.trust import instantiate

for noisy in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
    logging.getLogger(noisy).setLevel(logging.ERROR)
# advice about workers and loggers
warnings.filterwarnings("ignore", module=r"pytorch_lightning|lightning_fabric")


def fit(run: TrainingRun, module: Training, data: StepsData) -> pl.Trainer:
    """Trains from the newest checkpoint, or from the beginning, to the last step, behind which a
    pre-training is evaluated. Of several processes the first one writes."""
    group, config, microbatch = module.group, run.config, data.steps.microbatch
    # Without callbacks nobody reads the scores of a fine-tuning on the way; those at the end follow.
    evaluations = config.evaluations if run.is_pretraining or config.callbacks else 0
    every = max(1, module.steps // evaluations) if evaluations else 0
    # the step at which the run keeps a trunk for other runs; None: none can begin there
    keeps = run.last_constant_step() if group.world == 1 else None

    def note_memory(examples: int) -> None:
        if group.first:
            run.note_start(out_of_memory=examples)

    checkpoint, step = _start(run, module, microbatch, keeps)
    trainer = _trainer(run, module, every, step, keeps)
    if isinstance(module, Pretraining) and step:
        _restore_evaluation(run, module, trainer, every, step)
    if group.first:
        # only now has the trainer chosen the device
        tell_of_precision(config.precision, trainer.strategy.root_device)
    started = time.perf_counter()
    worked = time.process_time()
    most = -(-max(batch for _, batch, _ in config.shapes) // group.world)
    try:
        restoring = _restoring(checkpoint, module)
        with restoring, stopping(), explained_memory(microbatch, most, note=note_memory):
            trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
    finally:
        # For a start that failed, too: an attention kernel may be why.
        if group.first and (used := kernels_used(module.model)):
            # the first error is the one to show
            with suppress(RelposError) if sys.exc_info()[0] else nullcontext():
                run.note_start(kernels=used)
    if group.first:
        # Of the last start alone, since one that is interrupted does not come here; an estimate
        # reads runs of a single start only.
        run.update(
            fit_seconds=round(time.perf_counter() - started, 2),
            fit_cpu_seconds=round(time.process_time() - worked, 2),
        )
    # no evaluation was due after the last step, or this process began behind it
    if isinstance(module, Pretraining) and module.evaluated != trainer.global_step:
        with stopping():
            trainer.validate(module, data, verbose=False)
    return trainer


def _start(
    run: TrainingRun, module: Training, microbatch: int, keeps: int | None
) -> tuple[Path | None, int]:
    """The checkpoint that a start goes on from and its step, which the record is told; None: it
    begins with the initial weights. Sets the threads, and takes over the log of another run's steps.

    Raises:
        RelposError: the checkpoint is of another network, or the processes see different ones.
    """
    group = module.group
    # The threads of its first start give the same bits as without the interruption; but what the
    # user asks for comes first.
    kept = [] if ASKED in os.environ else _noted(run, "threads", group.world)
    # Before anything is computed: sums over another number of threads differ in their last bits.
    threads = set_threads(run.config.speed.threads or next(iter(kept), None))
    # Its own checkpoint first; another run's is only a way to begin.
    own = newest(run.path / "checkpoint")
    shared = trunk.find(run, keeps, threads, microbatch) if keeps and not own else None
    checkpoint = own or shared
    # Read once more here, so that a wrong shape is named before Lightning's traceback.
    step = _checked_step(checkpoint, module) if checkpoint else 0
    if group.sums([step], LONG)[0] != step * group.world:
        raise RelposError(
            f"the processes of {run.path} see different checkpoints: is the folder "
            f"one for all nodes?"
        )
    if group.first:
        run.note_start(
            from_step=step,
            threads=threads,
            processes=group.world,
            microbatch=microbatch,
            recorded=module.recorder is not None,
        )
        if shared:
            folder = shared.parent.parent
            trunk.copy_log(folder, step, run)
            run.note_start(checkpoint=shared.name, trunk_of=folder.name)
    return checkpoint, step


def _restore_evaluation(
    run: TrainingRun,
    module: Pretraining,
    trainer: pl.Trainer,
    every: int,
    step: int,
) -> None:
    """Takes the evaluation of the checkpoint's step from the log. Where it is due, after `every`
    steps, and not there, because a kill came between the checkpoint and its evaluation, it is made
    before training goes on."""
    lines = logged(run.path) if module.group.first else []
    evaluations = [line for line in lines if line.pop("step") == step and "heldout_loss" in line]
    if module.group.broadcast(float(bool(evaluations))):
        module.result, module.evaluated = evaluations[0] if evaluations else {}, step
    elif step % every == 0:
        trainer.callbacks.append(EvaluatedFirst())  # type: ignore[attr-defined]


def _trainer(
    run: TrainingRun, module: Training, every: int, step: int, keeps: int | None
) -> pl.Trainer:
    """Lightning's trainer with our checkpoints, and in the first process with loggers, snapshots
    and a bar. It evaluates after `every` steps, with 0 never."""
    config, group, speed = run.config, module.group, run.config.speed
    devices: list[int] | int = 1
    # Each process its own GPU. Modulo, because srun may show each its own alone, as number 0.
    if group.world > 1 and speed.accelerator != "cpu" and torch.cuda.is_available():
        devices = [group.local % torch.cuda.device_count()]
    switches: dict[str, Any] = asdict(config.trainer)
    if name := config.trainer.profiler:
        profiler = {"simple": SimpleProfiler, "advanced": AdvancedProfiler}[name]
        switches |= {"profiler": profiler(dirpath=run.path, filename="profile")}
    # What is to be kept of a step comes before checkpointing, which may stop at this step.
    callbacks: list[pl.Callback] = []
    if keeps:
        callbacks.append(Kept(run.path / trunk.FOLDER, keeps))
    if group.first and config.snapshots:
        callbacks.append(Snapshots(run.path / SNAPSHOTS, config.snapshots))
    callbacks.append(Checkpointing(run.path / "checkpoint", config.checkpoint_every, group))
    for node in config.callbacks.values():
        if group.first or node["_target_"] not in WATCHING:
            callbacks.append(instantiate(node, "callbacks"))
    loggers: list[Logger] = []
    if group.first:
        callbacks.append(Bar(run.name, module.steps))
        loggers.append(JsonLines(run.path / LOGGED, step))
        if config.logger:
            loggers.append(_asked_logger(run, config, module.model.architecture))
    return pl.Trainer(
        accelerator=speed.accelerator,
        devices=devices,
        max_steps=module.steps,
        logger=loggers,
        callbacks=callbacks,
        # Under srun Lightning would take ranks and requeueing into its own hands, if no environment
        # were named.
        plugins=[WholeCheckpoints(), LightningEnvironment()],
        val_check_interval=every or None,
        check_val_every_n_epoch=None,
        limit_val_batches=1.0 if every else 0,
        num_sanity_val_steps=0,
        deterministic="warn" if speed.deterministic else None,
        # The data modules give each process its share of a step; a sampler would deal the examples
        # out again.
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=run.path,
        log_every_n_steps=config.log_every,
        **switches,
    )


def tell_of_precision(precision: str, device: torch.device) -> None:
    """Prints a line where this number format is no faster on this device than float32."""
    if device.type == "cpu" and precision == "bf16" and not has_bf16():
        say(
            "relpos: this processor multiplies bfloat16 no faster than float32, so that "
            "precision=bf16 rounds factors, multiplies them in float32 and saves nothing here"
        )


def _noted(run: TrainingRun, key: str, processes: int) -> list[int]:
    """What the starts of a run with as many processes have noted under a key; starts whose
    training never began have noted nothing."""
    return [
        start[key]
        for start in run.record.starts
        if key in start and start.get("processes", 1) == processes
    ]


def microbatch_of(run: TrainingRun, encoder: Encoder, group: Group) -> int:
    """Examples of full length in a forward pass: what the user says; else what the record says;
    else what suits the machine.

    The record has that of the first start with less than the least that ran out of memory; where
    there is none, half of that least.
    """
    config = run.config
    if config.speed.microbatch != "auto":
        return config.speed.microbatch
    recorded = _noted(run, "microbatch", group.world)
    failed = _noted(run, "out_of_memory", group.world)
    if not failed:
        if recorded:
            return recorded[0]
        return fitting_microbatch(encoder, config.length, config.speed.accelerator)
    least = min(failed)
    # A micro-batch that was recorded and has not failed gives the same bits as before; a new one
    # does not.
    fitting = next((number for number in recorded if number < least), max(1, least // 2))
    if group.first:
        say(f"relpos: {run.name} ran out of memory with speed.microbatch={least}; now {fitting}")
    return fitting


def recorder_of(run: TrainingRun, encoder: Encoder, group: Group) -> Callable[[], Recorder] | None:
    """What records the passes of a training as CUDA graphs; None unless `speed.graphs` is set, on
    one GPU with steps all alike."""
    speed = run.config.speed
    alone = group.world == 1 and encoder.position.same_each_step
    return (
        CudaGraphs
        if speed.graphs and alone and speed.accelerator != "cpu" and torch.cuda.is_available()
        else None
    )


def _checked_step(path: Path, module: Training) -> int:
    """The step of a checkpoint; RelposError where it is none of this network."""
    with _restoring(path, module):
        # `weights_only`: a checkpoint may have come from elsewhere, and nothing in it is to be
        #     executed.
        content = torch.load(path, map_location="cpu", weights_only=True)
        needed, saved = (
            {name: tuple(value.shape) for name, value in state.items()}
            for state in (module.state_dict(), content["state_dict"])
        )
        step = int(content["global_step"])
    for name in sorted(needed.keys() | saved.keys()):
        if needed.get(name) != saved.get(name):
            raise RelposError(
                f"checkpoint {path}: {name} is {saved.get(name)}, this model needs "
                f"{needed.get(name)}; delete it to start anew"
            )
    return step


@contextmanager
def _restoring(path: Path | None, module: Training) -> Iterator[None]:
    """Blames errors on the checkpoint, which may be forged, until it is restored; None: there is
    none."""
    try:
        yield
    except RelposError:
        raise
    # What torch and Lightning meet in a file with other content than theirs.
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        RuntimeError,
        EOFError,
        UnpicklingError,
    ) as error:
        if path is None or module.restored or "memory" in str(error):
            raise
        raise RelposError(
            f"damaged checkpoint {path}: {with_class(error)}; delete it to start anew"
        ) from error


def _asked_logger(run: TrainingRun, config: TrainingConfig, architecture: Architecture) -> Logger:
    """The logger that the user asks for, which is told of the run and of its network."""
    fields = identified(
        run.identity,
        run.path.name,
        run.stage,
        architecture.encoder.plain() | _origin(run) | run.meaning,
        table=config.table,
        row=config.row,
        # `scheme_name`: of a network which no word names
        scheme=config.scheme or scheme_name(architecture.position, architecture.conv),
    )
    logger = logger_of(config.logger, fields, run.path)
    log_again(logger, logged(run.path))
    return logger


def _origin(run: TrainingRun) -> dict[str, Any]:
    """What a run's own meaning lacks: the network that it began with; the text that this was
    pre-trained on, where that is known; its tokenizer."""
    origin: dict[str, Any] = {}
    first = run.inputs.get("start", run).beginning
    if first is not run:
        origin["network"] = first.name if first.is_given else first.path.name
    tokenizer = made_from(run.path, "tokenizer")
    origin["tokenizer"] = tokenizer.name if tokenizer else first.name
    if store := made_from(run.path, "store"):
        origin["data"] = read_yaml(store / "config.yaml").get("data")
    return origin
