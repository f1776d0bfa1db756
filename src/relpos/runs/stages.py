"""What each stage does: a function from a run, whose folder and inputs it reads and writes, to its final metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from relpos.data import toy as language
from relpos.data.published_tokenizer import adopt, load_tokenizer
from relpos.data.store import Store, tell, write_store
from relpos.data.tokenizer import train_tokenizer
from relpos.errors import RelposError, say
from relpos.progress import reading
from relpos.runs.plan import refuse_changed, source_of
from relpos.runs.run import Run
from relpos.train.logger_settings import refuse_logger

Metrics = dict[str, Any]


def toy(run: Run) -> Metrics:
    """The generated language: `corpus/` and `glue/` in the run's folder."""
    language.write(run.path, **run.config)
    return {}


def tokenizer(run: Run) -> Metrics:
    """Text, or a file of the user's own → `tokenizer.model` or, of another kind, `tokenizer.json`."""
    if "file" in run.config:
        adopt(Path(run.config["file"]), run.path)
        return {"pieces": load_tokenizer(run.path).size}
    source = source_of(run)
    with reading(f"reading text for {run.name}", source.characters()) as progress:
        documents = source.documents(progress)
        dials = ("vocabulary", "sample", "threads", "kind", "cased", "byte_fallback")
        train_tokenizer(documents, run.path, **{key: run.config[key] for key in dials if key in run.config})
    refuse_changed(run)
    pieces = load_tokenizer(run.path).size
    if pieces < run.config["vocabulary"]:
        say(f"relpos: the text yields {pieces:,} pieces instead of {run.config['vocabulary']:,}")
    return {"pieces": pieces}


def store(run: Run) -> Metrics:
    """Text → token ids on disk."""
    source = source_of(run)
    with reading(f"encoding text for {run.name}", source.characters()) as progress:
        pieces = load_tokenizer(run.inputs["tokenizer"].path)
        share = run.config["heldout"]
        write_store(source.documents(progress), pieces, run.path, share, shuffle=source.shuffle, alike=source.alike)
    refuse_changed(run)
    written = Store(run.path)
    if not source.alike:
        tell(run.path)
    revisions = {"revisions": read} if (read := getattr(source, "revisions", None)) else {}
    return {"sentences": len(written.sentences) - 1, "tokens": len(written.ids)} | revisions


def _trained(run: Run) -> Metrics:
    """Masked language modelling → `model/`; or one task → columns, `predictions/` and `model/`."""
    # Loads Lightning, which takes seconds, and making a tokenizer does without.
    from relpos.runs import training

    return training.pretrain(run) if run.stage == "pretrain" else training.finetune(run)


STAGES: dict[str, Callable[[Any], Metrics]] = {
    "toy": toy,
    "tokenizer": tokenizer,
    "store": store,
    "pretrain": _trained,
    "finetune": _trained,
}


def refuse_absent(run: Run) -> None:
    """Refuses a run whose corpus, GLUE files or logger are missing. Called before the run's folder is made and before its inputs
    are executed, which can take days.

    Raises:
        RelposError: names the folder in which they were expected, or the package that the logger needs.
    """
    if run.config.get("logger") and run.state != "finished":
        refuse_logger(run.config["logger"])
    if run.meaning.get("corpus", run) is None:
        source_of(run).characters()
    if "toy" in run.inputs and run.stage == "finetune" and run.meaning["task"]["folder"] not in language.FOLDERS:
        raise RelposError(f"task={run.meaning['task']['name']}: the toy language has no such task; choose data=files")
    if run.meaning.get("glue", run) is None:
        task, place = run.meaning["task"], source_of(run).glue_location().folder
        raise RelposError(f"data.glue: there is no folder {task['folder']} with files of task {task['name']} in {place}")
    for needed in run.inputs.values():
        refuse_absent(needed)
