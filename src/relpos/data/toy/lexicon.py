"""The words of the toy language and what they mean to each other. English in looks only: every form
is regular."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ANIMALS = _words("dog cat horse cow pig rabbit bird bear goat lion")
WORKERS = _words("farmer teacher doctor baker singer painter driver lawyer sailor waiter")
PEOPLE = ANIMALS + WORKERS
HYPERNYM = dict.fromkeys(ANIMALS, "animal") | dict.fromkeys(WORKERS, "worker")
THINGS = _words("book film song story garden hotel meal movie novel poem room show")
NOUNS = (*PEOPLE, *THINGS, "animal", "worker")

# Four words are an axis: two synonyms at one pole, two at the other.
OPPOSABLE = _words("help assist hinder block  push shove pull drag  admire respect despise scorn")
VERBS = OPPOSABLE + _words("chase follow visit warn greet paint")
ACTS = _words("sleep jump dance laugh shout work wander yawn swim rest")
ADJECTIVES = _words(
    "big large small little  quick fast slow sluggish  smart clever silly foolish  "
    "calm quiet loud noisy"
)
OF_AGENT = _words("angry bored curious eager jealous greedy")  # why one does it
OF_PATIENT = _words("late lost weak rude careless stubborn")  # why it is done to one
ADVERBS = _words("often always gladly rarely today again daily secretly")
POSITIVE = _words("good great lovely fine superb charming pleasant brilliant")
NEGATIVE = _words("bad awful dull ugly poor boring nasty terrible")

_POLES = [words[at : at + 2] for words in (OPPOSABLE, ADJECTIVES) for at in range(0, len(words), 2)]
SYNONYM = {word: other for pole in _POLES for word, other in (pole, pole[::-1])}
OPPOSITES = {word: _POLES[at ^ 1] for at, pole in enumerate(_POLES) for word in pole}


def sense(word: str) -> str:
    """One name for a word and its synonym."""
    return min(word, SYNONYM.get(word, word))


def plural(noun: str) -> str:
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def singular_verb(verb: str) -> str:
    if verb.endswith(("sh", "ss")):
        return f"{verb}es"
    return f"{verb}s"


def participle(verb: str) -> str:
    if verb == "drag":
        return "dragged"
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb}ed"


def paradigms() -> list[list[str]]:
    """The forms of every word: [dog, dogs], [chase, chases, chased], …"""
    forms = [[noun, plural(noun)] for noun in NOUNS]
    forms += [[verb, singular_verb(verb), participle(verb)] for verb in VERBS]
    forms += [[act, singular_verb(act)] for act in ACTS]
    # Words of one form, in twos: in the lines of `corpus.word_list` each must stand beside a comma
    # and beside a full stop.
    for words in (ADJECTIVES, OF_AGENT, OF_PATIENT, ADVERBS, POSITIVE, NEGATIVE):
        forms += map(list, zip(words[::2], words[1::2], strict=True))
    closed = "the a some|is are|do does not|it they|and but|who that by because"
    return forms + [line.split() for line in closed.split("|")]


def word_classes() -> dict[str, str]:
    """Every word with a letter for its class, as `grammar.PATTERN` reads it."""
    open_classes = {
        "n": NOUNS,
        "N": map(plural, NOUNS),
        "V": VERBS,
        "v": map(singular_verb, VERBS),
        "p": map(participle, VERBS),
        "I": ACTS,
        "i": map(singular_verb, ACTS),
        "j": ADJECTIVES + OF_AGENT + OF_PATIENT,
        "r": ADVERBS,
        "q": POSITIVE + NEGATIVE,
    }
    closed = _words(
        "the D  a A  some S  that t  by b  not x  who w  because c  is H  are R  does d  do o  "
        "it e  they E  and k  but k  . .  , ,  ? ?"
    )
    classes = {word: letter for letter, words in open_classes.items() for word in words}
    return classes | dict(zip(closed[::2], closed[1::2], strict=True))
