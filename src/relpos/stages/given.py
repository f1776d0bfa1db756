"""A network that the user names, or its tokenizer, as a run that nobody has to make."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from relpos.data.filehash import described
from relpos.errors import RelposError
from relpos.model.architecture import Architecture
from relpos.places import expanded
from relpos.pretrained.files import CONFIG, form_of, tokenizer_files, weight_files
from relpos.readers import Plain, fitted, read_yaml
from relpos.runs.networks import resolve
from relpos.runs.run import GIVEN, Run
from relpos.stages.stage import Stage
from relpos.train.weights import model_folder, read_architecture


class GivenStage(Stage):
    stage = GIVEN

    def architecture(self) -> Architecture:
        return read_architecture(self.path).encoder


def given_run(name: str) -> GivenStage:
    """The network of this name as a run that nobody has to make.

    A network of a run is identified by that run, another one by the SHA-256 of its files, one from
    the hub by its id and commit.

    Raises:
        RelposError: there is no such network.
    """
    network = resolve(name)
    path = expanded(name)
    folder, run = network.folder, network.run
    if form_of(folder) == "published":
        # The hub's cache keeps the files of a commit in snapshots/COMMIT: the folder's name
        # identifies them, unhashed.
        if folder.parent.name == "snapshots" and not path.is_dir():
            meaning = {"hub": name.partition("@")[0], "revision": folder.name}
            return GivenStage.of(name.replace("/", "-"), meaning, {}, folder=str(folder))
        return _given(
            folder.resolve().name,
            folder,
            "model",
            [folder / CONFIG, *weight_files(folder), *tokenizer_files(folder)],
        )
    config = _config_of(run) if run else {}
    if run and network.is_snapshot:
        label = f"{run.resolve().name}-at{network.share}"
        return _given(label, network.weights, "model", [network.weights], config)
    # `RUN/model` is identified by its weights, as it always was.
    named = run if run and network.row else path
    if named == run and (identity := network.record.get("identity")):
        place = str(folder.resolve())
        return GivenStage.of(network.name, {"model": identity}, config, folder=place)
    return _given(named.resolve().name, folder, "model", weight_files(folder), config)


def _config_of(run: Path) -> Plain:
    """`scheme`, the word that was typed for a run's position scheme; None where its configuration
    has none."""
    file = run / "config.yaml"
    config: Plain = fitted(read_yaml(file), dict) if file.is_file() else {}
    return {"scheme": config.get("scheme")}


def _given(
    label: str,
    path: Path,
    what: str,
    files: Iterable[Path],
    config: Plain | None = None,
) -> GivenStage:
    """A network, or its tokenizer, that is identified by what these files contain."""
    meaning = {what: described(files, path)}
    return GivenStage.of(label, meaning, config or {}, folder=str(path.resolve()))


def tokenizer_of(start: Run, vocabulary: int) -> GivenStage:
    """The tokenizer in the folder of a given network; it is identified by its own files, so that
    networks may share a store.

    Raises:
        RelposError: there is none.
    """
    folder = model_folder(start.path)
    files = tokenizer_files(folder)
    if not files:
        raise RelposError(f"network={folder}: there is no tokenizer in it")
    return _given(f"{start.name}-tokenizer", folder, "tokenizer", files, {"vocabulary": vocabulary})
