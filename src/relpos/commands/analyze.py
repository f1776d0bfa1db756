"""`relpos analyze`: tables and figures of what schemes and networks do with positions, and those of
a paper."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal, Unpack
from urllib.parse import quote

import torch
from torch import nn

from relpos.analysis.patterns import draw_pattern, pattern, reveal
from relpos.config.conf import conf_dir, options
from relpos.config.schema import NetworkKeys
from relpos.errors import RelposError, refuse_unknown
from relpos.files import write_text
from relpos.measures.measure import Drawing, Measure
from relpos.measures.measured import seen
from relpos.measures.sample import Sample
from relpos.model.architecture import Architecture, class_of
from relpos.model.build import build
from relpos.model.encoder import encoder_of
from relpos.model.heads import MaskedLM
from relpos.places import expanded
from relpos.process import set_threads
from relpos.ranges import Count, Names, Threads, parsed
from relpos.readers import Plain, digest, read_yaml
from relpos.results.plateau import NONE
from relpos.results.scale import pretraining_scale
from relpos.results.values import read, select
from relpos.runs.networks import networks_of
from relpos.runs.run import runs_root
from relpos.trust import instantiate

ABSOLUTE = ("absolute", NONE)
"""Classes of `position` and `conv` of the papers' own networks."""
FIGURES = {
    "chang2021": {
        "1": ("attention_by_offset", ABSOLUTE),
        "2": ("kernels", ("composite", NONE)),
        "3": ("kernels", (NONE, "depthwise")),
    },
    "wennberg2021": {
        "1, 4, 5": ("position_similarity", ABSOLUTE),
        "2": ("toeplitz", ABSOLUTE),
        "3, 6": ("responses", ABSOLUTE),
        "7": ("kernels", ("tisa", NONE)),
        "8": ("profiles", ABSOLUTE),
    },
}
"""Paper → number of a figure as printed → the kind of `relpos analyze` that draws it, and the
classes of `position` and `conv` of the networks that it shows."""


@dataclass(frozen=True)
class Properties:
    """The properties of `relpos.analysis.properties` of some schemes; needs no trained network.

    Args:
        schemes: options of `position`; null: the nine of the paper's table.
    """

    schemes: Sequence[str] | None = None

    def drawn(self, *_: object) -> list[Drawing]:
        """The properties of small networks of the schemes, as in the claim W22; parameters are
        counted at size=base."""
        from relpos.claims.exact import has_properties, methods_of_table_1

        for name in self.schemes or ():
            refuse_unknown("kind.schemes: unknown position", name, options()["position"])
        paper, rows = methods_of_table_1(), []
        for name in self.schemes or paper:
            row = {"position": name}
            for key, has in has_properties(name).items():
                row[key] = "yes" if has else "no"
                if name in paper and paper[name][key] != row[key]:
                    row[key] += f", printed {paper[name][key]}"
            rows.append(row)
        return [Drawing("properties", rows)]


@dataclass(frozen=True)
class Patterns:
    """The scores that a scheme adds for random tokens, of a trained network or with initial
    weights.

    Args:
        layer: number of the layer, from 1.
        heads: number of heads that are shown.
        length: number of tokens.
    """

    layer: Count = 1
    heads: Count = 4
    length: Count = 64

    def drawn(self, samples: Sequence[Sample], described: NetworkKeys) -> list[Drawing]:
        """A figure of each network or, without networks, of the described one.

        Raises:
            RelposError: a scheme adds nothing to the scores, or there is no such layer.
        """
        if samples:
            return [self._figure(sample.network.file_name, sample.any_model) for sample in samples]
        model, filled = initial_model(described)
        state = "initial weights" + ", tables that begin at zero filled" * filled
        return [self._figure(type(model.encoder.position).__name__.lower(), model, state)]

    def _figure(self, name: str, model: nn.Module, state: str = "trained") -> Drawing:
        encoder = encoder_of(model)
        drawable = pattern(encoder, self.layer - 1, self.length, trained=state == "trained")
        if drawable is None:
            scheme = type(encoder.position).__name__
            raise RelposError(f"{scheme} adds nothing to the scores: there is no pattern to draw")
        figure = draw_pattern(drawable, f"{name}, layer {self.layer}, {state}", self.heads)
        return Drawing(f"pattern-{name}-layer{self.layer}", figure=figure)


def initial_model(described: NetworkKeys) -> tuple[MaskedLM, bool]:
    """The network with the weights of seed 0, and whether tables that are zero at the start were
    filled."""
    # The figure does not depend on numbers that were drawn before.
    torch.manual_seed(0)
    model = build(parsed(Architecture, described))
    return model, reveal(model.encoder.position)


