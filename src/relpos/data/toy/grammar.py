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
Pair = tuple[Words, Words]
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

    def form(self, verb: str) -> str:
        """The form of a verb, `be` and `do` among them, beside this subject."""
        irregular = {"be": ("is", "are"), "do": ("does", "do")}
        forms = irregular.get(verb) or (lexicon.singular_verb(verb), verb)
        return forms[self.plural]

    def acts(self, act: str) -> Words:
        """the dog sleeps"""
        return f"{self} {self.form(act)} .".split()

    def is_adjective(self, adjective: str, negated: bool = False) -> Words:
        """the dog is (not) big"""
        return f"{self} {self.form('be')} {'not ' * negated}{adjective} .".split()


@dataclass(frozen=True)
class Event:
    """Who does what to whom."""

    agent: Phrase
    verb: str
    patient: Phrase

    def exchanged(self) -> Event:
        return Event(self.patient, self.verb, self.agent)

    def exchange(self, words: Words) -> Words:
        """The two phrases at each other's place in a sentence; every other word stays."""
        agent = str(self.agent)
        patient = str(self.patient)
        other = {agent: patient, patient: agent}
        pattern = rf"\b({agent}|{patient})\b"
        return re.sub(pattern, lambda phrase: other[phrase[0]], " ".join(words)).split()

    def active(self, adverb: str = "", place: int = INNER, negated: bool = False) -> Words:
        """dogs often chase cats; the adverb stands first, before the verb, or last."""
        auxiliary, verb = "", self.agent.form(self.verb)
        if negated:
            auxiliary, verb = f"{self.agent.form('do')} not", self.verb
        adverbs = ["", "", ""]
        adverbs[place] = adverb
        first, inner, last = adverbs
        return f"{first} {self.agent} {auxiliary} {inner} {verb} {self.patient} {last} .".split()

    def passive(self, negated: bool = False) -> Words:
        """cats are chased by dogs"""
        verb = f"{'not ' * negated}{lexicon.participle(self.verb)}"
        return f"{self.patient} {self.patient.form('be')} {verb} by {self.agent} .".split()

    def subject_relative(self, act: str) -> Words:
        """the dog that chases the cat sleeps: the agent does"""
        verb = self.agent.form(self.verb)
        return f"{self.agent} that {verb} {self.patient} {self.agent.form(act)} .".split()

    def object_relative(self, act: str) -> Words:
        """the cat that the dog chases sleeps: the patient does"""
        verb = self.agent.form(self.verb)
        return f"{self.patient} that {self.agent} {verb} {self.patient.form(act)} .".split()

    def because(self, adjective: str) -> Words:
        """dogs chase cats because they are angry"""
        pronoun = ("it", "they")[self.agent.plural]
        reason = f"because {pronoun} {self.agent.form('be')} {adjective} ."
        return self.active()[:-1] + reason.split()

    def whether(self) -> Words:
        """does the dog chase the cat ?"""
        return f"{self.agent.form('do')} {self.agent} {self.verb} {self.patient} ?".split()

    def whether_passive(self) -> Words:
        """is the cat chased by the dog ?"""
        verb = lexicon.participle(self.verb)
        return f"{self.patient.form('be')} {self.patient} {verb} by {self.agent} ?".split()

    def who_does(self) -> Words:
        """who chases the cat ?"""
        return f"who {lexicon.singular_verb(self.verb)} {self.patient} ?".split()

    def who_undergoes(self) -> Words:
        """who does the dog chase ?"""
        return f"who {self.agent.form('do')} {self.agent} {self.verb} ?".split()


VOICES: tuple[Callable[..., Words], ...] = (Event.active, Event.passive)
QUESTIONS = Event.who_does, Event.who_undergoes, Event.whether, Event.whether_passive


def spelled(words: Words) -> str:
    """The sentence as it is written: punctuation stands at the word before it."""
    return " ".join(words).replace(" .", ".").replace(" ,", ",").replace(" ?", "?")


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
