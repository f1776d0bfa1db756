"""`relpos length`: the loss of finished pre-trainings on held-out text at lengths other than the trained one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relpos import style
from relpos.errors import RelposError, say
from relpos.files import digest, write_json
from relpos.measures.lengths import scores_by_length
from relpos.measures.sample import ANSWERS, fills_answers
from relpos.ranges import Count, Length, Names, Threads
from relpos.runs.networks import Network, labels, networks_of
from relpos.runs.run import runs_root
from relpos.train.module import set_threads

Points = list[tuple[int, float]]


def length(network: Names, lengths: Sequence[Length], tokens: Count, threads: Threads | None) -> str:
    """Writes `length.json` and `length.png` into a folder below `$RELPOS_RUNS/length`, which it returns.

    Raises:
        RelposError: there is no such network; it fills in answers; or its held-out text is not known, or too short.
    """
    wanted = sorted(set(lengths))
    if not wanted:
        raise RelposError("lengths=[]: at least one is needed")
    networks = [each for name in network for each in networks_of(name)]
    for each in networks:
        # All of them before the first is measured, which takes a while.
        each.refuse_classifier()
    set_threads(threads)
    rows = [_row(each, name, wanted, tokens) for each, name in zip(networks, labels(networks), strict=True)]
    # All that the figures depend on, so that another choice of lengths lies in another folder.
    choices = digest([[row["folder"] for row in rows], wanted, tokens])
    name = networks[0].file_name if len(networks) == 1 else f"{len(networks)}-runs"
    folder = runs_root() / "length" / f"{name}-{choices}"
    write_json(folder / "length.json", {"lengths": wanted, "tokens": tokens, "runs": rows})
    style.save(draw_lengths(*curves(rows)), folder / "length.png")
    return str(folder)


def curves(rows: list[dict[str, Any]]) -> tuple[dict[str, list[tuple[int, float]]], set[str], set[int]]:
    """The content of the figure: {name: [(length, loss)]}, the names whose lines end early, the trained lengths."""
    # A length that the scheme refuses has no loss, and no point.
    points = {row["name"]: [(p["length"], p["loss"]) for p in row["points"] if "loss" in p] for row in rows}
    ended = {row["name"] for row in rows if any("refused" in p for p in row["points"])}
    return {name: of_name for name, of_name in points.items() if of_name}, ended, {row["trained"] for row in rows}


def _row(network: Network, name: str, lengths: list[int], tokens: int) -> dict[str, Any]:
    if network.store is None:
        raise RelposError(f"network={network.folder}: its held-out text is not known: a finished pre-training is expected")
    if fills_answers(network.record.get("meaning") or {}):
        raise RelposError(f"network={network.folder}: {ANSWERS}")
    by_length = scores_by_length(network.path, network.store, lengths, tokens, network.precision)
    for size, scores in by_length.items():
        said = scores.get("refused") or f"loss {scores['loss']:.4f}, perplexity {scores['perplexity']:.2f}"
        say(f"{name}, {size} tokens: {said}")
    points = [{"length": size, **scores} for size, scores in by_length.items()]
    return {
        "name": name,
        "folder": network.name,
        "trained": network.length,
        "packing": network.packing,
        "points": points,
    }


def draw_lengths(curves: Mapping[str, Points], ended: set[str], trained: set[int]) -> Any:
    """Draws loss against length. A cross ends the line of a scheme that refuses longer sequences (`ended`); vertical lines mark the
    trained lengths."""
    figure, axes = style.panel()
    style.logarithmic(axes, {length for points in curves.values() for length, _ in points} | trained, base=2)
    for number, (name, points) in enumerate(curves.items()):
        look = style.look(number)
        axes.plot(*zip(*points, strict=True), marker=".", label=name, **look)
        if name in ended:
            axes.plot(*points[-1], "x", color=look["color"], markersize=9)
    for length in trained:
        axes.axvline(length, color="0.6", linestyle=(0, (4, 4)), linewidth=0.8, zorder=0)
    axes.set(
        xlabel="length in tokens (vertical line: trained at; cross: no longer sequences)", ylabel="held-out loss, nats per token"
    )
    style.legend(figure)
    return figure
