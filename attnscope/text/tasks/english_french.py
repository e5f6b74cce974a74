"""The English-French task: random sentences of the small grammar, with gold links."""

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from attnscope.text import lexicon
from attnscope.text.examples import Example, Range, TaskForm, TaskKind, draw_examples
from attnscope.text.grammar import (
    Clause,
    Manner,
    NounPhrase,
    Person,
    Subject,
    pronoun,
    pronoun_for,
    write_clause,
    write_phrase,
)
from attnscope.text.lexicon import Adjective, Noun

_LIVING = frozenset({"person", "animal"})
_CONCRETE = frozenset({"person", "animal", "thing", "place"})
_OF = frozenset({"of"})
_PLACE = frozenset({"place"})
_DEFINITE = ("the", "this", "these", "my", "your")
_MANNERS: tuple[Manner, ...] = ("", "", "", "not", "not", "never", "often", "always")


def _by_class() -> dict[str, tuple[Noun, ...]]:
    classes = sorted({name for noun in lexicon.NOUNS for name in noun.classes})
    return {name: tuple(noun for noun in lexicon.NOUNS if name in noun.classes) for name in classes}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnglishFrenchTask(TaskKind):
    """Translate sentences of the small grammar; see grammar.py for the conventions of the links."""

    name: ClassVar[str] = "english-french"
    writes: ClassVar[str] = "translation"
    order: ClassVar[int] = 7
    form: ClassVar[TaskForm] = "encoder-decoder"
    max_adjectives: Annotated[int, Range(0, 2)] = 2

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word of both languages, in alphabetical order."""
        return tuple(sorted(set.union(*_languages())))

    @property
    def languages(self) -> tuple[frozenset[str], frozenset[str]]:
        """The words of sources, and those of targets."""
        source, target = _languages()
        return frozenset(source), frozenset(target)

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` sentences with their translations and gold links."""
        draw = _Draw(self.max_adjectives)
        return draw_examples(draw.example, n, name=self.name, seed=seed, held_out=held_out)


class _Draw:
    """Random plans of sentences."""

    def __init__(self, max_adjectives: int) -> None:
        self._max_adjectives = max_adjectives
        self._nouns = _by_class()
        self._kinds = (self._does, self._does, self._to_pronoun, self._acts, self._is, self._reason)

    def example(self, rng: random.Random) -> Example:
        chance = rng.random()
        if chance < 0.08:
            return write_phrase(self._phrase(rng, _CONCRETE, may_have_of=True))
        if chance < 0.16:
            return write_clause(self._signed(rng))
        return write_clause(rng.choice(self._kinds)(rng))

    def _noun(self, rng: random.Random, classes: frozenset[str]) -> Noun:
        return rng.choice(self._nouns[rng.choice(sorted(classes))])

    def _phrase(
        self,
        rng: random.Random,
        classes: frozenset[str],
        *,
        determiners: tuple[str, ...] = (),
        may_have_of: bool = False,
    ) -> NounPhrase:
        with_of = may_have_of and rng.random() < 0.25
        noun = self._noun(rng, _OF if with_of else classes)
        determiner = rng.choice(determiners or ("the", "the", "the", *lexicon.DETERMINERS))
        _, singular, plural = lexicon.DETERMINERS[determiner]
        is_plural = bool(plural) and (not singular or rng.random() < 0.4)
        of = self._phrase(rng, _CONCRETE, determiners=("the", "the", "my", "this")) if with_of else None
        return NounPhrase(
            noun=noun,
            determiner=determiner,
            adjectives=self._adjectives(rng),
            is_plural=is_plural,
            of=of,
        )

    def _adjectives(self, rng: random.Random) -> tuple[Adjective, ...]:
        """None, one, or two; one that precedes the French noun comes first."""
        n = min(self._max_adjectives, rng.choice((0, 0, 0, 1, 1, 2)))
        if n == 0:
            return ()
        if n == 1:
            return (rng.choice((*lexicon.ADJECTIVES_BEFORE, *lexicon.ADJECTIVES_AFTER)),)
        first, second = rng.sample(lexicon.ADJECTIVES_AFTER, 2)
        return (rng.choice(lexicon.ADJECTIVES_BEFORE), second) if rng.random() < 0.4 else (first, second)

    def _subject(self, rng: random.Random, classes: frozenset[str]) -> Subject:
        chance = rng.random()
        if chance < 0.3:
            return pronoun(rng.choice(sorted(lexicon.SUBJECT_PRONOUNS)))
        if chance < 0.4:
            return _name(rng)
        return self._phrase(rng, classes, may_have_of=classes != _LIVING)

    def _does(self, rng: random.Random) -> Clause:
        verb = rng.choice(lexicon.VERBS)
        manner = rng.choice(_MANNERS)
        determiners = _DEFINITE if manner in ("not", "never") else ()  # else French would say "pas de"
        thing: NounPhrase | Person = self._phrase(rng, verb.objects, determiners=determiners)
        if "person" in verb.objects and rng.random() < 0.1:
            thing = _name(rng)
        return Clause(
            subject=self._subject(rng, _LIVING),
            verb=verb,
            is_past=rng.random() < 0.5,
            manner=manner,
            object_=thing,
            place=self._place(rng, 0.25),
            has_stop=_stop(rng),
        )

    def _to_pronoun(self, rng: random.Random) -> Clause:
        verbs = [verb for verb in lexicon.VERBS if "person" in verb.objects]
        return Clause(
            subject=self._subject(rng, _LIVING),
            verb=rng.choice(verbs),
            manner=rng.choice(_MANNERS),
            object_=rng.choice(sorted(lexicon.OBJECT_PRONOUNS)),
            place=self._place(rng, 0.25),
            has_stop=_stop(rng),
        )

    def _acts(self, rng: random.Random) -> Clause:
        return Clause(
            subject=self._subject(rng, _LIVING),
            verb=rng.choice(lexicon.ACTIONS),
            is_past=rng.random() < 0.5,
            manner=rng.choice(_MANNERS),
            place=self._place(rng, 0.6),
            has_stop=_stop(rng),
        )

    def _is(self, rng: random.Random) -> Clause:
        is_living = rng.random() < 0.5
        subject = self._subject(rng, _LIVING if is_living else frozenset({"thing", "place"}))
        is_named = isinstance(subject, Person)
        kinds = lexicon.STATES if is_living or is_named else lexicon.ADJECTIVES_AFTER
        if isinstance(subject, NounPhrase) and "place" in subject.noun.classes:
            kinds = lexicon.SHAPES
        return Clause(
            subject=subject,
            is_past=rng.random() < 0.5,
            manner=rng.choice(_MANNERS),
            degree=rng.choice(("", "", *lexicon.DEGREES)),
            adjective=rng.choice(kinds),
            has_stop=_stop(rng),
        )

    def _reason(self, rng: random.Random) -> Clause:
        """`the animal did not cross the street because it was too tired`, or `too wide`."""
        subject = self._phrase(rng, _LIVING)
        verbs = [verb for verb in lexicon.VERBS if "place" in verb.objects]
        place = self._phrase(rng, _PLACE, determiners=_DEFINITE)
        is_past = rng.random() < 0.6
        means_place = rng.random() < 0.5
        because = Clause(
            subject=pronoun_for(place if means_place else subject),
            is_past=is_past,
            degree=rng.choice(("", *lexicon.DEGREES, "too")),
            adjective=rng.choice(lexicon.SHAPES if means_place else lexicon.STATES),
        )
        return Clause(
            subject=subject,
            verb=rng.choice(verbs),
            is_past=is_past,
            manner=rng.choice(("", "not", "not", "never")),
            object_=place,
            because=because,
            has_stop=_stop(rng),
        )

    def _signed(self, rng: random.Random) -> Clause:
        subject = self._phrase(rng, frozenset({"document"}))
        about = ("on", self._phrase(rng, _CONCRETE, determiners=_DEFINITE))
        return Clause(
            subject=subject,
            place=about if rng.random() < 0.7 else None,
            signed=(rng.choice(sorted(lexicon.MONTHS)), rng.choice(lexicon.YEARS)),
            has_stop=_stop(rng),
        )

    def _place(self, rng: random.Random, share: float) -> tuple[str, NounPhrase] | None:
        if rng.random() >= share:
            return None
        preposition = rng.choice(sorted(lexicon.PREPOSITIONS))
        classes = {"in": _PLACE, "with": _LIVING}.get(preposition, frozenset({"thing", "place"}))
        return preposition, self._phrase(rng, classes, determiners=(*_DEFINITE, "a", "the"))


