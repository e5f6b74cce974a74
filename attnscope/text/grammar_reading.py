"""Reading sentences of the small English-French grammar: from the English words to plans, and to gold links.

The grammar writes; here it is read backwards. Every plan that the words allow is written again by
`write_clause`, and only those whose English comes out word for word are kept, so that the links are the
grammar's own. A sentence may mean several things (`it` is `il` or `elle`): each gives a translation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from attnscope.text.examples import Example
from attnscope.text.grammar import (
    Clause,
    Manner,
    NounPhrase,
    Person,
    Subject,
    pronoun,
    write_clause,
    write_phrase,
)
from attnscope.text.lexicon import (
    ACTIONS,
    ADJECTIVES_AFTER,
    ADJECTIVES_BEFORE,
    DEGREES,
    DETERMINERS,
    MONTHS,
    NAMES,
    NOUNS,
    OBJECT_PRONOUNS,
    PREPOSITIONS,
    SHAPES,
    STATES,
    SUBJECT_PRONOUNS,
    TO_BE_ENGLISH,
    VERBS,
    YEARS,
    Adjective,
    Noun,
    Verb,
)

MAX_WORDS = 40
"""Longer texts are no sentences of the grammar."""
_MANNERS: tuple[Manner, ...] = ("not", "never", "often", "always")
_MOST_ADJECTIVES = 3
_MEANS: tuple[tuple[str, Person], ...] = (
    ("it", Person(english="it", french="il")),
    ("it", Person(english="it", french="elle", gender="f")),
    ("they", Person(english="they", french="elles", person=4, gender="f")),
)
Words = Sequence[str]


def read_sentence(text: str) -> tuple[Example, ...]:
    """Every translation that the grammar has for an English text, with its links; none outside the grammar.

    Capitals and a full stop without a blank before it are understood. The order is always the same.
    """
    words = _words(text)
    if not 0 < len(words) <= MAX_WORDS:
        return ()
    found: dict[str, Example] = {}
    for example in _written(words):
        is_whole = example.source == " ".join(words) and example.target is not None
        if is_whole and len((example.target or "").split()) == len(example.links):
            found.setdefault(example.target or "", example)
    return tuple(found.values())


def _words(text: str) -> list[str]:
    lower = text.lower().strip()
    return [*lower[:-1].split(), "."] if lower.endswith(".") else lower.split()


def _written(words: Words) -> Iterator[Example]:
    has_stop = words[-1] == "."
    body = words[:-1] if has_stop else words
    if not has_stop:
        for phrase, end in _phrases(body, 0):
            if end == len(body):
                yield write_phrase(phrase)
    for clause, end in _clauses(body, 0):
        if end == len(body):
            yield write_clause(replace(clause, has_stop=has_stop))


def _clauses(words: Words, start: int) -> Iterator[tuple[Clause, int]]:
    for subject, at in _subjects(words, start):
        for clause, end in (
            *_signed(words, at, subject),
            *_states(words, at, subject),
            *_actions(words, at, subject),
        ):
            yield clause, end
            if end < len(words) and words[end] == "because":
                for because, last in _clauses(words, end + 1):
                    yield replace(clause, because=because), last


def _subjects(words: Words, start: int) -> Iterator[tuple[Subject, int]]:
    if start >= len(words):
        return
    word = words[start]
    if word in SUBJECT_PRONOUNS:
        yield pronoun(word), start + 1
    for english, person in _MEANS:
        if word == english:
            yield person, start + 1
    yield from _things(words, start)


def _things(words: Words, start: int) -> Iterator[tuple[NounPhrase | Person, int]]:
    """A name or a phrase."""
    for name, gender in NAMES:
        if start < len(words) and words[start] == name:
            yield Person(english=name, french=name, gender=gender), start + 1
    yield from _phrases(words, start)


def _phrases(words: Words, start: int) -> Iterator[tuple[NounPhrase, int]]:
    if start >= len(words):
        return
    determiner = "a" if words[start] == "an" else words[start]
    if determiner not in DETERMINERS:
        return
    adjectives: list[tuple[Adjective, ...]] = [()]
    at = start + 1
    for _ in range(_MOST_ADJECTIVES + 1):
        for noun, is_plural in _nouns().get(words[at] if at < len(words) else "", ()):
            for chosen in adjectives:
                phrase = NounPhrase(noun=noun, determiner=determiner, adjectives=chosen, is_plural=is_plural)
                yield phrase, at + 1
                if at + 1 < len(words) and words[at + 1] == "of":
                    for of, end in _phrases(words, at + 2):
                        yield replace(phrase, of=of), end
        more = _adjectives().get(words[at] if at < len(words) else "", ())
        adjectives = [(*chosen, one) for chosen in adjectives for one in more]
        at += 1


def _signed(words: Words, start: int, subject: Subject) -> Iterator[tuple[Clause, int]]:
    for place, at in _places(words, start):
        rest = words[at : at + 5]
        if len(rest) == 5 and rest[1:3] == ["signed", "in"] and rest[3] in MONTHS and rest[4] in YEARS:
            yield Clause(subject=subject, place=place, signed=(rest[3], rest[4])), at + 5


def _states(words: Words, start: int, subject: Subject) -> Iterator[tuple[Clause, int]]:
    """`is`, `was` … how something is."""
    for is_past in (False, True):
        if start >= len(words) or words[start] not in TO_BE_ENGLISH[is_past]:
            continue
        manner, at = _optional(words, start + 1, _MANNERS)
        degree, at = _optional(words, at, tuple(DEGREES))
        for adjective in _adjectives().get(words[at] if at < len(words) else "", ()):
            for place, end in _places(words, at + 1):
                yield (
                    Clause(
                        subject=subject,
                        is_past=is_past,
                        manner=_manner(manner),
                        degree=degree,
                        adjective=adjective,
                        place=place,
                    ),
                    end,
                )


def _actions(words: Words, start: int, subject: Subject) -> Iterator[tuple[Clause, int]]:
    """Somebody does something; `write_clause` says whether the form of the verb is the right one."""
    helper, at = _optional(words, start, ("do", "does", "did"))
    manner, at = _optional(words, at, _MANNERS)
    for verb in _verbs().get(words[at] if at < len(words) else "", ()):
        for is_past in (False, True):
            clause = Clause(subject=subject, verb=verb, is_past=is_past, manner=_manner(manner))
            if bool(helper) != (manner == "not"):
                continue
            for object_, end in _objects(words, at + 1, verb, is_past=is_past):
                for place, last in _places(words, end):
                    yield replace(clause, object_=object_, place=place), last


def _objects(
    words: Words, start: int, verb: Verb, *, is_past: bool
) -> Iterator[tuple[NounPhrase | Person | str | None, int]]:
    if not verb.objects:
        yield None, start
        return
    if start < len(words) and words[start] in OBJECT_PRONOUNS and not is_past:
        yield words[start], start + 1
    yield from _things(words, start)


def _places(words: Words, start: int) -> Iterator[tuple[tuple[str, NounPhrase] | None, int]]:
    yield None, start
    if start < len(words) and words[start] in PREPOSITIONS:
        for phrase, end in _phrases(words, start + 1):
            yield (words[start], phrase), end


def _optional(words: Words, at: int, known: Sequence[str]) -> tuple[str, int]:
    return (words[at], at + 1) if at < len(words) and words[at] in known else ("", at)


def _manner(word: str) -> Manner:
    return next((manner for manner in _MANNERS if manner == word), "")


@cache
def _nouns() -> dict[str, tuple[tuple[Noun, bool], ...]]:
    """Nouns by their English forms; True for the plural."""
    found: dict[str, list[tuple[Noun, bool]]] = {}
    for noun in NOUNS:
        for is_plural in (False, True):
            found.setdefault(noun.english[is_plural], []).append((noun, is_plural))
    return {form: tuple(nouns) for form, nouns in found.items()}


@cache
def _adjectives() -> dict[str, tuple[Adjective, ...]]:
    found: dict[str, dict[Adjective, None]] = {}
    for adjective in (*ADJECTIVES_BEFORE, *ADJECTIVES_AFTER, *STATES, *SHAPES):
        found.setdefault(adjective.english, {})[adjective] = None
    return {english: tuple(adjectives) for english, adjectives in found.items()}


@cache
def _verbs() -> dict[str, tuple[Verb, ...]]:
    found: dict[str, dict[Verb, None]] = {}
    for verb in (*VERBS, *ACTIONS):
        for form in verb.english:
            found.setdefault(form, {})[verb] = None
    return {form: tuple(verbs) for form, verbs in found.items()}
