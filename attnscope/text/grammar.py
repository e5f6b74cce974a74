"""Sentences of the small English-French grammar: from a plan to both languages, linked word by word.

Every French word keeps the English word it comes from, so the gold links are exact, one for each French
word. Conventions where they are arguable: `ne` and `pas` are linked to `not`; `ne` and `jamais` to `never`;
the auxiliary of the past to `did` where that stands, else to the verb; `a été` to `was`; `du` and `des` made
of two words to `of`.
French adjectives and articles are linked to what they translate, not to the noun they agree with.

Reading goes backwards: every plan that the English words allow is written again by `write_clause`, and only
those whose English comes out word for word are kept, so that the links are the grammar's own. A sentence may
mean several things (`it` is `il` or `elle`): each gives a translation.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from attnscope.text import lexicon
from attnscope.text.examples import Example
from attnscope.text.lexicon import Adjective, Gender, Noun, Verb

_VOWELS = tuple("aàâeéèêëiîïoôœuûh")
_ELIDED = {"le": "l'", "la": "l'", "je": "j'", "me": "m'", "te": "t'", "ne": "n'", "de": "d'"}
_BEFORE_VOWEL = {"ce": "cet", "ma": "mon", "ta": "ton"}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des"}
_NEGATIONS = {"not": "pas", "never": "jamais"}
_SAYS_AN = tuple("aeio")
_SAYS_A = ("european",)


class Word:
    """One English word of a sentence; French words refer to it."""

    def __init__(self, text: str) -> None:
        self.text = text


French = tuple[str, Word]


@dataclass(frozen=True, slots=True, kw_only=True)
class NounPhrase:
    """Determiner, adjectives in English order, and noun; `of` is a phrase after `of`."""

    noun: Noun
    determiner: str = "the"
    adjectives: tuple[Adjective, ...] = ()
    is_plural: bool = False
    of: "NounPhrase | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A pronoun or a name as subject, with its French word."""

    english: str
    french: str
    person: int = 2
    gender: Gender = "m"


