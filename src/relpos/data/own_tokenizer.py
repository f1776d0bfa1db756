"""A tokenizer that somebody else has made, a SentencePiece model or a `tokenizer.json`, with the special tokens that we need.

Its ids stay as they are. A special token that it has none for is added behind its pieces.
"""

from __future__ import annotations

from pathlib import Path

from relpos.data.published_tokenizer import PublishedTokenizer
from relpos.data.tokenizer import FILE, NAMES, Tokenizer
from relpos.errors import RelposError, one_line
from relpos.files import replacing
from relpos.readers import read_bytes


def adopt(file: Path, folder: Path) -> None:
    """Writes into `folder` what `load_tokenizer` reads.

    Args:
        file: of any name: what it contains says which of the two it is.
        folder: is made where it does not exist.

    Raises:
        RelposError: it is neither, or the library that reads it is not installed.
    """
    content = read_bytes(file)
    folder.mkdir(parents=True, exist_ok=True)
    if content.lstrip()[:1] == b"{":
        _adopt_json(file, folder)
    else:
        _adopt_sentencepiece(content, file, folder)


def _adopt_sentencepiece(content: bytes, file: Path, folder: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2 as form

    try:
        model = form.ModelProto.FromString(content)  # type: ignore[attr-defined]
    except Exception as error:  # protobuf's own class
        raise RelposError(f"tokenizer={file}: neither a SentencePiece model nor a tokenizer.json: {one_line(error)}") from None
    numbers = {piece.piece: number for number, piece in enumerate(model.pieces)}
    control = form.ModelProto.SentencePiece.CONTROL  # type: ignore[attr-defined]
    for names in NAMES.values():
        name = next((name for name in names if name in numbers), names[0])
        piece = model.pieces[numbers[name]] if name in numbers else model.pieces.add(piece=name, score=0.0)
        piece.type = control  # a text that spells it is not encoded as the special token
    with replacing(folder / FILE) as temporary:
        temporary.write_bytes(model.SerializeToString())
    Tokenizer.load(folder)


def _adopt_json(file: Path, folder: Path) -> None:
    try:
        from tokenizers import processors
        from transformers import PreTrainedTokenizerFast
    except ImportError:
        raise RelposError(f"tokenizer={file}: needs transformers: pip install transformers") from None
    try:
        host = PreTrainedTokenizerFast(tokenizer_file=str(file))
    except Exception as error:  # damaged files raise errors of many unrelated types
        raise RelposError(f"tokenizer={file}: {one_line(error)}") from None
    known = host.get_vocab()
    names = NAMES | {"unk": ("[UNK]", "<unk>")}
    host.add_special_tokens({f"{role}_token": next((n for n in some if n in known), some[0]) for role, some in names.items()})
    backend = host.backend_tokenizer
    if not backend.num_special_tokens_to_add(is_pair=False):
        marks = host.cls_token, host.sep_token
        backend.post_processor = processors.TemplateProcessing(
            single=f"{marks[0]}:0 $A:0 {marks[1]}:0",
            pair=f"{marks[0]}:0 $A:0 {marks[1]}:0 $B:0 {marks[1]}:0",
            special_tokens=[(mark, host.convert_tokens_to_ids(mark)) for mark in marks],
        )
    host.save_pretrained(str(folder))
    PublishedTokenizer(folder)
