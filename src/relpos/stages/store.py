"""Corpus → tokenizer → token ids on disk."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from relpos.config.compose import resolved
from relpos.config.schema import RunConfig
from relpos.data.documents import with_progress
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.store import Store, tell, write_store
from relpos.progress import bar
from relpos.readers import Plain
from relpos.runs.run import Run
from relpos.stages.stage import Stage
from relpos.stages.tokenizer import TokenizerStage
from relpos.stages.toy import corpus_of


@dataclass(frozen=True, kw_only=True)
class StoreConfig(RunConfig):
    heldout: float = 0.0


class StoreStage(Stage):
    config: StoreConfig
    stage, version = "store", 1

    @classmethod
    def plan(cls, content: Plain, tokenizer: Run | None = None) -> Run:
        """Corpus → tokenizer → store.

        Args:
            content: `data`, `vocabulary` and `tokenizer`.
            tokenizer: is used instead of the one of the configuration.
        """
        config = resolved(content)
        corpus = corpus_of(config)
        source = corpus.source
        name = type(source).__name__.lower()
        tokenizer = tokenizer or TokenizerStage.of_text(config, corpus)
        meaning: Plain = {"heldout": source.heldout}
        # The run's name has the shuffle, too: two stores of one text would differ by their hash
        # alone. The tokenizer's text is not shuffled, so that the pieces are the same.
        if source.shuffle:
            name, meaning["shuffle"] = f"{name}-shuffled{source.shuffle}", source.shuffle
        inputs = corpus.inputs | {"tokenizer": tokenizer}
        return cls.of(name, corpus.meaning | meaning, meaning | {"data": config["data"]}, inputs)

    def work(self) -> Plain:
        source, folder = self.source(), self.path
        with bar(f"encoding text for {self.name}", source.characters()) as progress:
            pieces = load_tokenizer(self.inputs["tokenizer"].path)
            write_store(
                with_progress(source.documents(), progress),
                pieces,
                folder,
                self.config.heldout,
                shuffle=source.shuffle,
                alike=source.alike,
            )
        self.refuse_changed()
        written = Store(folder)
        if not source.alike:
            tell(folder)
        figures = {"sentences": len(written.sentences) - 1, "tokens": len(written.ids)}
        revisions = getattr(source, "revisions", None)
        return figures | ({"revisions": revisions} if revisions else {})


def text_name(store: Run) -> str:
    """How the folders of trainings on a store name its text: `files-wiki`, the last word of what
    `data` names; the text's kind alone where it names nothing."""
    data: Plain = store.config.data or {}
    ids = (str(text.get("id")) for text in data.get("texts") or ())
    place = data.get("corpus") or data.get("root") or " ".join(ids)
    word = re.sub(r"[^\w.+]+", "_", Path(place).name)[:40]
    return f"{store.name}-{word}" if word else store.name
