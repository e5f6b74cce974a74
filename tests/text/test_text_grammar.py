"""The English-French grammar: hand-made translations, links checked against a dictionary made by hand."""

import itertools
import tomllib
from pathlib import Path

import pytest

from attnscope.text import is_held_out
from attnscope.text.grammar import (
    Clause,
    NounPhrase,
    Person,
    pronoun,
    pronoun_for,
    write_clause,
    write_phrase,
)
from attnscope.text.lexicon import (
    ACTIONS,
    ADJECTIVES_AFTER,
    ADJECTIVES_BEFORE,
    NOUNS,
    SHAPES,
    STATES,
    VERBS,
    Adjective,
    Noun,
    Verb,
)
from attnscope.text.tasks import make_task, task_tokenizer

# Made by hand, apart from the program's lexicon: every French form an English word may be linked to.
DICTIONARY_TEXT = """
the: le la les l' | a an: un une | this: ce cet cette | these: ces | my: mon ma mes | your: ton ta tes
every: chaque | some: des de | two: deux | of: de d' du des | because: car | .: .
in: dans en | on: sur | behind: derrière | with: avec | under: sous | too: trop | very: très
not: ne n' pas | never: ne n' jamais | often: souvent | always: toujours | did: ai as a avons ont
i: je j' | you: tu te t' | he: il | she: elle | we: nous | they: ils elles | it: il elle
me: me m' | him: le l' | her: la l' | us: nous | them: les | sam: sam | paul: paul | marie: marie | anna: anna
am: suis | are: es sommes sont | is: est | was: étais était a été | were: étais étions étaient ont été
man: homme | men: hommes | woman: femme | women: femmes | boy: garçon | boys: garçons | girl: fille
girls: filles | child: enfant | children: enfants | king: roi | kings: rois | queen: reine | queens: reines
teacher: professeur | teachers: professeurs | neighbour: voisin | neighbours: voisins
cat: chat | cats: chats | dog: chien | dogs: chiens | horse: cheval | horses: chevaux | cow: vache
cows: vaches | bird: oiseau | birds: oiseaux | mouse: souris | mice: souris | goat: chèvre | goats: chèvres
animal: animal | animals: animaux | book: livre | books: livres | letter: lettre | letters: lettres
newspaper: journal | newspapers: journaux | table: table | tables: tables | chair: chaise | chairs: chaises
boat: bateau | boats: bateaux | box: boîte | boxes: boîtes | key: clé | keys: clés | window: fenêtre
windows: fenêtres | door: porte | doors: portes | flower: fleur | flowers: fleurs | picture: image
pictures: images | hat: chapeau | hats: chapeaux | apple: pomme | apples: pommes | cake: gâteau
cakes: gâteaux | egg: œuf | eggs: œufs | street: rue | streets: rues | bridge: pont | bridges: ponts
river: rivière | rivers: rivières | garden: jardin | gardens: jardins | field: champ | fields: champs
house: maison | houses: maisons | school: école | schools: écoles | city: ville | cities: villes
area: zone | areas: zones | island: île | islands: îles | forest: forêt | forests: forêts | road: route
roads: routes | agreement: accord | agreements: accords | treaty: traité | treaties: traités | law: loi
laws: lois | contract: contrat | contracts: contrats
small: petit petite petits petites | big: grand grande grands grandes | young: jeune jeunes
pretty: joli jolie jolis jolies | beautiful: beau bel belle beaux belles | old: vieux vieil vieille vieilles
good: bon bonne bons bonnes | bad: mauvais mauvaise mauvaises | red: rouge rouges
black: noir noire noirs noires | white: blanc blanche blancs blanches | green: vert verte verts vertes
blue: bleu bleue bleus bleues | yellow: jaune jaunes | european: européen européenne européens européennes
economic: économique économiques | french: français française françaises | modern: moderne modernes
strange: étrange étranges | famous: célèbre célèbres | tired: fatigué fatiguée fatigués fatiguées
hungry: affamé affamée affamés affamées | sick: malade malades | happy: heureux heureuse heureuses
sad: triste tristes | wide: large larges | narrow: étroit étroite étroits étroites
dark: sombre sombres | dangerous: dangereux dangereuse dangereuses
see sees: vois voit voyons voient | saw: vu | watch watches: regarde regardes regardons regardent
watched: regardé | find finds: trouve trouves trouvons trouvent | found: trouvé
follow follows: suis suit suivons suivent | followed: suivi | love loves: aime aimes aimons aiment
loved: aimé | know knows: connais connaît connaissons connaissent | knew: connu
draw draws: dessine dessines dessinons dessinent | drew: dessiné | wash washes: lave laves lavons lavent
washed: lavé | eat eats: mange manges mangeons mangent | ate: mangé
cross crosses: traverse traverses traversons traversent | crossed: traversé
avoid avoids: évite évites évitons évitent | avoided: évité | open opens: ouvre ouvres ouvrons ouvrent
opened: ouvert | sell sells: vends vend vendons vendent | sold: vendu | lose loses: perds perd perdons perdent
lost: perdu | hear hears: entends entend entendons entendent | heard: entendu
take takes: prends prend prenons prennent | took: pris | write writes: écris écrit écrivons écrivent
wrote: écrit | buy buys: achète achètes achetons achètent | bought: acheté
sign signs: signe signes signons signent | signed: signé signée signés signées
sleep sleeps: dors dort dormons dorment | slept: dormi
work works: travaille travailles travaillons travaillent
worked: travaillé | dance dances: danse danses dansons dansent | danced: dansé
sing sings: chante chantes chantons chantent | sang: chanté | laugh laughs: ris rit rions rient | laughed: ri
run runs: cours court courons courent | ran: couru | swim swims: nage nages nageons nagent | swam: nagé
january: janvier | march: mars | april: avril | may: mai | june: juin | july: juillet | august: août
october: octobre | november: novembre | december: décembre
"""
AUXILIARIES = {"ai", "as", "a", "avons", "ont"}


