"""Rows in which an earlier word determines the next one: a repeated row, brackets, agreement of a verb."""

import random
import string
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, ClassVar

from attnscope.errors import RecipeError
from attnscope.text.examples import DrawnTask, Example, Range, TaskForm

_PAIRS = ("()", "[]", "{}")
_NOUNS = (
    "key keys,cabinet cabinets,dog dogs,door doors,friend friends,king kings,letter letters,"
    "author authors,report reports,river rivers,teacher teachers,tree trees"
)
_NOUN_FORMS = tuple(tuple(pair.split()) for pair in _NOUNS.split(","))
_PREPOSITIONS = ("to", "near", "behind", "of", "with", "under")
_ADJECTIVES = ("old", "red", "small", "new")
_VERBS = ("is", "are")


@dataclass(frozen=True, slots=True, kw_only=True)
class InductionTask(DrawnTask):
    """A row of different random words, repeated once.

    From its second word on the second row can be predicted: a query on a word looks at the word after the
    same word in the first row (Olsson et al. 2022, "In-context Learning and Induction Heads").
    """

    name: ClassVar[str] = "induction"
    order: ClassVar[int] = 4
    form: ClassVar[TaskForm] = "decoder"
    min_words: Annotated[int, Range(1, 1000)] = 5
    max_words: Annotated[int, Range(1, 1000)] = 15
    vocabulary: ClassVar[tuple[str, ...]] = (*string.ascii_lowercase, *string.digits)

    def draw(self, rng: random.Random) -> Example:
        n = rng.randint(self.min_words, self.max_words)
        row = rng.sample(self.vocabulary, n)
        links = tuple((n + word, word + 1) for word in range(n - 1))
        return Example(source=" ".join(row + row), links=links, n_given=n + 1)

    def fault(self) -> RecipeError | None:
        n_words = len(self.vocabulary)
        if self.max_words <= n_words:
            return None
        return RecipeError(
            f"data.max_words is {self.max_words}.",
            expected=f"at most {n_words}, because the words of a row differ",
            action="Change data.max_words.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BracketsTask(DrawnTask):
    """Brackets of three kinds, properly nested.

    Which bracket opens next is chance; but where one closes, its kind is that of the innermost open one, and
    the query before it is linked to that one.
    """

    name: ClassVar[str] = "brackets"
    order: ClassVar[int] = 5
    form: ClassVar[TaskForm] = "decoder"
    min_pairs: Annotated[int, Range(1, 1000)] = 4
    max_pairs: Annotated[int, Range(1, 1000)] = 12
    vocabulary: ClassVar[tuple[str, ...]] = tuple("".join(_PAIRS))

    def draw(self, rng: random.Random) -> Example:
        n_left = rng.randint(self.min_pairs, self.max_pairs)
        words: list[str] = []
        open_at: list[int] = []
        links: list[tuple[int, int]] = []
        while n_left or open_at:
            if n_left and (not open_at or rng.random() < 0.5):
                open_at.append(len(words))
                words.append(rng.choice(_PAIRS)[0])
                n_left -= 1
                continue
            key = open_at.pop()
            links.append((len(words) - 1, key))
            words.append(next(pair[1] for pair in _PAIRS if pair[0] == words[key]))
        return Example(source=" ".join(words), links=tuple(links))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementTask(DrawnTask):
    """`the keys to the old cabinet are`: the verb agrees with the first noun, whatever comes between.

    The nouns between (attractors, Linzen et al. 2016) are singular or plural by chance. The query before the
    verb is linked to the first noun; only the verb can be predicted.
    """

    name: ClassVar[str] = "agreement"
    order: ClassVar[int] = 6
    form: ClassVar[TaskForm] = "decoder"
    max_attractors: Annotated[int, Range(0, 100)] = 3
    vocabulary: ClassVar[tuple[str, ...]] = (
        "the",
        *chain(*_NOUN_FORMS),
        *_PREPOSITIONS,
        *_ADJECTIVES,
        *_VERBS,
    )

    def draw(self, rng: random.Random) -> Example:
        subject_number = rng.randrange(2)
        words, head = self._noun_phrase(rng, subject_number)
        for _ in range(rng.randint(0, self.max_attractors)):
            phrase, _ = self._noun_phrase(rng, rng.randrange(2))
            words += [rng.choice(_PREPOSITIONS), *phrase]
        n_given = len(words)
        return Example(
            source=" ".join([*words, _VERBS[subject_number]]),
            links=((n_given - 1, head),),
            n_given=n_given,
        )

    def _noun_phrase(self, rng: random.Random, number: int) -> tuple[list[str], int]:
        noun = rng.choice(_NOUN_FORMS)[number]
        words = ["the", rng.choice(_ADJECTIVES), noun] if rng.random() < 0.4 else ["the", noun]
        return words, len(words) - 1
