"""`relpos analyze`: what trained networks do with positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from relpos import style
from relpos.config.conf import options
from relpos.errors import RelposError, refuse_unknown
from relpos.files import digest
from relpos.measures.kept import seen
from relpos.measures.measure import Drawing, Measure
from relpos.measures.sample import Sample
from relpos.places import expanded
from relpos.process import set_threads
from relpos.ranges import Names, Threads
from relpos.runs.networks import networks_of
from relpos.runs.run import runs_root
from relpos.trust import instantiate


@dataclass(frozen=True)
class Properties:
    """The properties of `relpos.analysis.properties` of some schemes; needs no trained network.

    Args:
        schemes: options of `position`; null: the nine of the paper's table.
    """

    schemes: Sequence[str] | None = None

    def drawn(self) -> Drawing:
        """What small networks of the schemes show, as in the claim W22; parameters are counted at size=base."""
        from relpos.analysis.properties import NAMES
        from relpos.claims.exact import has_properties, methods_of_table_1

        for name in self.schemes or ():
            refuse_unknown("kind.schemes: unknown position", name, options()["position"])
        rows, paper = [], methods_of_table_1()
        for name in self.schemes or paper:
            ours = {key: "yes" if has else "no" for key, has in has_properties(name).items()}
            printed = paper.get(name, ours)
            said = {key: ours[key] if ours[key] == printed[key] else f"{ours[key]}, printed {printed[key]}" for key in NAMES}
            rows.append({"position": name} | said)
        figure, (axes,) = style.grid(1, 1, 6.4, 0.3 * len(rows))
        for row, values in enumerate(rows):
            for column, key in enumerate(NAMES):
                yes = values[key].startswith("yes")
                axes.plot(column, row, "o", color=style.COLOURS[0] if yes else "0.75", fillstyle="full" if yes else "none")
        axes.set_xticks(range(len(NAMES)), NAMES, rotation=20, ha="right")
        axes.set_yticks(range(len(rows)), [row["position"] for row in rows])
        axes.invert_yaxis()
        axes.set_title("filled: the scheme has this property", fontsize=8)
        return Drawing("properties", rows, figure)


def analyze(kind: dict[str, Any], network: Names | None, text: str | None, threads: Threads | None) -> str:
    """Writes tables (CSV) and figures (PNG, PDF) into a folder below `$RELPOS_RUNS/analysis`, which it returns.

    Raises:
        RelposError: no network is named, or this kind of analysis does not apply to it; nothing is written then.
    """
    set_threads(threads)
    measure = instantiate(kind, "kind")
    if isinstance(measure, Properties):
        drawings, names = [measure.drawn()], []
    else:
        samples = samples_of(network, text)
        # All are drawn before the first is written: a network that is refused leaves no half a folder.
        drawings, names = drawn(measure, samples), [sample.network.file_name for sample in samples]
    # All that the drawings depend on: another choice goes into another folder.
    content = {"kind": kind, "network": network, "text": text, "threads": threads}
    folder = runs_root() / "analysis" / _folder(content, names)
    for drawing in drawings:
        drawing.save(folder)
    return str(folder)


def drawn(measure: Measure, samples: Sequence[Sample]) -> list[Drawing]:
    """The figures of some networks, of which each is measured, or its kept results are read."""
    found = [replace(seen(sample, [measure], measure.has_course), name=sample.network.file_name) for sample in samples]
    return list(measure.draw(found))


def samples_of(named: list[str] | None, file: str | None) -> list[Sample]:
    """The networks of these names, which are analysed with the text of a file, or else with their own.

    Raises:
        RelposError: none is named; there is no such network; or two different ones have one name.
    """
    # A text that is named comes before the network's own: whoever names one wants networks compared on it.
    text = expanded(file) if file else None
    if text is not None and not text.is_file():
        raise RelposError(f"text={file}: no such file")
    # By path: a network that is named twice is one.
    networks = list({each.path.resolve(): each for name in named or () for each in networks_of(name)}.values())
    if not networks:
        raise RelposError("which network? network=FOLDER must be given")
    name, count = Counter(network.file_name for network in networks).most_common(1)[0]
    # Files are named by networks: the figures of one would replace those of the other.
    if count > 1:
        raise RelposError(f"network: {count} different networks are called {name!r}; another name for a folder tells them apart")
    return [Sample(network, file=text) for network in networks]


def _folder(content: dict[str, Any], names: Sequence[str]) -> str:
    kind = content["kind"]["_target_"].rpartition(".")[2].lower()
    what = names[0] if len(names) == 1 else f"{len(names)}-networks" if names else "schemes"
    return f"{kind}-{what}-{digest(content)}"
