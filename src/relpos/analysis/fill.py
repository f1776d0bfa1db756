"""What a masked language model puts in place of `[MASK]`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from relpos.analysis.likelihood import exact
from relpos.data.tokenizer import Ids, Tokenizer
from relpos.errors import RelposError
from relpos.model.heads import MaskedLM


@dataclass(frozen=True)
class Guess:
    """One piece for one masked token.

    Args:
        piece: as the tokenizer has it.
        id: of the piece.
        probability: of the piece at this token, given all tokens that are not masked.
        text: the whole text with this piece in place; other masked tokens stay masked.
    """

    piece: str
    id: int
    probability: float
    text: str


class FillMask:
    """A text → the most probable pieces at each of its masked tokens, computed in float32 on the network's device."""

    def __init__(self, model: MaskedLM, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, text: str, top: int = 5) -> list[list[Guess]]:
        """For each masked token, from left to right, the `top` most probable pieces, the most probable first.

        Raises:
            RelposError: no token of the text is masked, or it is longer than the position scheme serves.
        """
        ids = self.tokenizer.marked_ids(text)
        places = (ids == self.tokenizer.mask).nonzero()[0].tolist()
        if not places:
            raise RelposError(f"text={text!r}: no [MASK] in it, as in 'the cat [MASK] on the mat'")
        with exact(self.model) as model:
            device = next(model.parameters()).device
            read = [place - model.encoder.causal for place in places]  # a causal network predicts it from what stands before it
            # The last layer computes the masked tokens alone.
            hidden = model.encoder(torch.from_numpy(ids)[None].to(device), at=torch.tensor(read, device=device))
            logits = model.head(hidden, model.table).double()
            # In float64: probabilities of rare words would lose their digits.
            best = logits.softmax(-1).topk(min(top, logits.shape[-1]), -1)
        return [
            [self._guess(ids, place, number, value) for number, value in zip(numbers, values, strict=True)]
            for place, numbers, values in zip(places, best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _guess(self, ids: Ids, place: int, number: int, probability: float) -> Guess:
        filled, tokenizer = ids.tolist(), self.tokenizer
        filled[place] = number
        # For a person: without the [CLS] in front and the [SEP] at the end.
        first, last = int(filled[0] == tokenizer.cls), len(filled) - (filled[-1] == tokenizer.sep)
        return Guess(tokenizer.piece(number), number, probability, tokenizer.decode_marked(filled[first:last]))