@dataclass(frozen=True)
class Paper:
    """Every figure of a paper, from the finished pre-trainings and from named networks."""

    paper: Literal["chang2021", "wennberg2021"]

    def page(self, folder: Path, network: list[str], text: str | None) -> str:
        """Draws figures into a folder and returns the text of a page that shows them.

        For a missing figure the page has the command that makes a network for it.
        """
        # Runs of all tables: a figure is about a scheme, in the paper's layers and on text in its
        # order.
        schemes: dict[Path, tuple[str, str]] = {}
        for value in select(read(measured=()), stage="pretrain"):
            if pretraining_scale(*json.loads(value.scale)).is_of_paper:
                nodes = json.loads(value.scheme)
                schemes[value.run] = class_of(nodes["position"]), class_of(nodes["conv"])
        sections = [f"# Figures of {self.paper}"]
        for number, (kind, scheme) in FIGURES[self.paper].items():
            names = [str(run) for run, of_run in schemes.items() if of_run == scheme]
            # Published checkpoints stand in for the paper's own networks, which had tables of
            # absolute positions.
            if scheme == ABSOLUTE:
                names += network
            sections.append(f"## Figure {number}: {kind.replace('_', ' ')}")
            if not names:
                overrides = "position={} conv={}".format(*scheme)
                if kind == "toeplitz":
                    overrides += " 'snapshots=[1,3,10,30,60]'"
                sections.append(f"Missing: `relpos pretrain {overrides}` makes a network for it.")
                continue
            measure = instantiate(read_yaml(conf_dir() / "kind" / f"{kind}.yaml"), "kind")
            try:
                for drawing in drawn(measure, samples_of(names, text)):
                    links = []
                    for path in drawing.save(folder):
                        # Quoted: the name of a snapshot has spaces and a per cent sign.
                        place = quote(path.name)
                        links.append(f"[{path.suffix[1:].upper()}]({place})")
                        if path.suffix == ".png":
                            sections.append(f"![{path.name}]({place})")
                    sections.append(f"{drawing.name}: {', '.join(links)}")
            # The other figures are drawn all the same.
            except RelposError as error:
                sections.append(f"Not drawn: {error}")
        return "\n\n".join(sections) + "\n"


def analyze(
    kind: Plain,
    network: Names | None,
    text: str | None,
    threads: Threads | None,
    **described: Unpack[NetworkKeys],
) -> str:
    """Writes tables (CSV) and figures (PNG, PDF) into a folder below `$RELPOS_RUNS/analysis`, and
    returns the folder.

    For a paper it also writes a README.md that shows the figures.

    Raises:
        RelposError: no network is named, or this kind of analysis does not apply to it: nothing is
            written then. For a paper no figure could be drawn, and README.md says why.
    """
    set_threads(threads)
    measure = instantiate(kind, "kind")
    if isinstance(measure, Paper):
        folder = runs_root() / "analysis" / measure.paper
        write_text(folder / "README.md", page := measure.page(folder, network or [], text))
        if "\n![" not in page:
            raise RelposError(
                f"nothing is drawn: {folder / 'README.md'} has the commands that make what its "
                f"figures need"
            )
        return str(folder)
    samples = samples_of(network, text) if network or isinstance(measure, Measure) else []
    # All figures are drawn before the first is written: a refused network leaves no half a folder.
    if isinstance(measure, Measure):
        drawings = drawn(measure, samples)
    else:
        drawings = measure.drawn(samples, described)
    subject = "schemes"
    if samples:
        subject = f"{len(samples)}-networks"
    if len(samples) == 1:
        subject = samples[0].network.file_name
    # Everything on which the drawings depend: another choice goes into another folder.
    content = [kind, network, text, threads, described]
    name = f"{type(measure).__name__.lower()}-{subject}-{digest(content)}"
    folder = runs_root() / "analysis" / name
    for drawing in drawings:
        drawing.save(folder)
    return str(folder)


def drawn(measure: Measure, samples: Sequence[Sample]) -> list[Drawing]:
    """The figures of networks, from kept results or from results measured now."""
    results = [
        replace(seen(sample, [measure], measure.has_course), name=sample.network.file_name)
        for sample in samples
    ]
    return list(measure.draw(results))


def samples_of(names: list[str] | None, file: str | None) -> list[Sample]:
    """The networks of these names, to be analysed with the text of a file or, without a file, with
    their own text.

    Raises:
        RelposError: no network is named, there is no such network, or two different ones have the
            same name.
    """
    text = expanded(file) if file else None
    if text and not text.is_file():
        raise RelposError(f"text={file}: no such file")
    named = chain.from_iterable(map(networks_of, names or ()))
    networks = {network.path.resolve(): network for network in named}.values()
    if not networks:
        raise RelposError("which network? network=FOLDER must be given")
    name, count = Counter(network.file_name for network in networks).most_common(1)[0]
    # Files have the names of networks: figures of one would replace those of the other.
    if count > 1:
        raise RelposError(
            f"network: {count} different networks are called {name!r}; another name "
            f"for a folder tells them apart"
        )
    return [Sample(network, file=text) for network in networks]
