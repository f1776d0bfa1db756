"""`relpos length`: the loss of finished pre-trainings on held-out text at lengths other than the trained one."""

from __future__ import annotations

from collections.abc import Sequence

from relpos.errors import RelposError, say
from relpos.files import digest, write_json
from relpos.measures.kept import measured
from relpos.measures.kinds.lengths import Lengths
from relpos.measures.measure import Measured
from relpos.measures.sample import Sample
from relpos.ranges import Count, Length, Names, Threads
from relpos.runs.networks import labels, networks_of
from relpos.runs.run import runs_root
from relpos.train.module import set_threads


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
    measure, rows, drawn = Lengths(wanted, tokens), [], []
    for name, each in zip(labels(networks), networks, strict=True):
        drawn.append(Measured(name, measured(Sample(each), [measure])))
        points = []
        for size, scores in drawn[-1].results["lengths"].items():
            said = scores.get("refused") or f"loss {scores['loss']:.4f}, perplexity {scores['perplexity']:.2f}"
            say(f"{name}, {size} tokens: {said}")
            points.append({"length": int(size), **scores})
        rows.append({"name": name, "folder": each.name, "trained": each.length, "packing": each.packing, "points": points})
    # All that the figures depend on, so that another choice of lengths lies in another folder.
    choices = digest([[row["folder"] for row in rows], wanted, tokens])
    name = networks[0].file_name if len(networks) == 1 else f"{len(networks)}-runs"
    folder = runs_root() / "length" / f"{name}-{choices}"
    write_json(folder / "length.json", {"lengths": wanted, "tokens": tokens, "runs": rows})
    for drawing in measure.draw(drawn):
        drawing.save(folder, ["png"])
    return str(folder)
