"""The tasks a recipe can name, those of a few words each, and the tokenizer of a task.

copy, reverse, sort,    a row of words becomes another: as an encoder-decoder task (source and target) or as a
addition                decoder task, in which the text is `source = target`
induction, brackets,    for decoders: an earlier word tells the next one
agreement
few-shot                letters and their digits, by a rule that only the row itself tells
sentiment               one word of a sentence is a verdict, positive or negative; or none is
reviews                 several sentences with a verdict each; the one about the food decides
tagging                 the part of speech of each word, which its neighbours tell
questions               where in a sentence the answer to a question stands
drawn-shapes            which shape is drawn on a picture; the text is the name of the picture
set-anomaly             which of some drawn shapes is of another kind than the others
reports                 short reports with made-up names and numbers, and what a summary copies of them
entailment              does the second sentence follow from the first, contradict it, or neither

Sentences of the small English-French grammar are drawn in `grammar_task.py`.
"""

import dataclasses
import random
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, get_args

from attnscope.errors import RecipeError
from attnscope.schemes.tokenizers import SPECIALS
from attnscope.text.examples import (
    TOKENIZER_KIND,
    Example,
    Task,
    TaskForm,
    draw_examples,
    labels_of,
    word_labels_of,
)
from attnscope.text.few_shot_task import FewShotTask
from attnscope.text.grammar_task import EnglishFrenchTask
from attnscope.text.questions_task import QuestionsTask
from attnscope.text.reports_task import ReportsTask
from attnscope.text.shapes_task import DrawnShapesTask, SetAnomalyTask
from attnscope.text.tagging_task import TaggingTask
from attnscope.text.tokenizer import Tokenizer, train_tokenizer
from attnscope.text.vocabulary import Vocabulary

__all__ = [
    "TASKS",
    "Example",
    "Task",
    "TaskForm",
    "known_words",
    "labels_of",
    "make_task",
    "task_tokenizer",
    "word_labels_of",
]

EQUALS = "="
Rule = Literal["copy", "reverse", "sort"]


class _Pairing(Protocol):
    """A source, its target, and for each target word the source words that make it."""

    def __call__(self, rng: random.Random) -> tuple[list[str], list[str], list[tuple[int, int]]]: ...


