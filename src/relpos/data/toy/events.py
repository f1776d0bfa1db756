"""Drawing events so that what is held out for dev and test is held out everywhere.

The key of an event is its two nouns, in no order, and the sense of its verb. So no permutation, other voice or synonym of a
dev sentence is in a train file or in the corpus.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256

from relpos.data.toy import lexicon
from relpos.data.toy.chance import Chance
from relpos.data.toy.grammar import Event, Phrase

PARTS = ("dev", "test", "train", "train", "train", "train", "train", "train")


@cache
def part_of(key: str) -> str:
    """train (6/8 of the keys), dev or test. The same for every seed."""
    return PARTS[int.from_bytes(sha256(key.encode()).digest()[:4], "big") % len(PARTS)]


def key(one: str, verb: str, other: str) -> str:
    return " ".join([*sorted((one, other)), lexicon.sense(verb)])


def event_key(event: Event) -> str:
    return key(event.agent.noun, event.verb, event.patient.noun)


def triple(chance: Chance, part: str, nouns: tuple[str, ...] = lexicon.PEOPLE) -> tuple[str, str, str]:
    """(noun, verb, other noun) of this part."""

    def draw() -> tuple[str, str, str]:
        one, other = chance.distinct(nouns, 2)
        return one, chance.pick(lexicon.VERBS), other

    return chance.until(draw, lambda drawn: part_of(key(*drawn)) == part)


def two_events(
    chance: Chance, part: str, kept: set[str], nouns: tuple[str, ...], verbs: tuple[str, ...]
) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Two triples of this part that agree in `kept`, a subset of {agent, verb, patient}, and in nothing else.

    Verbs that differ do so in sense. The two are drawn alike, so no word tells the first from the second.
    """

    def draw() -> tuple[tuple[str, str, str], tuple[str, str, str]]:
        agent, patient, *fresh = chance.distinct(nouns, 4)
        verb = chance.pick(verbs)
        other = verb if "verb" in kept else chance.pick(verbs)
        pair = agent if "agent" in kept else fresh[0], other, patient if "patient" in kept else fresh[1]
        return (agent, verb, patient), pair

    def accept(drawn: tuple[tuple[str, str, str], tuple[str, str, str]]) -> bool:
        one, other = drawn
        differs = "verb" in kept or lexicon.sense(one[1]) != lexicon.sense(other[1])
        return differs and part_of(key(*one)) == part and part_of(key(*other)) == part

    return chance.until(draw, accept)


def varied(chance: Chance, noun: str, adjective: float = 0.3) -> Phrase:
    """A phrase of any number and determiner."""
    plural = chance.coin()
    word = chance.pick(lexicon.ADJECTIVES) if chance.coin(adjective) else ""
    return Phrase(noun, plural, chance.pick(("the", "some", "") if plural else ("the", "the", "a")), word)


def alike(chance: Chance, one: str, verb: str, other: str) -> Event:
    """Both nouns in the same number and with the same determiner: agreement says nothing of who does it to whom."""
    plural = chance.coin()
    determiner = chance.pick(("the", "")) if plural else "the"
    return Event(Phrase(one, plural, determiner), verb, Phrase(other, plural, determiner))


def bare(one: str, verb: str, other: str) -> Event:
    """dogs chase cats"""
    return Event(Phrase(one), verb, Phrase(other))
