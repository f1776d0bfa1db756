"""What `relpos analyze` draws of random networks."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from relpos.analysis import toeplitz_r2
from relpos.commands.analyze import drawn
from relpos.data.tokenizer import OURS
from relpos.errors import RelposError
from relpos.measures.kinds.attention import AttentionByOffset
from relpos.measures.kinds.removal import HELDOUT_SEED, Removal, masked_texts, passed, train_head
from relpos.measures.kinds.toeplitz import Toeplitz
from relpos.measures.maps import Profiles, Similarity
from relpos.measures.measure import Drawing, Measure
from relpos.measures.sample import Sample
from relpos.runs.networks import Network
from schemes import VOCABULARY, model_of


class Pieces:
    """A tokenizer of 23 pieces, each a word."""

    cls, sep, mask, size, marks, marks_ends = 2, 3, 4, VOCABULARY, OURS, False

    def word_piece(self, number: int) -> str:
        return f"▁{chr(97 + number)}" if number > 4 else ""

    def sample(self) -> tuple[str, int]:
        return "", 0

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        return [np.zeros(0, np.int64) for _ in texts]


def texts(count: int, length: int) -> torch.Tensor:
    return torch.randint(
        5, VOCABULARY, (count, length), generator=torch.Generator().manual_seed(count)
    )


@dataclass(frozen=True)
class RandomSample(Sample):
    """A random network with texts."""

    model_: Any = None

    @cached_property
    def any_model(self) -> Any:
        return self.model_

    @cached_property
    def tokenizer(self) -> Any:
        return Pieces()

    def texts(self, count: int, length: int, part: str = "heldout") -> torch.Tensor:
        return texts(count, length)


def sample(position: str, conv: str = "none") -> RandomSample:
    return RandomSample(
        Network(f"{position}-net", Path(), Path()), model_=model_of(position, conv).eval()
    )


def absolute(measure: Measure) -> list[Drawing]:
    """What is drawn of a network with a table of positions."""
    return drawn(measure, [sample("absolute")])


def products(start: int = 0, end: int = 16) -> np.ndarray:
    """A block of P of that network."""
    rows = sample("absolute").encoder.position.table.detach().numpy()[start:end]
    return rows @ rows.T


def test_products_of_rows_are_drawn_and_written(tmp_path):
    [drawing] = absolute(Similarity())
    assert drawing.rows[15]["offset"] == 0
    assert drawing.rows[15]["P"] == pytest.approx(np.trace(products()) / 16)
    assert drawing.rows[15]["cosine"] == pytest.approx(1.0)
    paths = drawing.save(tmp_path)
    assert [path.suffix for path in paths] == [".csv", ".png", ".pdf"]
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert paths[2].read_bytes().startswith(b"%PDF")


def test_r2_is_given_for_p_its_blocks_and_every_head():
    [drawing] = absolute(Toeplitz(length=8, block=12, random=2))
    scores = {row["matrix"]: row["r2"] for row in drawing.rows}
    assert list(scores)[:2] == ["P", "cosine"]
    for start, end in ((0, 12), (12, 16)):
        r2 = toeplitz_r2(products(start, end))
        assert scores[f"P, positions {start + 1} to {end}"] == pytest.approx(r2)
    heads = [(row["layer"], row["head"]) for row in drawing.rows if row["matrix"] == "F_P"]
    assert heads == list(product((1, 2), repeat=2))


def test_profiles_stand_beside_the_functions_fitted_to_them():
    maps, fits = absolute(Profiles(length=12, functions=1))
    assert len(maps.rows) == 2 * 23
    assert [(row["head"], row["function"]) for row in fits.rows] == [(1, 1), (2, 1)]
    assert max(abs(row["mean"] - row["fit"]) for row in maps.rows) > 0


def test_removal_takes_the_order_away_and_every_variant_is_measured():
    [drawing] = absolute(Removal(functions=(1,), seeds=1, texts=6, length=10, head_texts=6))
    names = [row["network"] for row in drawing.rows]
    assert names[:3] == ["intact", "removed", "TISA from regression, S = 1"]
    assert len(names) == 6
    intact, removed = drawing.rows[:2]
    assert removed["order_gap"] == pytest.approx(0, abs=1e-9)
    assert abs(intact["order_gap"]) > 1e-6
    assert intact["output_distance"] == 0 < removed["output_distance"]


def test_a_network_without_a_table_is_refused_before_a_head_is_trained():
    class Wordless(RandomSample):
        def texts(self, *_: object) -> torch.Tensor:
            raise AssertionError("a text was read")

    encoder = model_of("rope").encoder
    with pytest.raises(RelposError, match="Rope is more than a table of position embeddings"):
        drawn(Removal(), [Wordless(Network("rope-net", Path(), Path()), model_=encoder)])


def test_a_head_is_trained_while_the_encoder_stays_as_it_is():
    model = model_of("absolute").float()
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    ids, tokenizer = texts(32, 10), sample("absolute").tokenizer
    trained = train_head(model.encoder, ids, tokenizer, epochs=20, lr=0.05)
    masked = masked_texts(ids, tokenizer, HELDOUT_SEED)
    predicted = sum(int((labels != -100).sum()) for _, labels in masked)
    assert passed(trained, masked)[0].sum() / predicted < np.log(VOCABULARY)
    assert all(
        torch.equal(before[name], value) for name, value in trained.encoder.state_dict().items()
    )
    assert not any(parameter.requires_grad for parameter in trained.parameters())


def test_an_error_without_text_names_the_option():
    with pytest.raises(RelposError, match="text=FILE"):
        drawn(AttentionByOffset(), [Sample(Network("x", Path(), Path()))])
