"""Sentences of the small English-French grammar: from a plan to both languages, word by word linked.

Every French word keeps the English word it comes from, so the gold links are exact, one for each French
word. Conventions where they are arguable: `ne` and `pas` are linked to `not`; `ne` and `jamais` to `never`;
the auxiliary of the past to `did` where that stands, else to the verb; `a été` to `was`; `du` and `des` made
of two words to `of`.
French adjectives and articles are linked to what they translate, not to the noun they agree with.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from attnscope.text.examples import Example
from attnscope.text.lexicon import (
    ADVERBS,
    DEGREES,
    DETERMINERS,
    MONTHS,
    OBJECT_PRONOUNS,
    PREPOSITIONS,
    SUBJECT_PRONOUNS,
    TO_BE,
    TO_BE_ENGLISH,
    TO_HAVE,
    Adjective,
    Gender,
    Noun,
    Verb,
)

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
    """Determiner, adjectives in English order, and noun; `of` is a phrase that follows with `of`."""

    noun: Noun
    determiner: str = "the"
    adjectives: tuple[Adjective, ...] = ()
    is_plural: bool = False
    of: "NounPhrase | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A pronoun or a name as subject, with the French word for it."""

    english: str
    french: str
    person: int = 2
    gender: Gender = "m"


Subject = NounPhrase | Person
Manner = Literal["", "not", "never", "often", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """Who does what, or (without verb) who is how.

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
    """A subject pronoun that means itself (`it` does not: it takes the gender of what it means)."""
    french, person, gender = SUBJECT_PRONOUNS[english]
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


class Sentence:
    """English and French of one sentence while it is being written."""

    def __init__(self) -> None:
        self.english: list[Word] = []
        self.french: list[French] = []

    def say(self, text: str) -> Word:
        """Add one English word."""
        word = Word(text)
        self.english.append(word)
        return word

    def ecrire(self, pairs: Iterable[French]) -> None:
        """Add French words, each with the English word it comes from."""
        self.french.extend(pairs)

    def example(self) -> Example:
        """The finished pair with its links."""
        place = {id(word): index for index, word in enumerate(self.english)}
        french = _smooth(self.french)
        return Example(
            source=" ".join(word.text for word in self.english),
            target=" ".join(text for text, _ in french),
            links=tuple((index, place[id(word)]) for index, (_, word) in enumerate(french)),
        )


def write_phrase(phrase: NounPhrase) -> Example:
    """A noun phrase alone, in both languages."""
    sentence = Sentence()
    sentence.ecrire(_noun_phrase(sentence, phrase))
    return sentence.example()


def write_clause(clause: Clause) -> Example:
    """A sentence in both languages."""
    sentence = Sentence()
    _clause(sentence, clause)
    if clause.has_stop:
        sentence.ecrire([(".", sentence.say("."))])
    return sentence.example()


def _clause(sentence: Sentence, clause: Clause) -> None:
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
    """Person, gender and number of a subject."""
    if isinstance(subject, Person):
        return subject.person, subject.gender, subject.person > 2
    return (4 if subject.is_plural else 2), subject.noun.gender, subject.is_plural


def _subject(sentence: Sentence, subject: Subject) -> list[French]:
    if isinstance(subject, Person):
        return [(subject.french, sentence.say(subject.english))]
    return _noun_phrase(sentence, subject)


def _noun_phrase(sentence: Sentence, phrase: NounPhrase) -> list[French]:
    noun, is_plural = phrase.noun, phrase.is_plural
    following = phrase.adjectives[0].english if phrase.adjectives else noun.english[is_plural]
    determiner = sentence.say(_article(phrase.determiner, following))
    adjectives = [(adjective, sentence.say(adjective.english)) for adjective in phrase.adjectives]
    head = sentence.say(noun.english[is_plural])
    before = [(a, word) for a, word in adjectives if a.is_before_noun]
    after = [(a, word) for a, word in adjectives if not a.is_before_noun]
    masculine, feminine, plural = DETERMINERS[phrase.determiner]
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


def _action(sentence: Sentence, clause: Clause, verb: Verb) -> None:
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
        verbs = [(TO_HAVE[person], auxiliary or word), *between, (verb.participle, word)]
    else:
        verbs = [(verb.french[person], word), *between]
    if isinstance(clause.object_, str):  # a pronoun, which stands before the French verb
        before = [*before, (OBJECT_PRONOUNS[clause.object_], sentence.say(clause.object_))]
    sentence.ecrire([*before, *verbs])
    if clause.object_ is not None and not isinstance(clause.object_, str):
        sentence.ecrire(_subject(sentence, clause.object_))


def _around(sentence: Sentence, manner: str) -> tuple[list[French], list[French]]:
    """What stands before and after the French verb for `not`, `never`, `often`, `always`, or nothing."""
    if not manner:
        return [], []
    word = sentence.say(manner)
    if manner in _NEGATIONS:
        return [("ne", word)], [(_NEGATIONS[manner], word)]
    return [], [(ADVERBS[manner], word)]


def _copula(sentence: Sentence, clause: Clause) -> None:
    person, gender, is_plural = _features(clause.subject)
    word = sentence.say(TO_BE_ENGLISH[clause.is_past][person])
    before, after = _around(sentence, clause.manner)
    sentence.ecrire([*before, (TO_BE[clause.is_past][person], word), *after])
    if clause.degree:
        sentence.ecrire([(DEGREES[clause.degree], sentence.say(clause.degree))])
    if clause.adjective is not None:
        form = clause.adjective.form(gender, is_plural)
        sentence.ecrire([(form, sentence.say(clause.adjective.english))])


def _place(sentence: Sentence, preposition: str, phrase: NounPhrase) -> None:
    word = sentence.say(preposition)
    sentence.ecrire([(PREPOSITIONS[preposition], word), *_noun_phrase(sentence, phrase)])


def _signed(sentence: Sentence, clause: Clause) -> None:
    """`(the agreement) on the area was signed in august 1992`."""
    if clause.place is not None:
        _place(sentence, *clause.place)
    person, gender, is_plural = _features(clause.subject)
    was = sentence.say("were" if is_plural else "was")
    signed = sentence.say("signed")
    participle = "signé" + "e" * (gender == "f") + "s" * is_plural
    sentence.ecrire([(TO_HAVE[person], was), ("été", was), (participle, signed)])
    month, year = clause.signed or ("", "")
    sentence.ecrire([("en", sentence.say("in")), (MONTHS[month], sentence.say(month))])
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
