"""One measure of one network → `results.json`.

A measurement is a run like others: its input is the run of the network, its meaning the measure
with its dials and, of a snapshot, the share of the steps. `kept` reads what such runs have
measured.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Literal

from relpos.config.schema import RunConfig, Speed
from relpos.errors import one_line, say
from relpos.files import write_json
from relpos.measures.measure import Measure, chosen
from relpos.measures.sample import Sample, is_toy, reads_toy
from relpos.readers import Plain, check_recorded, fitted, read_json
from relpos.runs.networks import of_run
from relpos.runs.run import Run, read_record, runs_root
from relpos.runs.shelf import END

RESULTS = "results.json"
VERSION = 2
"""Raised when a change of code alters the results: older results are then measured again."""


@dataclass(frozen=True)
class KeptResults:
    """Results that were measured before.

    Args:
        meaning: everything that they depend on but the network: measure, version, dials.
        share: per cent of its training steps that the network had done; 100: the final one.
        results: as the measure returned them.
    """

    meaning: Plain
    results: Plain
    share: int = END


@dataclass(frozen=True, kw_only=True)
class MeasureConfig(RunConfig):
    """What a measurement is called with: the dials of its measure, and the share of the network's
    training."""

    dials: Plain
    share: int = END
    speed: Speed = field(default_factory=Speed)


class MeasureStage(Run):
    config: MeasureConfig
    stage = "order"

    @classmethod
    def measurement(
        cls,
        measure: Measure,
        network: Run,
        share: int,
        threads: int | None,
        accelerator: Literal["cpu", "auto"],
    ) -> MeasureStage:
        """The run that measures a network.

        Args:
            network: the run that trains it.
            share: per cent of the training's steps; less than 100: the snapshot.
            threads: CPU threads; None: torch's own number.
            accelerator: `cpu`, or `auto` for a GPU where there is one.

        Raises:
            NothingToMeasure: there is nothing to measure such a network on.
        """
        if store := network.inputs.get("store"):
            toy = is_toy(store.config.data or {})
        else:
            toy = reads_toy(of_run(network.path).store)
        meaning = {"measure": measure.name, "version": VERSION} | measure.meaning(toy)
        name = f"{measure.name}-{network.path.name}"
        if share != END:
            meaning["share"] = share
            name += f"-at{share}"
        speed = Speed(accelerator=accelerator, threads=threads)
        config = MeasureConfig(dials=measure.dials(), share=share, speed=speed)
        return cls(name, meaning, config, {"network": network})

    @property
    def measure(self) -> Measure:
        """The measure, with its dials."""
        [measure] = chosen([self.meaning["measure"]], self.config.dials)
        return measure

    def work(self) -> Plain:
        """Measures the network."""
        network = of_run(self.inputs["network"].path)
        if self.config.share != END:
            network = network.at(self.config.share)
        speed = self.config.speed
        sample = Sample(network, speed.accelerator != "cpu", speed.threads)
        results = self.measure.measure(sample)
        write_json(self.path / RESULTS, results)
        return figures(self.measure, results)

    def results(self) -> Plain | None:
        """What was measured; None where the run is not finished.

        Raises:
            RelposError: the file of a finished run is gone or damaged.
        """
        return _read(self.path) if self.state == "finished" else None


def figures(measure: Measure, results: Plain) -> dict[str, float]:
    """The value of each of a measure's columns that was measured."""
    values: dict[str, float] = {}
    for column in measure.columns:
        # Another version of this measure may have kept less.
        with suppress(KeyError):
            if figure := measure.figure(column.name, results):
                values[column.name] = figure.value
    return values


def kept(network: Path, measure: str) -> list[KeptResults]:
    """A measure's results of the network in a run's folder and of its snapshots, sorted by share;
    without those of another version of the code and, with a line on stderr, without damaged
    ones."""
    entries: list[KeptResults] = []
    name = escape(network.resolve().name)
    for folder in sorted((runs_root() / MeasureStage.stage).glob(f"{measure}-{name}-*")):
        try:
            record = read_record(folder)
            meaning = dict(record.meaning)
            content = {"share": meaning.pop("share", END), "meaning": meaning}
            if record.state != "finished" or meaning.get("version") != VERSION:
                continue
            entry: KeptResults = fitted(content | {"results": _read(folder)}, KeptResults)
            figures(chosen([measure])[0], entry.results)
        # Whoever reads such results later would raise the same.
        except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError) as error:
            why = one_line(error).removeprefix(f"{folder}: ")
            say(f"relpos: damaged results {folder}: delete it to measure anew ({why})")
        else:
            entries.append(entry)
    return sorted(entries, key=lambda entry: entry.share)


def _read(folder: Path) -> Plain:
    check_recorded(folder / RESULTS)
    results: Plain = read_json(folder / RESULTS, dict)
    return results
