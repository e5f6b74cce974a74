"""Sentences whose words are nouns or verbs only by their neighbours: `the old man the boats .`"""

import random
from dataclasses import dataclass
from typing import ClassVar

from attnscope.text.examples import DrawnTask, Example, TaskForm

Tagged = list[tuple[str, str]]
TAGS = ("ADJ", "ADP", "ADV", "AUX", "DET", "NOUN", "PART", "PRON", "PUNCT", "VERB")
"""Universal parts of speech (Petrov et al. 2012; Nivre et al. 2016), those that occur."""
_BOTH: tuple[tuple[str, str], ...] = (
    ("watch", "watches"),
    ("paint", "paints"),
    ("plant", "plants"),
    ("cook", "cooks"),
    ("train", "trains"),
    ("ship", "ships"),
    ("book", "books"),
    ("guard", "guards"),
    ("film", "films"),
    ("nurse", "nurses"),
)
"""Noun, one or several; or verb, of several or of one."""
_NOUNS = (("man", "men"), ("boat", "boats"), ("dog", "dogs"), ("girl", "girls"), ("garden", "gardens"))
_VERBS = (*_BOTH, ("man", "mans"), ("see", "sees"), ("follow", "follows"), ("help", "helps"))
_PEOPLE = ("old", "young", "rich", "poor")
"""Adjective before a noun; behind `the` alone the noun for all such people."""
_ADJECTIVES = (*_PEOPLE, "small", "red", "quiet")
_SUBJECTS = (("she", False), ("he", False), ("they", True), ("we", True))
_ADVERBS, _AUXILIARIES, _PREPOSITIONS = ("often", "never"), ("will", "can"), ("near", "behind", "with")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggingTask(DrawnTask):
    """A part of speech for each word: most words can be two, and their neighbours decide which.

    `watches` is a noun behind a determiner and a verb behind a subject; `her` a determiner before a noun,
    otherwise a pronoun; `the old man` begins with an adjective unless `man` is the verb.
    Links lead from nouns and verbs to the word before, which tells most of them.
    """

    name: ClassVar[str] = "tagging"
    order: ClassVar[int] = 11
    form: ClassVar[TaskForm] = "encoder"

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word, once."""
        words = [word for pair in (*_BOTH, *_NOUNS, *_VERBS) for word in pair]
        words += [*_ADJECTIVES, *_ADVERBS, *_AUXILIARIES, *_PREPOSITIONS, *(word for word, _ in _SUBJECTS)]
        words += ["the", "a", "her", "them", "it", "want", "wants", "to", "."]
        return tuple(dict.fromkeys(words))

    word_labels: ClassVar[tuple[str, ...]] = TAGS

    def draw(self, rng: random.Random) -> Example:
        subject, is_plural = _subject(rng)
        sentence = [*subject, *_predicate(rng, is_plural), *_object(rng)]
        if rng.random() < 0.4:
            sentence += [(rng.choice(_PREPOSITIONS), "ADP"), *_object(rng)]
        words, tags = zip(*sentence, (".", "PUNCT"), strict=True)
        links = tuple((k, k - 1) for k, tag in enumerate(tags) if tag in ("NOUN", "VERB"))
        return Example(source=" ".join(words), links=links, word_labels=tags)


def _subject(rng: random.Random) -> tuple[Tagged, bool]:
    if rng.random() < 0.2:
        word, is_plural = rng.choice(_SUBJECTS)
        return [(word, "PRON")], is_plural
    return _phrase(rng)


def _object(rng: random.Random) -> Tagged:
    if rng.random() < 0.2:
        return [(rng.choice(("her", "them", "it")), "PRON")]
    return _phrase(rng)[0]


def _phrase(rng: random.Random) -> tuple[Tagged, bool]:
    """A determiner with a noun, and whether it is plural; the noun may be `rich` or `old`."""
    if rng.random() < 0.2:
        return [("the", "DET"), (rng.choice(_PEOPLE), "NOUN")], True
    is_plural = rng.random() < 0.5
    determiner = rng.choice(("the", "her") if is_plural else ("the", "her", "a"))
    adjective: Tagged = [(rng.choice(_ADJECTIVES), "ADJ")] if rng.random() < 0.5 else []
    noun = rng.choice((*_BOTH, *_NOUNS))[is_plural]
    return [(determiner, "DET"), *adjective, (noun, "NOUN")], is_plural


def _predicate(rng: random.Random, is_plural: bool) -> Tagged:
    adverb: Tagged = [(rng.choice(_ADVERBS), "ADV")] if rng.random() < 0.2 else []
    plain, third = rng.choice(_VERBS)
    way = rng.random()
    if way < 0.15:
        return [(rng.choice(_AUXILIARIES), "AUX"), *adverb, (plain, "VERB")]
    if way < 0.3:
        return [*adverb, ("want" if is_plural else "wants", "VERB"), ("to", "PART"), (plain, "VERB")]
    return [*adverb, (plain if is_plural else third, "VERB")]
