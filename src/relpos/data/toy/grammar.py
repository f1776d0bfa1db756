"""From an event to sentences, and a recogniser that says which word sequences are sentences.

SVO without case. Number stands on noun, determiner and verb; a clause may be active, passive or
negated, ask a question, or hang on a noun as a relative clause: "the dog that chases the cat" (of
the subject), "the dog that the cat chases" (of the object). An adverb stands first, before the
verb, or last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from relpos.data.toy import lexicon

Words = list[str]
FIRST, INNER, LAST = 0, 1, 2  # places of an adverb


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: "some big dogs". The determiner may be empty before a plural."""

    noun: str
    plural: bool = True
    determiner: str = ""
    adjective: str = ""

    def words(self) -> Words:
        noun = lexicon.plural(self.noun) if self.plural else self.noun
        return [word for word in (self.determiner, self.adjective, noun) if word]


@dataclass(frozen=True)
class Event:
    """Who does what to whom."""

    agent: Phrase
    verb: str
    patient: Phrase

    def exchanged(self) -> Event:
        return Event(self.patient, self.verb, self.agent)


def spelled(words: Words) -> str:
    """The sentence as it is written: punctuation stands at the word before it."""
    return " ".join(words).replace(" .", ".").replace(" ,", ",").replace(" ?", "?")


def agree(verb: str, subject: Phrase) -> str:
    return verb if subject.plural else lexicon.singular_verb(verb)


def be(subject: Phrase) -> str:
    return "are" if subject.plural else "is"


def do(subject: Phrase) -> str:
    return "do" if subject.plural else "does"


def active(event: Event, adverb: str = "", place: int = INNER, negated: bool = False) -> Words:
    """dogs often chase cats; the adverb stands first, before the verb, or last."""
    subject = event.agent.words()
    verb = [do(event.agent), "not", event.verb] if negated else [agree(event.verb, event.agent)]
    words = [*subject, *verb, *event.patient.words()]
    index = (0, len(subject) + len(verb) - 1, len(words))[place]
    return [*words[:index], *([adverb] if adverb else []), *words[index:], "."]


def passive(event: Event, negated: bool = False) -> Words:
    """cats are chased by dogs"""
    auxiliary = [be(event.patient), "not"] if negated else [be(event.patient)]
    return [
        *event.patient.words(),
        *auxiliary,
        lexicon.participle(event.verb),
        "by",
        *event.agent.words(),
        ".",
    ]


VOICES: tuple[Callable[..., Words], ...] = (active, passive)


def acts(subject: Phrase, act: str) -> Words:
    """the dog sleeps"""
    return [*subject.words(), agree(act, subject), "."]


def is_adjective(subject: Phrase, adjective: str, negated: bool = False) -> Words:
    """the dog is (not) big"""
    return [*subject.words(), be(subject), *(["not"] if negated else []), adjective, "."]


def subject_relative(event: Event, act: str) -> Words:
    """the dog that chases the cat sleeps: the agent does"""
    agent = event.agent
    return [
        *agent.words(),
        "that",
        agree(event.verb, agent),
        *event.patient.words(),
        agree(act, agent),
        ".",
    ]


def object_relative(event: Event, act: str) -> Words:
    """the cat that the dog chases sleeps: the patient does"""
    agent, patient = event.agent, event.patient
    return [
        *patient.words(),
        "that",
        *agent.words(),
        agree(event.verb, agent),
        agree(act, patient),
        ".",
    ]


def because(event: Event, adjective: str) -> Words:
    """dogs chase cats because they are angry"""
    pronoun = "they" if event.agent.plural else "it"
    return [*active(event)[:-1], "because", pronoun, be(event.agent), adjective, "."]


def whether(event: Event) -> Words:
    """does the dog chase the cat ?"""
    return [do(event.agent), *event.agent.words(), event.verb, *event.patient.words(), "?"]


def whether_passive(event: Event) -> Words:
    """is the cat chased by the dog ?"""
    patient = event.patient
    return [
        be(patient),
        *patient.words(),
        lexicon.participle(event.verb),
        "by",
        *event.agent.words(),
        "?",
    ]


def who_does(event: Event) -> Words:
    """who chases the cat ?"""
    return ["who", lexicon.singular_verb(event.verb), *event.patient.words(), "?"]


def who_undergoes(event: Event) -> Words:
    """who does the dog chase ?"""
    return ["who", do(event.agent), *event.agent.words(), event.verb, "?"]


# No clause can be nested in another of its kind, so that a regular expression over the words'
# classes recognises all sentences.
_CLASSES = lexicon.word_classes()
_ONE, _MANY = "[DA]j?n", "[DS]?j?N"
_ANY = f"(?:{_ONE}|{_MANY})"
_OF_OBJECT = f"(?:{_ONE})v|(?:{_MANY})V"
_REST_ONE = f"(?:r?v{_ANY}r?|dxr?V{_ANY}r?|r?ir?|Hx?r?pb{_ANY}r?|Hx?[jq])"
_REST_MANY = f"(?:r?V{_ANY}r?|oxr?V{_ANY}r?|r?Ir?|Rx?r?pb{_ANY}r?|Rx?[jq])"
_CLAUSE = f"r?(?:{_ONE}(?:t(?:v{_ANY}|{_OF_OBJECT}))?{_REST_ONE}|{_MANY}(?:t(?:V{_ANY}|{_OF_OBJECT}))?{_REST_MANY})"
_WHETHER = f"(?:d{_ONE}|o{_MANY})V{_ANY}|(?:H{_ONE}|R{_MANY})pb{_ANY}"
_WHO = f"w(?:v{_ANY}|(?:d{_ONE}|o{_MANY})V)"
PATTERN = re.compile(rf"{_CLAUSE}(?:c(?:eH|ER)j)?\.|(?:{_WHETHER}|{_WHO})\?")


def grammatical(words: Words) -> bool:
    """Whether the words, in this order, are a sentence of the language (it may be one that no task
    ever uses).

    Raises:
        KeyError: a word is not in the language.
    """
    return PATTERN.fullmatch("".join(_CLASSES[word] for word in words)) is not None