def _name(rng: random.Random) -> Person:
    name, gender = rng.choice(lexicon.NAMES)
    return Person(english=name, french=name, gender=gender)


def _stop(rng: random.Random) -> bool:
    return rng.random() < 0.3


def _languages() -> tuple[set[str], set[str]]:
    """The English words and the French ones; shared words are in both."""
    english = {"an", "not", "never", "do", "does", "did", "it", "of", "because", "signed", "her", "him", "."}
    french = {"l'", "j'", "m'", "t'", "n'", "d'", "cet", "du", "de", "ne", "pas", "jamais", "car", "en"}
    french |= {"été", "elles", "signé", "signés", "signée", "signées", "."}
    for noun in lexicon.NOUNS:
        english |= {*noun.english}
        french |= {*noun.french}
    for adjective in (
        *lexicon.ADJECTIVES_BEFORE,
        *lexicon.ADJECTIVES_AFTER,
        *lexicon.STATES,
        *lexicon.SHAPES,
    ):
        english.add(adjective.english)
        french |= {*adjective.french, adjective.before_vowel}
    for verb in (*lexicon.VERBS, *lexicon.ACTIONS):
        english |= {*verb.english}
        french |= {*verb.french, verb.participle}
    for forms in (*lexicon.TO_BE, lexicon.TO_HAVE, *lexicon.DETERMINERS.values()):
        french |= set(forms)
    for forms in lexicon.TO_BE_ENGLISH:
        english |= set(forms)
    for table in (
        lexicon.OBJECT_PRONOUNS,
        lexicon.PREPOSITIONS,
        lexicon.ADVERBS,
        lexicon.DEGREES,
        lexicon.MONTHS,
    ):
        english |= table.keys()
        french |= set(table.values())
    english |= {*lexicon.DETERMINERS, *lexicon.SUBJECT_PRONOUNS}
    french |= {word for word, _, _ in lexicon.SUBJECT_PRONOUNS.values()}
    both = {*lexicon.YEARS, *(name for name, _ in lexicon.NAMES)}
    return (english | both) - {""}, (french | both) - {""}
