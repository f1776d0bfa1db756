"""Text, or a file of the user's own → `tokenizer.model` or, of another kind, `tokenizer.json`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relpos.config.schema import Pieces, RunConfig
from relpos.data.documents import with_progress
from relpos.data.filehash import described
from relpos.data.published_tokenizer import adopt, load_tokenizer
from relpos.data.tokenizer import train_tokenizer
from relpos.errors import RelposError, say
from relpos.places import expanded
from relpos.pretrained.files import tokenizer_files
from relpos.progress import bar
from relpos.ranges import Width
from relpos.readers import Plain, sha256
from relpos.runs.run import Run
from relpos.stages.stage import Stage
from relpos.stages.toy import Corpus

TOKENIZER_THREADS = 2
"""Fixed, because SentencePiece's pieces depend on the number of threads."""


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Pieces, RunConfig):
    vocabulary: Width
    sample: int = 0
    threads: int = TOKENIZER_THREADS


class TokenizerStage(Stage):
    config: TokenizerConfig
    stage, version = "tokenizer", 1

    @classmethod
    def of_text(cls, content: Plain, corpus: Corpus) -> Run:
        """The tokenizer of `data`, `vocabulary` and `tokenizer`, resolved; `corpus` is that of
        `data`."""
        own = content["tokenizer"]
        if own.get("file"):
            return cls._own(expanded(own["file"]).resolve(), content["vocabulary"])
        # Default settings are left out.
        settings = {key: value for key, value in own.items() if value != getattr(Pieces, key)}
        trained = {
            "vocabulary": content["vocabulary"],
            "sample": corpus.source.sample,
            "threads": TOKENIZER_THREADS,
            **settings,
        }
        words = []
        for key, value in settings.items():
            words.append(value if key == "kind" else key)
        name = "-".join([type(corpus.source).__name__.lower(), str(content["vocabulary"]), *words])
        meaning = corpus.meaning | trained
        return cls.of(name, meaning, trained | {"data": content["data"]}, corpus.inputs)

    @classmethod
    def _own(cls, path: Path, vocabulary: int) -> Run:
        """The tokenizer of a file, or of the folder of a checkpoint or a run. It is identified by
        what its files contain; nothing else of the configuration counts."""
        folder = path / "model" if (path / "model").is_dir() else path
        files = tokenizer_files(folder)
        if not path.is_file() and not files:
            raise RelposError(
                f"tokenizer={path}: there is no such file, and no folder with a tokenizer"
            )
        meaning: Plain = (
            {"file": sha256(path)} if path.is_file() else {"files": described(files, folder)}
        )
        return cls.of("own", meaning, {"file": str(folder), "vocabulary": vocabulary})

    def work(self) -> Plain:
        folder, config = self.path, self.config
        if config.file:
            adopt(Path(config.file), folder)
            return {"pieces": load_tokenizer(folder).size}
        source = self.source()
        with bar(f"reading text for {self.name}", source.characters()) as progress:
            train_tokenizer(
                with_progress(source.documents(), progress),
                folder,
                config.vocabulary,
                sample=config.sample,
                threads=config.threads,
                kind=config.kind,
                cased=config.cased,
                byte_fallback=config.byte_fallback,
            )
        self.refuse_changed()
        pieces = load_tokenizer(folder).size
        if pieces < config.vocabulary:
            say(f"relpos: the text yields {pieces:,} pieces instead of {config.vocabulary:,}")
        return {"pieces": pieces}
