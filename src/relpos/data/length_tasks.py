"""Length generalisation tasks: strings of symbols whose answers are known (after Delétang et al. 2023, "Neural networks and the
Chomsky hierarchy", and Ruoss et al. 2023, "Randomized positional encodings boost length generalization of transformers").

An example is a pair of sentences, [CLS] question [SEP] answer [SEP]. With `recipe.masking=answer` every token of the answer is
masked and the network fills all of them at once, so that it is told how long the answer is. Questions of the text have 1 to
`longest` symbols, those of `Recall` one more at most. A hash of the question decides whether it may stand there: those that are
drawn with part "test" never do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NoReturn

from relpos.data.documents import Document
from relpos.data.toy.events import Chance, part_of
from relpos.errors import RelposError
from relpos.ranges import Count, Natural, between

VERSION = 1  # raise it when the drawn examples change: it stands in the identity of every run on this text
DOCUMENT = 100  # examples
Symbols = list[str]
Example = tuple[Symbols, Symbols]
Longest = Annotated[int, between(4, 1000)]
"""Questions of fewer symbols are so few that a hash may put none of them into the test."""


@dataclass(frozen=True)
class LengthTask(ABC):
    """One task as a source of text.

    Args:
        longest: symbols of a question in the text, at most; `Recall` may have one more.
        examples: of the text. Short questions occur more than once among them.
        seed: of the draws.
        masking: what `recipe.masking` is where nothing else is said.
    """

    longest: Longest = 10
    examples: Count = 20_000
    seed: Natural = 0
    masking: str = "answer"

    symbols: ClassVar[str] = "abcdefghijklmnop"
    heldout: ClassVar[float] = 0.02
    """Share of the documents, for the held-out loss. They may repeat short questions of the training; part "test" never does."""
    shuffle: ClassVar[None] = None
    alike: ClassVar[bool] = True
    """The order of the symbols is the question."""

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @property
    def sample(self) -> int:
        """Sentences that the tokenizer is trained on: all, because every symbol must become a piece."""
        return 2 * self.examples + 1

    def question(self, chance: Chance, length: int) -> Symbols:
        """`length` symbols, each drawn from all."""
        return [chance.pick(self.symbols) for _ in range(length)]

    @abstractmethod
    def answer(self, question: Symbols) -> Symbols:
        """The one right answer."""

    def draw(self, chance: Chance, part: str, lengths: range) -> Example:
        """A question and its answer.

        Args:
            chance: the draws.
            part: `train`, or `test` for a question that stands nowhere in the text.
            lengths: of the question, each as probable as any, as far as it has questions of this part.
        """
        # The length is drawn again in each attempt: of a short one all questions may be of the other part.
        question = chance.until(
            lambda: self.question(chance, chance.pick(lengths)), lambda drawn: part_of(f"{self.name} {' '.join(drawn)}") == part
        )
        return question, self.answer(question)

    def documents(self, progress: object = None) -> Iterator[Document]:
        """The text. The first document ends with a list of the symbols, because SentencePiece makes pieces only of what occurs in
        two strings between spaces. It is the last of an odd number of sentences, so that it is in no pair."""
        for start in range(0, self.examples, DOCUMENT):
            # Draws of its own for each document: with more examples, the documents before stay as they are.
            chance = Chance(self.seed, self.name, self.longest, start)
            drawn = [self.draw(chance, "train", range(1, self.longest + 1)) for _ in range(min(DOCUMENT, self.examples - start))]
            symbols = [] if start else [f"{', '.join(self.symbols)}."]
            yield Document(f"{self.name} {start}", iter([" ".join(part) for example in drawn for part in example] + symbols))

    def characters(self) -> int | None:
        """None: the amount of text is not known before it is drawn."""
        return None

    def identity(self) -> dict[str, Any]:
        """The generator's version and its keys."""
        return {"length_task": VERSION, "task": self.name, "longest": self.longest, "examples": self.examples, "seed": self.seed}

    def glue_identity(self, task: object) -> dict[str, Any] | None:
        """None: there are no files of GLUE."""
        return None

    def glue_location(self) -> NoReturn:
        """Raises: RelposError, always."""
        raise RelposError(f"data={self.name}: it has no GLUE tasks; name data=toy, data=files or data=hub")


class Copy(LengthTask):
    """The question itself."""

    def answer(self, question: Symbols) -> Symbols:
        return list(question)


class Reverse(LengthTask):
    """The question from its last symbol to its first."""

    def answer(self, question: Symbols) -> Symbols:
        return question[::-1]


class Sort(LengthTask):
    """The question's symbols in alphabetical order. Their order in the question does not matter."""

    def answer(self, question: Symbols) -> Symbols:
        return sorted(question)


class Parity(LengthTask):
    """Bits, and whether they hold an odd number of ones: 1, else 0. Their order does not matter."""

    symbols: ClassVar[str] = "01"

    def answer(self, question: Symbols) -> Symbols:
        return [str(question.count("1") % 2)]


@dataclass(frozen=True)
class Recall(LengthTask):
    """Associative recall: pairs of a key (a letter, no two alike) and a value (a digit), then one of the keys; the answer is its
    value. A question of length n has n // 2 pairs, at least one, and so 2 max(1, n // 2) + 1 symbols: n + 1 where n is even."""

    longest: Annotated[int, between(4, 26)] = 10  # twice as many symbols hold 26 pairs, and there are 26 letters

    keys: ClassVar[str] = "abcdefghijklmnopqrstuvwxyz"
    values: ClassVar[str] = "0123456789"
    symbols: ClassVar[str] = keys + values

    def question(self, chance: Chance, length: int) -> Symbols:
        keys = chance.distinct(self.keys, max(1, length // 2))
        return [symbol for key in keys for symbol in (key, chance.pick(self.values))] + [chance.pick(keys)]

    def answer(self, question: Symbols) -> Symbols:
        return [question[question.index(question[-1]) + 1]]
