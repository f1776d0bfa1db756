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
PLACES = FIRST, INNER, LAST = 0, 1, 2  # of an adverb


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: "some big dogs". The determiner may be empty before a plural."""

    noun: str
    plural: bool = True
    determiner: str = ""
    adjective: str = ""

    def __str__(self) -> str:
        noun = self.noun
        if self.plural:
            noun = lexicon.plural(noun)
        return " ".join(filter(None, (self.determiner, self.adjective, noun)))


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
    """The form of a verb, `be` and `do` among them, beside this subject."""
    irregular = {"be": ("is", "are"), "do": ("does", "do")}
    forms = irregular.get(verb) or (lexicon.singular_verb(verb), verb)
    return forms[subject.plural]


def active(event: Event, adverb: str = "", place: int = INNER, negated: bool = False) -> Words:
    """dogs often chase cats; the adverb stands first, before the verb, or last."""
    verb = agree(event.verb, event.agent)
    auxiliary = ""
    if negated:
        auxiliary, verb = f"{agree('do', event.agent)} not", event.verb
    adverbs = ["", "", ""]
    adverbs[place] = adverb
    first, inner, last = adverbs
    return f"{first} {event.agent} {auxiliary} {inner} {verb} {event.patient} {last} .".split()


def passive(event: Event, negated: bool = False) -> Words:
    """cats are chased by dogs"""
    verb = f"{'not ' * negated}{lexicon.participle(event.verb)}"
    return f"{event.patient} {agree('be', event.patient)} {verb} by {event.agent} .".split()


VOICES: tuple[Callable[..., Words], ...] = (active, passive)


def acts(subject: Phrase, act: str) -> Words:
    """the dog sleeps"""
    return f"{subject} {agree(act, subject)} .".split()


def is_adjective(subject: Phrase, adjective: str, negated: bool = False) -> Words:
    """the dog is (not) big"""
    return f"{subject} {agree('be', subject)} {'not ' * negated}{adjective} .".split()


def subject_relative(event: Event, act: str) -> Words:
    """the dog that chases the cat sleeps: the agent does"""
    agent = event.agent
    verb = agree(event.verb, agent)
    return f"{agent} that {verb} {event.patient} {agree(act, agent)} .".split()


def object_relative(event: Event, act: str) -> Words:
    """the cat that the dog chases sleeps: the patient does"""
    agent, patient = event.agent, event.patient
    return f"{patient} that {agent} {agree(event.verb, agent)} {agree(act, patient)} .".split()


def because(event: Event, adjective: str) -> Words:
    """dogs chase cats because they are angry"""
    pronoun = ("it", "they")[event.agent.plural]
    reason = f"because {pronoun} {agree('be', event.agent)} {adjective} ."
    return active(event)[:-1] + reason.split()


def whether(event: Event) -> Words:
    """does the dog chase the cat ?"""
    return f"{agree('do', event.agent)} {event.agent} {event.verb} {event.patient} ?".split()


def whether_passive(event: Event) -> Words:
    """is the cat chased by the dog ?"""
    patient, verb = event.patient, lexicon.participle(event.verb)
    return f"{agree('be', patient)} {patient} {verb} by {event.agent} ?".split()


def who_does(event: Event) -> Words:
    """who chases the cat ?"""
    return f"who {lexicon.singular_verb(event.verb)} {event.patient} ?".split()


def who_undergoes(event: Event) -> Words:
    """who does the dog chase ?"""
    return f"who {agree('do', event.agent)} {event.agent} {event.verb} ?".split()


QUESTIONS = who_does, who_undergoes, whether, whether_passive


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
    return PATTERN.fullmatch("".join(map(_CLASSES.__getitem__, words))) is not None