def _dictionary() -> dict[str, set[str]]:
    entries: dict[str, set[str]] = {}
    for entry in DICTIONARY_TEXT.replace("\n", "|").split("|"):
        if not entry.strip():
            continue
        english, french = entry.rsplit(":", 1) if not entry.strip().startswith(".") else (".", ".")
        for word in english.split():
            entries[word] = set(french.split())
    return entries


DICTIONARY = _dictionary()
PAST = {"saw", "found", "knew", "drew", "ate", "sold", "lost", "heard", "took", "wrote", "bought", "slept"}
PAST |= {"sang", "ran", "swam"}
PARTICIPLES = {
    form
    for english, forms in DICTIONARY.items()
    if english in PAST or english.endswith("ed")
    for form in forms
    if english not in {"red", "tired"}
}


def linked_is_translation(english: str, french: str) -> bool:
    """Whether a French word may come from an English one, by the dictionary made by hand."""
    if french in DICTIONARY.get(english, ()) or (english.isdigit() and english == french):
        return True
    is_past = english in PAST or english.endswith("ed")
    if french in AUXILIARIES and is_past:
        return True
    base_forms = french in PARTICIPLES  # after "did" the English verb is in its base form
    return base_forms and any(french in DICTIONARY[past] for past in _pasts(english))


def _pasts(base: str) -> list[str]:
    table = (
        "see saw find found know knew draw drew eat ate sell sold lose lost hear heard take took write wrote"
    )
    words = f"{table} buy bought sleep slept sing sang run ran swim swam".split()
    irregular = dict(zip(words[::2], words[1::2], strict=True))
    return [past for past in (irregular.get(base, ""), base + "ed", base + "d") if past in DICTIONARY]


def noun(english: str) -> Noun:
    return next(n for n in NOUNS if n.english[0] == english)


def adjective(english: str) -> Adjective:
    known = (*ADJECTIVES_BEFORE, *ADJECTIVES_AFTER, *STATES, *SHAPES)
    return next(a for a in known if a.english == english)


def verb(english: str) -> Verb:
    return next(v for v in (*VERBS, *ACTIONS) if v.english[0] == english)


AREA = NounPhrase(noun=noun("area"), adjectives=(adjective("european"), adjective("economic")))
ANIMAL = NounPhrase(noun=noun("animal"))
STREET = NounPhrase(noun=noun("street"))


def crossing(referent: NounPhrase, state: str) -> Clause:
    because = Clause(subject=pronoun_for(referent), is_past=True, degree="too", adjective=adjective(state))
    return Clause(
        subject=ANIMAL,
        verb=verb("cross"),
        is_past=True,
        manner="not",
        object_=STREET,
        because=because,
        has_stop=True,
    )


