"""Which runs go to a cluster as one job, and which jobs wait for which: a *bundle* of runs becomes a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from relpos.runs.distributed import processes
from relpos.runs.run import Run


@dataclass(frozen=True)
class Bundle:
    """Runs that one worker executes, one after another.

    Args:
        name: the beginning of its files' names.
        runs: inputs before the runs that need them.
        nodes: machines that its job takes.
        tasks: processes on each of them.
        needs: the bundles whose runs must be finished first.
    """

    name: str
    runs: list[Run]
    nodes: int = 1
    tasks: int = 1
    needs: list[Bundle] = field(default_factory=list)


def bundles(pending: list[Run], size: int) -> list[Bundle]:
    """Puts the runs that are not settled into bundles, each after the bundles that it needs.

    Text, tokenizer and store, which all runs need, are one job. A pre-training is a job of its own, with as many processes as it
    asks for. A fine-tuning waits for its own pre-training only. An intermediate task and the fine-tunings after it stay together.

    Args:
        pending: inputs before the runs that need them.
        size: the most fine-tunings in a job, unless more of them share an intermediate task.
    """
    trained = [run for run in pending if run.stage == "pretrain"]
    tuned = [run for run in pending if run.stage == "finetune"]
    data = [run for run in pending if run.stage not in ("pretrain", "finetune")]
    data_bundles = [Bundle("data", data)] if data else []
    pretrainings = {run.identity: _pretraining(run, data_bundles) for run in trained}
    result = [*data_bundles, *pretrainings.values()]
    for root, family in _families(tuned).items():
        needs = [pretrainings[root]] if root in pretrainings else data_bundles
        for number, part in enumerate(_packed(family, size)):
            result.append(Bundle(f"finetune-{root}-{number}", part, needs=needs))
    return result


def _pretraining(run: Run, needs: list[Bundle]) -> Bundle:
    speed = run.config["speed"] if processes(run) > 1 else {"nodes": 1, "devices": 1}
    return Bundle(f"pretrain-{run.identity}", [run], int(speed["nodes"]), int(speed["devices"]), needs)


def _families(tuned: list[Run]) -> dict[str, list[list[Run]]]:
    """Identity of a pre-training → its fine-tunings; those that share an intermediate task are in one list with it."""
    result: dict[str, dict[str, list[Run]]] = {}
    for run in tuned:
        first = run
        while first.inputs["start"].stage == "finetune":
            first = first.inputs["start"]
        root = first.inputs["start"].identity
        result.setdefault(root, {}).setdefault(first.identity, []).append(run)
    return {root: list(family.values()) for root, family in result.items()}


def _packed(groups: Iterable[list[Run]], size: int) -> list[list[Run]]:
    """Joins groups, in order, to parts of at most `size` runs; a larger group is a part of its own."""
    parts: list[list[Run]] = []
    for group in groups:
        # A group stays whole: its fine-tunings would otherwise wait for another job's intermediate one.
        if not parts or len(parts[-1]) + len(group) > size:
            parts.append([])
        parts[-1].extend(group)
    return parts