def _draw_pair(pairing: _Pairing, form: TaskForm, rng: random.Random) -> Example:
    source, target, links = pairing(rng)
    if form == "encoder-decoder":
        return Example(source=" ".join(source), target=" ".join(target), links=tuple(links))
    if form == "encoder":
        return Example(source=" ".join(source), links=tuple(links), word_labels=tuple(target))
    n_source = len(source)  # the index of "=", whose output predicts the first target word
    return Example(
        source=" ".join([*source, EQUALS, *target]),
        links=tuple((n_source + word, key) for word, key in links),
        n_given=n_source + 1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask:
    """Letters written again: in the same order (copy), backwards (reverse), or sorted (sort).

    For an encoder the letters of the answer are labels of the letters that stand in their places.
    """

    rule: Rule = "copy"
    form: TaskForm = "encoder-decoder"
    min_words: int = 4
    max_words: int = 12
    n_letters: int = 26

    @property
    def name(self) -> str:
        return self.rule

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The letters, and the sign before the answer."""
        letters = string.ascii_lowercase[: self.n_letters]
        return tuple(letters) if self.form == "encoder" else (*letters, EQUALS)

    @property
    def word_labels(self) -> tuple[str, ...]:
        """The letters of the answer, where each is a label."""
        return self.vocabulary if self.form == "encoder" else ()

    def _pairing(self, rng: random.Random) -> tuple[list[str], list[str], list[tuple[int, int]]]:
        letters = string.ascii_lowercase[: self.n_letters]
        source = rng.choices(letters, k=rng.randint(self.min_words, self.max_words))
        order = list(range(len(source)))
        if self.rule == "reverse":
            order.reverse()
        elif self.rule == "sort":
            order.sort(key=lambda key: (source[key], key))  # equal letters keep their order
        return source, [source[key] for key in order], list(enumerate(order))

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` rows of letters with their answers."""
        return draw_examples(
            lambda rng: _draw_pair(self._pairing, self.form, rng),
            n,
            name=self.name,
            seed=seed,
            held_out=held_out,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionTask:
    """Sums of two numbers, digit by digit; a digit of the sum is linked to the two digits of its column.

    Numbers have exactly `n_digits` digits, the sum one more, all with leading zeros. The first digit of the
    sum is the carry out of the first column and is linked to that column.
    """

    name: ClassVar[str] = "addition"
    form: TaskForm = "encoder-decoder"
    n_digits: int = 3

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The digits, and the signs."""
        return (*string.digits, "+", EQUALS)

    def _pairing(self, rng: random.Random) -> tuple[list[str], list[str], list[tuple[int, int]]]:
        n = self.n_digits
        first, second = rng.randrange(10**n), rng.randrange(10**n)
        source = [*f"{first:0{n}d}", "+", *f"{second:0{n}d}"]
        links: list[tuple[int, int]] = []
        for word in range(n + 1):
            column = max(word - 1, 0)
            links += [(word, column), (word, n + 1 + column)]
        return source, [*f"{first + second:0{n + 1}d}"], links

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` sums."""
        return draw_examples(
            lambda rng: _draw_pair(self._pairing, self.form, rng),
            n,
            name=self.name,
            seed=seed,
            held_out=held_out,
        )


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


_GOOD = ("wonderful", "lovely", "charming", "superb", "pleasant", "excellent")
_BAD = ("awful", "dreadful", "boring", "terrible", "nasty", "poor")
_PLAIN = ("old", "long", "little", "second", "wooden", "green")
_PEOPLE = ("waiter", "teacher", "doctor", "singer", "neighbour", "sailor")
_THINGS = ("story", "soup", "song", "letter", "garden", "picture")
_DEEDS = ("brought", "showed", "gave", "promised")
_PLACES = ("in the kitchen", "on the train", "after the rain", "before lunch", "near the river")
_FOOD = ("soup", "bread", "fish", "cake")
_OTHER = ("music", "waiter", "room", "view", "table", "door")
_OPPOSITES = (("big", "small"), ("old", "young"), ("wet", "dry"), ("happy", "sad"))
_NUMBERS = ("two", "three", "four", "five")
_ANIMALS = ("dogs", "cats", "horses", "birds", "foxes", "mice")
_ACTS = ("sleep", "run", "eat", "play", "wait")
_WHERE = ("by the river", "in the barn", "under the tree", "near the road")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentimentTask:
    """Sentences of which one word, wherever it stands, says whether something was good or bad, or none."""

    name: ClassVar[str] = "sentiment"
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = ("negative", "neutral", "positive")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur."""
        return _words_of(_GOOD, _BAD, _PLAIN, _PEOPLE, _THINGS, _DEEDS, _PLACES, ("the", "a", "us", "."))

    def _draw(self, rng: random.Random) -> Example:
        label = rng.choice(self.labels)
        words = ["the", *_some(rng, _PLAIN), rng.choice(_PEOPLE), rng.choice(_DEEDS), "us", "a"]
        words += [*_some(rng, _PLAIN), rng.choice(_THINGS), *_some(rng, _PLACES), "."]
        nouns = [i for i, word in enumerate(words) if word in _PEOPLE or word in _THINGS]
        if label == "neutral":
            return Example(source=" ".join(words), label=label)
        place = rng.choice(nouns)
        words.insert(place, rng.choice(_GOOD if label == "positive" else _BAD))
        return Example(source=" ".join(words), label=label, links=((0, place),))

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` sentences with their labels, each linked to its verdict."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewsTask:
    """Reviews of several sentences, each with a verdict of its own; only that on the food counts."""

    name: ClassVar[str] = "reviews"
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = ("negative", "positive")
    min_sentences: int = 2
    max_sentences: int = 5

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur."""
        return _words_of(_GOOD, _BAD, _FOOD, _OTHER, _PLAIN, ("the", "was", "."))

    def _draw(self, rng: random.Random) -> Example:
        n = rng.randint(self.min_sentences, self.max_sentences)
        about_food, label = rng.randrange(n), rng.choice(self.labels)
        words: list[str] = []
        links: tuple[tuple[int, int], ...] = ()
        for sentence in range(n):
            is_food = sentence == about_food
            is_good = label == "positive" if is_food else rng.random() < 0.5
            words += ["the", *_some(rng, _PLAIN), rng.choice(_FOOD if is_food else _OTHER), "was"]
            if is_food:
                links = ((0, len(words)),)
            words += [rng.choice(_GOOD if is_good else _BAD), "."]
        return Example(source=" ".join(words), label=label, links=links)

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` reviews with their labels, each linked to the verdict on the food."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntailmentTask:
    """Two sentences about animals: the second follows from the first, contradicts it, or says more.

    It follows when it only leaves out; it contradicts with another number or the opposite of an adjective;
    it is neutral when it adds an adjective that the first sentence is silent about. Words that the second
    sentence takes over are linked to where they stand in the first, a replaced one to what it replaces.
    """

    name: ClassVar[str] = "entailment"
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = ("contradiction", "entailment", "neutral")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur."""
        return _words_of(_NUMBERS, _ANIMALS, _ACTS, _WHERE, *_OPPOSITES)

    def _draw(self, rng: random.Random) -> Example:
        label = rng.choice(self.labels)
        kinds = rng.sample(range(len(_OPPOSITES)), rng.randint(1, 3))
        adjectives = [rng.choice(_OPPOSITES[kind]) for kind in kinds]
        number, animals, act, where = (rng.choice(some) for some in (_NUMBERS, _ANIMALS, _ACTS, _WHERE))
        premise = [number, *adjectives, animals, act, *where.split()]
        said: list[tuple[str, int | None]] = [(number, 0)]
        said += [(word, 1 + i) for i, word in enumerate(adjectives) if rng.random() < 0.5]
        if label == "contradiction":
            said = _contradicted(rng, said, number, adjectives)
        if label == "neutral":
            silent = [pair for kind, pair in enumerate(_OPPOSITES) if kind not in kinds]
            said.insert(rng.randint(1, len(said)), (rng.choice(rng.choice(silent)), None))
        n = 1 + len(adjectives)
        said += [(animals, n), (act, n + 1)]
        if rng.random() < 0.5:
            said += [(word, n + 2 + i) for i, word in enumerate(where.split())]
        links = tuple((i, place) for i, (_, place) in enumerate(said) if place is not None)
        text = " ".join(word for word, _ in said)
        return Example(source=" ".join(premise), target=text, label=label, links=links)

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` pairs with their labels and gold alignments."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)


def _contradicted(
    rng: random.Random, said: list[tuple[str, int | None]], number: str, adjectives: list[str]
) -> list[tuple[str, int | None]]:
    """What is said with another number, or with the opposite of one adjective of the first sentence."""
    if rng.random() < 0.4:
        return [(rng.choice([other for other in _NUMBERS if other != number]), 0), *said[1:]]
    place = rng.randrange(len(adjectives))
    pair = next(pair for pair in _OPPOSITES if adjectives[place] in pair)
    opposite = pair[1 - pair.index(adjectives[place])]
    kept = [entry for entry in said if entry[1] != 1 + place]
    at = sum(entry[1] is not None and entry[1] < 1 + place for entry in kept)
    return [*kept[:at], (opposite, 1 + place), *kept[at:]]


def _some(rng: random.Random, words: tuple[str, ...]) -> list[str]:
    """One of the words (or phrases), or nothing."""
    return rng.choice(words).split() if rng.random() < 0.5 else []


def _words_of(*groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({word for group in groups for phrase in group for word in phrase.split()}))


_MAKERS: Mapping[str, Callable[..., Any]] = {
    "copy": partial(RowTask, rule="copy"),
    "reverse": partial(RowTask, rule="reverse"),
    "sort": partial(RowTask, rule="sort"),
    "addition": AdditionTask,
    "induction": InductionTask,
    "brackets": BracketsTask,
    "agreement": AgreementTask,
    "english-french": EnglishFrenchTask,
    "sentiment": SentimentTask,
    "reviews": ReviewsTask,
    "entailment": EntailmentTask,
    "tagging": TaggingTask,
    "questions": QuestionsTask,
    "set-anomaly": SetAnomalyTask,
    "drawn-shapes": DrawnShapesTask,
    "few-shot": FewShotTask,
    "reports": ReportsTask,
}
TASKS: tuple[str, ...] = tuple(_MAKERS)
MAX_WORDS = 2_000
"""Vocabularies of whole words that have no more are told word by word."""
_RANGES: Mapping[str, tuple[int, int]] = {
    "min_words": (1, 1000),
    "max_words": (1, 1000),
    "n_letters": (2, 26),
    "n_digits": (2, 50),
    "min_pairs": (1, 1000),
    "max_pairs": (1, 1000),
    "min_sentences": (1, 100),
    "max_sentences": (1, 100),
    "n_members": (3, 20),
    "n_values": (2, 10),
    "far_px": (0, 4),
    "n_shots": (2, 500),
    "max_attractors": (0, 100),
    "max_adjectives": (0, 2),
}
_FIXED = {"rule"}
_FORMS = ("decoder", "encoder-decoder")
_LABELLING = get_args(Rule)
"""Tasks whose answers may be labels of their letters, for an encoder."""


def make_task(name: str, **options: object) -> Task:
    """A task by name, with its options; raises RecipeError for an unknown name or an impossible value."""
    if name not in _MAKERS:
        raise RecipeError(
            f"There is no task {name!r}.", expected="one of " + ", ".join(TASKS), action="Change data.task."
        )
    maker = _MAKERS[name]
    known = {field.name for field in dataclasses.fields(maker())} - _FIXED
    for key, value in options.items():
        _check_option(name, key, value, known)
    task: Task = maker(**options)
    _check_order(name, task)
    return task


def task_options(name: str) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(_MAKERS[name]()) if field.name not in _FIXED)


def task_tokenizer(task: Task) -> Tokenizer:
    """The tokenizer that has exactly the words of the task."""
    words = task.vocabulary
    return train_tokenizer(TOKENIZER_KIND, [" ".join(words)], vocab_size=len(words) + len(SPECIALS))


def known_words(entries: Vocabulary, task: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that a text may be written with, and those of its target; none where there are too many.

    `task` is the name of the one that the model learned: some have other words in their targets.
    """
    if entries.kind != "words" or entries.size > MAX_WORDS:
        return (), ()
    ids = range(entries.size)
    words = sorted(entries.token(id).piece for id in ids if id not in entries.specials)
    found = _MAKERS[task]() if isinstance(task, str) and task in _MAKERS else None
    languages = found.languages if isinstance(found, EnglishFrenchTask) else ()
    if not languages:
        return tuple(words), tuple(words)
    source, target = (tuple(word for word in words if word in language) for language in languages)
    return source, target


def _check_option(name: str, key: str, value: object, known: set[str]) -> None:
    if key not in known:
        raise RecipeError(
            f"The task {name} has no option {key}.",
            expected="one of " + ", ".join(sorted(known)) if known else "no options",
            action=f"Remove data.{key} or correct its spelling.",
        )
    if key == "form":
        forms = (*_FORMS, *(("encoder",) if name in _LABELLING else ()))
        if value not in forms:
            raise RecipeError(
                f"data.form is {value!r}.", expected="one of " + ", ".join(forms), action="Change data.form."
            )
        return
    least, most = _RANGES[key]
    if type(value) is not int or not least <= value <= most:
        raise RecipeError(
            f"data.{key} is {value!r}.",
            expected=f"a whole number from {least} to {most}",
            action=f"Change data.{key}.",
        )


def _check_order(name: str, task: Task) -> None:
    for what in ("words", "pairs", "sentences"):
        least, most = getattr(task, f"min_{what}", None), getattr(task, f"max_{what}", None)
        if least is not None and most is not None and least > most:
            raise RecipeError(
                f"data.min_{what} is {least}, more than data.max_{what}, which is {most}.",
                action=f"Raise data.max_{what}.",
            )
    if name == "induction" and getattr(task, "max_words", 0) > len(task.vocabulary):
        raise RecipeError(
            f"data.max_words is {getattr(task, 'max_words', 0)}.",
            expected=f"at most {len(task.vocabulary)}, because the words of a row differ",
            action="Change data.max_words.",
        )
