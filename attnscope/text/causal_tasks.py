"""Tasks for decoders, in which an earlier word tells the next one: induction, brackets, agreement."""

import random
import string
from dataclasses import dataclass
from typing import ClassVar

from attnscope.text.examples import Example, TaskForm, draw_examples

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
class InductionTask:
    """A row of different random words, written twice.

    From its second word on the second row can be predicted: a query on a word looks at the word after the
    same word in the first row (Olsson et al. 2022, "In-context Learning and Induction Heads").
    """

    name: ClassVar[str] = "induction"
    form: ClassVar[TaskForm] = "decoder"
    min_words: int = 5
    max_words: int = 15

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Letters and digits."""
        return (*string.ascii_lowercase, *string.digits)

    def _draw(self, rng: random.Random) -> Example:
        n = rng.randint(self.min_words, self.max_words)
        row = rng.sample(self.vocabulary, n)
        links = tuple((n + word, word + 1) for word in range(n - 1))
        return Example(source=" ".join(row + row), links=links, n_given=n + 1)

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` rows, each written twice."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class BracketsTask:
    """Brackets of three kinds, properly nested.

    Which bracket opens next is chance; but where one closes, its kind is that of the innermost open one, and
    the query before it is linked to that one.
    """

    name: ClassVar[str] = "brackets"
    form: ClassVar[TaskForm] = "decoder"
    min_pairs: int = 4
    max_pairs: int = 12

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The brackets."""
        return tuple("".join(_PAIRS))

    def _draw(self, rng: random.Random) -> Example:
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

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` rows of brackets."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementTask:
    """`the keys to the old cabinet are`: the verb agrees with the first noun, whatever stands between.

    The nouns between (attractors, Linzen et al. 2016) are singular or plural by chance. The query before the
    verb is linked to the first noun; only the verb can be predicted.
    """

    name: ClassVar[str] = "agreement"
    form: ClassVar[TaskForm] = "decoder"
    max_attractors: int = 3

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word of the sentences."""
        nouns = [noun for forms in _NOUN_FORMS for noun in forms]
        return ("the", *nouns, *_PREPOSITIONS, *_ADJECTIVES, *_VERBS)

    def _draw(self, rng: random.Random) -> Example:
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

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` sentences that end with their verb."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)
