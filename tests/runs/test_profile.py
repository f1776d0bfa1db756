"""Profiler and anomaly detection of Lightning can be reached."""

from pathlib import Path

import relpos
from relpos.runs import plan

TINY = ["position=none", "batch=4", "length=16", "size.layers=1", "speed.threads=1"]


def test_a_profiler_of_lightning_writes_into_the_folder(toy_runs: Path) -> None:
    run = relpos.run(relpos.compose("pretrain", [*TINY, "steps=2", "speed.profiler=simple"]))
    assert (run.path / "profile" / "fit-simple.txt").stat().st_size > 0


def test_profiler_and_anomaly_detection_are_no_part_of_the_identity() -> None:
    identity = plan(relpos.compose("pretrain", ["steps=10"])).identity
    for override in ("speed.profiler=simple", "speed.detect_anomaly=true"):
        assert plan(relpos.compose("pretrain", ["steps=10", override])).identity == identity