SENTENCES = [
    (write_phrase(AREA), "the european economic area", "la zone économique européenne", "0 3 2 1"),
    (
        write_clause(
            Clause(subject=NounPhrase(noun=noun("agreement")), place=("on", AREA), signed=("august", "1992"))
        ),
        "the agreement on the european economic area was signed in august 1992",
        "l' accord sur la zone économique européenne a été signé en août 1992",
        "0 1 2 3 6 5 4 7 7 8 9 10 11",
    ),
    (
        write_clause(crossing(ANIMAL, "tired")),
        "the animal did not cross the street because it was too tired .",
        "l' animal n' a pas traversé la rue car il était trop fatigué .",
        "0 1 3 2 3 4 5 6 7 8 9 10 11 12",
    ),
    (
        write_clause(crossing(STREET, "wide")),
        "the animal did not cross the street because it was too wide .",
        "l' animal n' a pas traversé la rue car elle était trop large .",
        "0 1 3 2 3 4 5 6 7 8 9 10 11 12",
    ),
    (
        write_clause(Clause(subject=pronoun("i"), verb=verb("see"), manner="never", object_="them")),
        "i never see them",
        "je ne les vois jamais",
        "0 1 3 2 1",
    ),
    (
        write_clause(
            Clause(
                subject=NounPhrase(noun=noun("cat"), adjectives=(adjective("small"), adjective("black"))),
                verb=verb("sleep"),
                place=(
                    "behind",
                    NounPhrase(
                        noun=noun("door"),
                        of=NounPhrase(noun=noun("house"), adjectives=(adjective("old"),)),
                    ),
                ),
                has_stop=True,
            )
        ),
        "the small black cat sleeps behind the door of the old house .",
        "le petit chat noir dort derrière la porte de la vieille maison .",
        "0 1 3 2 4 5 6 7 8 9 10 11 12",
    ),
    (
        write_clause(
            Clause(
                subject=NounPhrase(
                    noun=noun("key"), is_plural=True, of=NounPhrase(noun=noun("king"), is_plural=True)
                ),
                adjective=adjective("green"),
            )
        ),
        "the keys of the kings are green",
        "les clés des rois sont vertes",
        "0 1 2 4 5 6",
    ),
    (
        write_clause(
            Clause(
                subject=Person(english="marie", french="marie", gender="f"),
                verb=verb("open"),
                is_past=True,
                manner="often",
                object_=NounPhrase(noun=noun("window")),
                place=("with", NounPhrase(noun=noun("neighbour"), determiner="my")),
            )
        ),
        "marie often opened the window with my neighbour",
        "marie a souvent ouvert la fenêtre avec mon voisin",
        "0 2 1 2 3 4 5 6 7",
    ),
    (
        write_clause(
            Clause(
                subject=pronoun("you"),
                verb=verb("love"),
                manner="not",
                object_="me",
            )
        ),
        "you do not love me",
        "tu ne m' aimes pas",
        "0 2 4 3 2",
    ),
    (
        write_phrase(
            NounPhrase(noun=noun("bird"), determiner="a", adjectives=(adjective("old"), adjective("blue")))
        ),
        "an old blue bird",
        "un vieil oiseau bleu",
        "0 1 3 2",
    ),
    (
        write_phrase(NounPhrase(noun=noun("school"), determiner="my")),
        "my school",
        "mon école",
        "0 1",
    ),
    (
        write_phrase(NounPhrase(noun=noun("child"), determiner="this")),
        "this child",
        "cet enfant",
        "0 1",
    ),
    (
        write_phrase(
            NounPhrase(
                noun=noun("apple"), determiner="some", is_plural=True, adjectives=(adjective("pretty"),)
            )
        ),
        "some pretty apples",
        "de jolies pommes",
        "0 1 2",
    ),
    (
        write_clause(
            Clause(subject=pronoun("she"), manner="not", is_past=True, adjective=adjective("happy"))
        ),
        "she was not happy",
        "elle n' était pas heureuse",
        "0 2 1 2 3",
    ),
    (
        write_clause(
            Clause(
                subject=pronoun("we"),
                verb=verb("eat"),
                object_=NounPhrase(noun=noun("cake"), of=NounPhrase(noun=noun("man"))),
            )
        ),
        "we eat the cake of the man",
        "nous mangeons le gâteau de l' homme",
        "0 1 2 3 4 5 6",
    ),
]