Subject = NounPhrase | Person
Manner = Literal["", "not", "never", "often", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A clause: who does what, or (without verb) who is how.

    `object_` is a phrase, a name, or an English object pronoun (then the tense is the present). `signed` is
    (month, year): `was signed in august 1992`, after a subject that may have an `on` phrase in `place`.
    """

    subject: Subject
    verb: Verb | None = None
    is_past: bool = False
    manner: Manner = ""
    object_: NounPhrase | Person | str | None = None
    adjective: Adjective | None = None
    degree: str = ""
    place: tuple[str, NounPhrase] | None = None
    because: "Clause | None" = None
    signed: tuple[str, str] | None = None
    has_stop: bool = False


def pronoun(english: str) -> Person:
    """A subject pronoun with its own meaning (`it` has none: it takes the gender of its referent)."""
    french, person, gender = lexicon.SUBJECT_PRONOUNS[english]
    return Person(english=english, french=french, person=person, gender=gender)


def pronoun_for(phrase: NounPhrase) -> Person:
    """`it`, `he`, `she` or `they` for a phrase, with the French pronoun of the phrase's gender."""
    is_feminine = phrase.noun.gender == "f"
    if phrase.is_plural:
        return Person(
            english="they", french="elles" if is_feminine else "ils", person=4, gender=phrase.noun.gender
        )
    english = "it"
    if "person" in phrase.noun.classes:
        english = "she" if is_feminine else "he"
    return Person(english=english, french="elle" if is_feminine else "il", gender=phrase.noun.gender)


class SentencePair:
    """English and French of one sentence under construction."""

    def __init__(self) -> None:
        self.english: list[Word] = []
        self.french: list[French] = []

    def say(self, text: str) -> Word:
        word = Word(text)
        self.english.append(word)
        return word

    def ecrire(self, pairs: Iterable[French]) -> None:
        """Add French words, each with its English word."""
        self.french.extend(pairs)

    def example(self) -> Example:
        place = {id(word): index for index, word in enumerate(self.english)}
        french = _smooth(self.french)
        return Example(
            source=" ".join(word.text for word in self.english),
            target=" ".join(text for text, _ in french),
            links=tuple((index, place[id(word)]) for index, (_, word) in enumerate(french)),
        )


def write_phrase(phrase: NounPhrase) -> Example:
    """A noun phrase alone, in both languages."""
    sentence = SentencePair()
    sentence.ecrire(_noun_phrase(sentence, phrase))
    return sentence.example()


def write_clause(clause: Clause) -> Example:
    """A sentence in both languages."""
    sentence = SentencePair()
    _clause(sentence, clause)
    if clause.has_stop:
        sentence.ecrire([(".", sentence.say("."))])
    return sentence.example()


def _clause(sentence: SentencePair, clause: Clause) -> None:
    sentence.ecrire(_subject(sentence, clause.subject))
    if clause.signed is not None:
        _signed(sentence, clause)
        return
    if clause.verb is None:
        _copula(sentence, clause)
    else:
        _action(sentence, clause, clause.verb)
    if clause.place is not None:
        _place(sentence, *clause.place)
    if clause.because is not None:
        sentence.ecrire([("car", sentence.say("because"))])
        _clause(sentence, clause.because)


def _features(subject: Subject) -> tuple[int, Gender, bool]:
    if isinstance(subject, Person):
        return subject.person, subject.gender, subject.person > 2
    return (4 if subject.is_plural else 2), subject.noun.gender, subject.is_plural


def _subject(sentence: SentencePair, subject: Subject) -> list[French]:
    if isinstance(subject, Person):
        return [(subject.french, sentence.say(subject.english))]
    return _noun_phrase(sentence, subject)


def _noun_phrase(sentence: SentencePair, phrase: NounPhrase) -> list[French]:
    noun, is_plural = phrase.noun, phrase.is_plural
    following = phrase.adjectives[0].english if phrase.adjectives else noun.english[is_plural]
    determiner = sentence.say(_article(phrase.determiner, following))
    adjectives = [(adjective, sentence.say(adjective.english)) for adjective in phrase.adjectives]
    head = sentence.say(noun.english[is_plural])
    before = [(a, word) for a, word in adjectives if a.is_before_noun]
    after = [(a, word) for a, word in adjectives if not a.is_before_noun]
    masculine, feminine, plural = lexicon.DETERMINERS[phrase.determiner]
    le = plural if is_plural else feminine if noun.gender == "f" else masculine
    if le == "des" and before:
        le = "de"
    french = [(le, determiner)]
    for adjective, word in before:
        form = adjective.form(noun.gender, is_plural)
        if noun.gender == "m" and not is_plural and _begins_with_vowel(noun.french[0]):
            form = adjective.before_vowel
        french.append((form, word))
    french.append((noun.french[is_plural], head))
    french.extend((a.form(noun.gender, is_plural), word) for a, word in reversed(after))
    if phrase.of is not None:
        french.append(("de", sentence.say("of")))
        french.extend(_noun_phrase(sentence, phrase.of))
    return french


def _article(determiner: str, following: str) -> str:
    is_an = determiner == "a" and following.startswith(_SAYS_AN) and following not in _SAYS_A
    return "an" if is_an else determiner


def _action(sentence: SentencePair, clause: Clause, verb: Verb) -> None:
    person, _, _ = _features(clause.subject)
    base, third, past = verb.english
    before: list[French] = []
    between: list[French] = []
    auxiliary: Word | None = None
    if clause.manner == "not":
        auxiliary = sentence.say("did" if clause.is_past else "does" if person == 2 else "do")
        before, between = _around(sentence, "not")
    elif clause.manner:
        before, between = _around(sentence, clause.manner)
    if auxiliary is not None:
        english = base
    elif clause.is_past:
        english = past
    else:
        english = third if person == 2 else base
    word = sentence.say(english)
    if clause.is_past:
        verbs = [(lexicon.TO_HAVE[person], auxiliary or word), *between, (verb.participle, word)]
    else:
        verbs = [(verb.french[person], word), *between]
    if isinstance(clause.object_, str):  # a pronoun, which stands before the French verb
        before = [*before, (lexicon.OBJECT_PRONOUNS[clause.object_], sentence.say(clause.object_))]
    sentence.ecrire([*before, *verbs])
    if clause.object_ is not None and not isinstance(clause.object_, str):
        sentence.ecrire(_subject(sentence, clause.object_))


def _around(sentence: SentencePair, manner: str) -> tuple[list[French], list[French]]:
    """Words before and after the French verb for `not`, `never`, `often`, `always`, or nothing."""
    if not manner:
        return [], []
    word = sentence.say(manner)
    if manner in _NEGATIONS:
        return [("ne", word)], [(_NEGATIONS[manner], word)]
    return [], [(lexicon.ADVERBS[manner], word)]


def _copula(sentence: SentencePair, clause: Clause) -> None:
    person, gender, is_plural = _features(clause.subject)
    word = sentence.say(lexicon.TO_BE_ENGLISH[clause.is_past][person])
    before, after = _around(sentence, clause.manner)
    sentence.ecrire([*before, (lexicon.TO_BE[clause.is_past][person], word), *after])
    if clause.degree:
        sentence.ecrire([(lexicon.DEGREES[clause.degree], sentence.say(clause.degree))])
    if clause.adjective is not None:
        form = clause.adjective.form(gender, is_plural)
        sentence.ecrire([(form, sentence.say(clause.adjective.english))])


def _place(sentence: SentencePair, preposition: str, phrase: NounPhrase) -> None:
    word = sentence.say(preposition)
    sentence.ecrire([(lexicon.PREPOSITIONS[preposition], word), *_noun_phrase(sentence, phrase)])


def _signed(sentence: SentencePair, clause: Clause) -> None:
    """`(the agreement) on the area was signed in august 1992`."""
    if clause.place is not None:
        _place(sentence, *clause.place)
    person, gender, is_plural = _features(clause.subject)
    was = sentence.say("were" if is_plural else "was")
    signed = sentence.say("signed")
    participle = "signé" + "e" * (gender == "f") + "s" * is_plural
    sentence.ecrire([(lexicon.TO_HAVE[person], was), ("été", was), (participle, signed)])
    month, year = clause.signed or ("", "")
    sentence.ecrire([("en", sentence.say("in")), (lexicon.MONTHS[month], sentence.say(month))])
    sentence.ecrire([(year, sentence.say(year))])


def _begins_with_vowel(word: str) -> bool:
    return word.startswith(_VOWELS)


def _smooth(words: list[French]) -> list[French]:
    """Elision (l'homme, n'est), the forms before a vowel (cet, mon), and du and des for de le and de les."""
    result: list[French] = []
    for index, (text, word) in enumerate(words):
        following = words[index + 1][0] if index + 1 < len(words) else ""
        if _begins_with_vowel(following):
            text = _ELIDED.get(text, _BEFORE_VOWEL.get(text, text))
        if result and (contracted := _CONTRACTED.get((result[-1][0], text))):
            result[-1] = (contracted, result[-1][1])
            continue
        result.append((text, word))
    return result


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
    """Every translation of an English text by the grammar, with its links; none outside the grammar.

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
            *_agreements(words, at, subject),
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
    if word in lexicon.SUBJECT_PRONOUNS:
        yield pronoun(word), start + 1
    for english, person in _MEANS:
        if word == english:
            yield person, start + 1
    yield from _things(words, start)


def _things(words: Words, start: int) -> Iterator[tuple[NounPhrase | Person, int]]:
    for name, gender in lexicon.NAMES:
        if start < len(words) and words[start] == name:
            yield Person(english=name, french=name, gender=gender), start + 1
    yield from _phrases(words, start)


def _phrases(words: Words, start: int) -> Iterator[tuple[NounPhrase, int]]:
    if start >= len(words):
        return
    determiner = "a" if words[start] == "an" else words[start]
    if determiner not in lexicon.DETERMINERS:
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


def _agreements(words: Words, start: int, subject: Subject) -> Iterator[tuple[Clause, int]]:
    for place, at in _places(words, start):
        rest = words[at : at + 5]
        if (
            len(rest) == 5
            and rest[1:3] == ["signed", "in"]
            and rest[3] in lexicon.MONTHS
            and rest[4] in lexicon.YEARS
        ):
            yield Clause(subject=subject, place=place, signed=(rest[3], rest[4])), at + 5


def _states(words: Words, start: int, subject: Subject) -> Iterator[tuple[Clause, int]]:
    """`is`, `was` … how something is."""
    for is_past in (False, True):
        if start >= len(words) or words[start] not in lexicon.TO_BE_ENGLISH[is_past]:
            continue
        manner, at = _optional(words, start + 1, _MANNERS)
        degree, at = _optional(words, at, tuple(lexicon.DEGREES))
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
    """Actions of a subject; `write_clause` says whether the verb form is right."""
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
    if start < len(words) and words[start] in lexicon.OBJECT_PRONOUNS and not is_past:
        yield words[start], start + 1
    yield from _things(words, start)


def _places(words: Words, start: int) -> Iterator[tuple[tuple[str, NounPhrase] | None, int]]:
    yield None, start
    if start < len(words) and words[start] in lexicon.PREPOSITIONS:
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
    for noun in lexicon.NOUNS:
        for is_plural in (False, True):
            found.setdefault(noun.english[is_plural], []).append((noun, is_plural))
    return {form: tuple(nouns) for form, nouns in found.items()}


@cache
def _adjectives() -> dict[str, tuple[Adjective, ...]]:
    found: dict[str, dict[Adjective, None]] = {}
    for adjective in (
        *lexicon.ADJECTIVES_BEFORE,
        *lexicon.ADJECTIVES_AFTER,
        *lexicon.STATES,
        *lexicon.SHAPES,
    ):
        found.setdefault(adjective.english, {})[adjective] = None
    return {english: tuple(adjectives) for english, adjectives in found.items()}


@cache
def _verbs() -> dict[str, tuple[Verb, ...]]:
    found: dict[str, dict[Verb, None]] = {}
    for verb in (*lexicon.VERBS, *lexicon.ACTIONS):
        for form in verb.english:
            found.setdefault(form, {})[verb] = None
    return {form: tuple(verbs) for form, verbs in found.items()}
