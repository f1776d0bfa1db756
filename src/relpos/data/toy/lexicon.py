"""The words of the toy language and what they mean to each other. English in looks only: every form
is regular."""

from __future__ import annotations

ANIMALS = ("dog", "cat", "horse", "cow", "pig", "rabbit", "bird", "bear", "goat", "lion")
WORKERS = (
    "farmer",
    "teacher",
    "doctor",
    "baker",
    "singer",
    "painter",
    "driver",
    "lawyer",
    "sailor",
    "waiter",
)
PEOPLE = ANIMALS + WORKERS
HYPERNYM = {**dict.fromkeys(ANIMALS, "animal"), **dict.fromkeys(WORKERS, "worker")}
THINGS = (
    "book",
    "film",
    "song",
    "story",
    "garden",
    "hotel",
    "meal",
    "movie",
    "novel",
    "poem",
    "room",
    "show",
)

# A row is an axis: the synonyms at one pole and those at the other.
VERB_AXES = (
    (("help", "assist"), ("hinder", "block")),
    (("push", "shove"), ("pull", "drag")),
    (("admire", "respect"), ("despise", "scorn")),
)
PLAIN_VERBS = ("chase", "follow", "visit", "warn", "greet", "paint")
VERBS = tuple(verb for axis in VERB_AXES for pole in axis for verb in pole) + PLAIN_VERBS
ACTS = ("sleep", "jump", "dance", "laugh", "shout", "work", "wander", "yawn", "swim", "rest")

ADJECTIVE_AXES = (
    (("big", "large"), ("small", "little")),
    (("quick", "fast"), ("slow", "sluggish")),
    (("smart", "clever"), ("silly", "foolish")),
    (("calm", "quiet"), ("loud", "noisy")),
)
ADJECTIVES = tuple(word for axis in ADJECTIVE_AXES for pole in axis for word in pole)
OF_AGENT = ("angry", "bored", "curious", "eager", "jealous", "greedy")  # why one does it
OF_PATIENT = ("late", "lost", "weak", "rude", "careless", "stubborn")  # why it is done to one
ADVERBS = ("often", "always", "gladly", "rarely", "today", "again", "daily", "secretly")
POSITIVE = ("good", "great", "lovely", "fine", "superb", "charming", "pleasant", "brilliant")
NEGATIVE = ("bad", "awful", "dull", "ugly", "poor", "boring", "nasty", "terrible")


def _relations(
    axes: tuple[tuple[tuple[str, ...], ...], ...],
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Each word's synonym, and the words opposite to it."""
    synonym: dict[str, str] = {}
    opposites: dict[str, tuple[str, ...]] = {}
    for left, right in axes:
        for pole, opposite in ((left, right), (right, left)):
            synonym |= {pole[0]: pole[1], pole[1]: pole[0]}
            opposites |= dict.fromkeys(pole, opposite)
    return synonym, opposites


SYNONYM, OPPOSITES = _relations(VERB_AXES + ADJECTIVE_AXES)
OPPOSABLE = tuple(verb for verb in VERBS if verb in OPPOSITES)


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
    nouns = PEOPLE + THINGS + ("animal", "worker")
    forms = [[noun, plural(noun)] for noun in nouns]
    forms += [[verb, singular_verb(verb), participle(verb)] for verb in VERBS]
    forms += [[act, singular_verb(act)] for act in ACTS]
    forms += [list(pole) for axis in ADJECTIVE_AXES for pole in axis]
    # Words of one form, in twos: in the lines of `corpus.word_list` each must stand beside a comma
    # and beside a full stop.
    for words in (OF_AGENT, OF_PATIENT, ADVERBS, POSITIVE, NEGATIVE):
        forms += [list(pair) for pair in zip(words[::2], words[1::2], strict=True)]
    return forms + [
        line.split()
        for line in (
            "the a some",
            "is are",
            "do does not",
            "it they",
            "and but",
            "who that by because",
        )
    ]


def word_classes() -> dict[str, str]:
    """Every word with a letter for its class, as `grammar.PATTERN` reads it."""
    nouns = PEOPLE + THINGS + ("animal", "worker")
    classes = {
        "the": "D",
        "a": "A",
        "some": "S",
        "that": "t",
        "by": "b",
        "not": "x",
        "who": "w",
        "because": "c",
    }
    classes |= {
        "is": "H",
        "are": "R",
        "does": "d",
        "do": "o",
        "it": "e",
        "they": "E",
        ".": ".",
        "?": "?",
    }
    classes |= dict.fromkeys(nouns, "n") | {plural(noun): "N" for noun in nouns}
    classes |= dict.fromkeys(VERBS, "V") | {singular_verb(verb): "v" for verb in VERBS}
    classes |= {participle(verb): "p" for verb in VERBS}
    classes |= dict.fromkeys(ACTS, "I") | {singular_verb(act): "i" for act in ACTS}
    classes |= dict.fromkeys(ADJECTIVES + OF_AGENT + OF_PATIENT, "j") | dict.fromkeys(ADVERBS, "r")
    return classes | dict.fromkeys(POSITIVE + NEGATIVE, "q") | {"and": "k", "but": "k", ",": ","}