@pytest.mark.parametrize(("example", "english", "french", "keys"), SENTENCES, ids=[s[1] for s in SENTENCES])
def test_that_a_sentence_is_as_a_person_wrote_it(
    example: object, english: str, french: str, keys: str
) -> None:
    assert example.source == english
    assert example.target == french
    assert example.links == tuple(enumerate(map(int, keys.split())))


@pytest.mark.slow
def test_that_every_linked_word_is_a_translation_by_a_dictionary_made_by_hand() -> None:
    wrong = set()
    for example in make_task("english-french").examples(6_000, seed=11):
        source, target = example.source.split(), example.target.split()
        for word, key in example.links:
            if not linked_is_translation(source[key], target[word]):
                wrong.add((source[key], target[word], example.source, example.target))
    assert not wrong


def test_that_every_french_word_has_one_link_and_every_plain_english_word_too() -> None:
    unlinked = {"do", "does", "the", "did"}  # "do not" is ne … pas; "of the" is one word, du
    for example in make_task("english-french").examples(3_000, seed=12):
        source, target = example.source.split(), example.target.split()
        assert [word for word, _ in example.links] == list(range(len(target)))
        missing = {source[key] for key in set(range(len(source))) - {key for _, key in example.links}}
        assert missing <= unlinked, example


@pytest.mark.slow
def test_that_one_source_has_one_translation() -> None:
    known: dict[str, str] = {}
    for example in make_task("english-french").examples(25_000, seed=13):
        assert known.setdefault(example.source, example.target) == example.target
    assert len(known) > 22_000


@pytest.mark.slow
def test_that_the_vocabulary_has_every_word_and_no_other() -> None:
    task = make_task("english-french")
    vocabulary = set(task.vocabulary)
    seen = {
        word
        for example in task.examples(20_000, seed=14)
        for word in f"{example.source} {example.target}".split()
    }
    assert seen <= vocabulary
    assert len(vocabulary - seen) < 0.03 * len(vocabulary)


@pytest.mark.slow
def test_that_the_tokens_are_the_words_that_links_count() -> None:
    task = make_task("english-french")
    tokenizer = task_tokenizer(task)
    for example in task.examples(500, seed=15):
        for text in (example.source, example.target):
            assert list(tokenizer.encode(text).pieces) == text.split()
            ids = tokenizer.encode_ids(text)
            assert tokenizer.encode_ids(tokenizer.decode(ids)) == ids


def test_that_the_sample_sentences_are_inside_the_grammar() -> None:
    tokenizer = task_tokenizer(make_task("english-french"))
    path = Path(__file__).parents[2] / "resources" / "samples" / "grammar.toml"
    samples = tomllib.loads(path.read_text(encoding="utf-8"))["sample"]
    written = {english: french for _, english, french, _ in SENTENCES}
    for sample in samples:
        french = " ".join(tokenizer.encode(sample["target"]).pieces)
        assert written[sample["text"]] == french


def test_that_no_english_article_is_wrong() -> None:
    for example in make_task("english-french").examples(3_000, seed=16):
        words = example.source.split()
        for article, word in itertools.pairwise(words):
            if article in ("a", "an"):
                vowel = word[0] in "aeiou" and word != "european"
                assert (article == "an") == vowel, example.source


def test_that_no_french_elision_is_missing() -> None:
    vowels = "aàâeéèêiîoôœuûh"
    for example in make_task("english-french").examples(3_000, seed=17):
        words = example.target.split()
        for first, second in itertools.pairwise(words):
            if first in ("le", "la", "je", "me", "te", "ne", "de", "ce", "ma", "ta"):
                assert second[0] not in vowels, example.target
            if first.endswith("'") or first == "cet":
                assert second[0] in vowels, example.target
            assert (first, second) not in {("de", "le"), ("de", "les")}


def test_that_held_out_sources_are_about_a_tenth() -> None:
    sources = {f"the cat sees {n}" for n in range(4_000)}
    assert 300 < sum(map(is_held_out, sources)) < 500
