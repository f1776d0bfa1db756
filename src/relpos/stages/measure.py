"""One measure of one network → `results.json`.

A measurement is a run like others: its input is the run of the network, its meaning the measure
with its dials and, of a snapshot, the share of the steps. `kept` reads what such runs have
measured, and what was kept in the network's own folder before measurements were runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from glob import escape
from math import inf
from pathlib import Path
from typing import Any

from relpos.errors import RelposError, one_line, say
from relpos.files import digest, write_json
from relpos.measures.measure import Measure, Results, chosen
from relpos.measures.sample import Sample, is_toy, reads_toy
from relpos.readers import check_recorded, fitted, read_json, unsealed
from relpos.runs.networks import of_run
from relpos.runs.run import Figures, Run, read_record, runs_root
from relpos.runs.shelf import END

RESULTS = "results.json"
VERSION = 2
"""Raised when a change of code alters the results: older ones are then measured again."""


@dataclass(frozen=True)
class KeptResults:
    """Results that were measured before.

    Args:
        share: per cent of its training steps that the network had done; 100: the final one.
        meaning: everything else that they depend on: measure, version, examples or pairs.
        results: as the measure returned them.
    """

    share: int
    meaning: dict[str, Any]
    results: Results


class MeasureStage(Run):
    stage = "order"

    @classmethod
    def measurement(
        cls,
        measure: Measure,
        network: Run,
        share: int = END,
        threads: int | None = None,
        accelerator: str = "cpu",
    ) -> Run:
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
            toy = is_toy(store.config["data"])
        else:
            toy = reads_toy(of_run(network.path))
        meaning = {"measure": measure.name, "version": VERSION} | measure.meaning(toy)
        name = f"{measure.name}-{network.path.name}"
        if share != END:
            meaning["share"] = share
            name += f"-at{share}"
        dials = {dial.name: getattr(measure, dial.name) for dial in fields(measure)}
        config = {
            "measure": measure.name,
            "dials": dials,
            "share": share,
            "threads": threads,
            "speed": {"accelerator": accelerator},
        }
        return cls(name, meaning, config, {"network": network})

    def work(self) -> Figures:
        """Measures the network, unless results of this meaning were kept in its folder."""
        config = self.config
        [measure] = chosen([config["measure"]], config["dials"])
        results = _taken_over(self)
        if results is None:
            network = of_run(self.inputs["network"].path)
            if config["share"] != END:
                network = network.at(config["share"])
            gpu = config["speed"]["accelerator"] != "cpu"
            results = measure.measure(Sample(network, gpu, config["threads"]))
        write_json(self.path / RESULTS, results)
        return figures(measure, results)


def figures(measure: Measure, results: Results) -> dict[str, float]:
    """The value of each of a measure's columns that was measured.

    Raises:
        RelposError: one is out of its bounds.
    """
    values: dict[str, float] = {}
    for column in measure.columns:
        # Another version of this measure may have kept less.
        with suppress(KeyError):
            if figure := measure.figure(column.name, results):
                least, most = column.bounds or (-inf, inf)
                if figure.value < least or figure.value > most:
                    raise RelposError(f"{column.title} {figure.value:g} is impossible")
                values[column.name] = figure.value
    return values


def results_of(run: Run) -> Results | None:
    """What a measurement has measured, or what was kept for it before measurements were runs; None
    where there is neither.

    Raises:
        RelposError: the file of a finished one is gone or damaged.
    """
    if run.state != "finished":
        return _taken_over(run)
    check_recorded(run.path / RESULTS)
    results: Results = read_json(run.path / RESULTS, dict)
    return results


def _taken_over(run: Run) -> Results | None:
    share, measure = run.config["share"], run.config["measure"]
    meaning = {key: run.meaning[key] for key in run.meaning.keys() - {"share"}}
    weights = "model" if share == END else str(share)
    name = f"{measure}-{digest([meaning, weights])}.json"
    for entry in _of_before(run.inputs["network"].path, measure, name):
        return entry.results
    return None


def kept(network: Path, measure: str) -> list[KeptResults]:
    """A measure's results of the network in a run's folder and of its snapshots, sorted by share;
    damaged ones are named on stderr and left out."""
    entries = (*_of_before(network, measure, f"{measure}-*.json"), *_of_runs(network, measure))
    # Results of before that were taken over by a run stand in both places.
    distinct = {digest([entry.meaning, entry.share]): entry for entry in entries}
    return sorted(distinct.values(), key=lambda entry: entry.share)


def _of_runs(network: Path, measure: str) -> Iterator[KeptResults]:
    pattern = f"{measure}-{escape(network.resolve().name)}-*"
    for folder in sorted((runs_root() / MeasureStage.stage).glob(pattern)):
        try:
            record = read_record(folder)
            if record.get("state") == "finished":
                meaning = dict(record["meaning"])
                share = meaning.pop("share", END)
                check_recorded(folder / RESULTS)
                content = {
                    "share": share,
                    "meaning": meaning,
                    "results": read_json(folder / RESULTS),
                }
                yield from _sound(content, measure)
        except (RelposError, KeyError) as error:
            _left_out(folder, error)


def _of_before(network: Path, measure: str, pattern: str) -> Iterator[KeptResults]:
    """The results that earlier versions kept as `order/MEASURE-HASH.json` in the folder of the
    network's run."""
    for path in sorted((network / "order").glob(pattern)):
        try:
            yield from _sound(unsealed(read_json(path, dict), str(path)), measure)
        except RelposError as error:
            _left_out(path, error)


def _sound(content: dict[str, Any], measure: str) -> Iterator[KeptResults]:
    """The entry of this content, unless another version has computed it in another way.

    Raises:
        RelposError: its figures cannot be read, or are impossible.
    """
    entry: KeptResults = fitted(content, KeptResults)
    try:
        figures(chosen([measure])[0], entry.results)
    # Whatever a stranger's results raise, whoever reads them later would raise, too.
    except (IndexError, ArithmeticError, TypeError, ValueError, AttributeError) as error:
        raise RelposError(one_line(error)) from error
    if entry.meaning.get("version") == VERSION:
        yield entry


def _left_out(path: Path, error: Exception) -> None:
    why = str(error).removeprefix(f"{path}: ")
    say(f"relpos: damaged results {path}: delete it to measure anew ({why})")
