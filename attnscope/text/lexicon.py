"""The words of the small English-French grammar, with all their forms.

Everything is written in small letters, as a `words` tokenizer that saw no capitals reads it.
"""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A noun: (singular, plural) in English and French; `classes` say where it may occur."""

    english: tuple[str, str]
    french: tuple[str, str]
    gender: Gender
    classes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjective:
    """An adjective; French forms are masculine singular and plural, feminine singular and plural.

    `before_vowel` is the masculine singular before a noun that begins with a vowel.
    """

    english: str
    french: tuple[str, str, str, str]
    is_before_noun: bool = False
    before_vowel: str = ""

    def form(self, gender: Gender, is_plural: bool) -> str:
        return self.french[(gender == "f") * 2 + is_plural]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb: English base, third person and past; French present in five persons, and past participle.

    `objects` names the classes of nouns it takes, and is empty for a verb without object.
    """

    english: tuple[str, str, str]
    french: tuple[str, str, str, str, str]
    participle: str
    objects: frozenset[str]


def _nouns(classes: str, table: str) -> tuple[Noun, ...]:
    """Lines of `english plural french plural gender`, `+class` for further classes."""
    nouns = []
    for line in table.strip().splitlines():
        fields = line.split()
        more = {field[1:] for field in fields if field.startswith("+")}
        one, many, un, des, gender = [field for field in fields if not field.startswith("+")]
        nouns.append(
            Noun(
                english=(one, many),
                french=(un, des),
                gender="f" if gender == "f" else "m",
                classes=frozenset(classes.split()) | more,
            )
        )
    return tuple(nouns)


def _adjectives(table: str, *, is_before_noun: bool = False) -> tuple[Adjective, ...]:
    """Lines of `english masculine [plural feminine plural [before-vowel]]`; regular forms may be left out."""
    adjectives = []
    for line in table.strip().splitlines():
        english, base, *rest = line.split()
        feminine = base if base.endswith("e") else base + "e"
        plural, feminine, feminines = rest[:3] if rest else (base + "s", feminine, feminine + "s")
        adjectives.append(
            Adjective(
                english=english,
                french=(base, plural, feminine, feminines),
                is_before_noun=is_before_noun,
                before_vowel=rest[3] if len(rest) > 3 else base,
            )
        )
    return tuple(adjectives)


def _verbs(table: str) -> tuple[Verb, ...]:
    """Lines of `base third past : stem-er or five forms and participle : object classes`."""
    verbs = []
    for line in table.strip().splitlines():
        english, french, objects = (part.split() for part in line.split(":"))
        if len(french) == 1:
            stem = french[0].removesuffix("er")
            we = "eons" if stem.endswith("g") else "ons"
            french = [stem + "e", stem + "es", stem + "e", stem + we, stem + "ent", stem + "é"]
        base, third, past = english
        je, tu, il, nous, ils, participle = french
        verbs.append(
            Verb(
                english=(base, third, past),
                french=(je, tu, il, nous, ils),
                participle=participle,
                objects=frozenset(objects),
            )
        )
    return tuple(verbs)


NOUNS = (
    *_nouns(
        "person",
        """
        man men homme hommes m
        woman women femme femmes f
        boy boys garçon garçons m
        girl girls fille filles f
        child children enfant enfants m
        king kings roi rois m +of
        queen queens reine reines f +of
        teacher teachers professeur professeurs m
        neighbour neighbours voisin voisins m +of
        """,
    ),
    *_nouns(
        "animal",
        """
        cat cats chat chats m
        dog dogs chien chiens m
        horse horses cheval chevaux m
        cow cows vache vaches f
        bird birds oiseau oiseaux m
        mouse mice souris souris f
        goat goats chèvre chèvres f
        animal animals animal animaux m
        """,
    ),
    *_nouns(
        "thing",
        """
        book books livre livres m +text
        letter letters lettre lettres f +text +opening
        newspaper newspapers journal journaux m +text
        table tables table tables f
        chair chairs chaise chaises f
        boat boats bateau bateaux m
        box boxes boîte boîtes f +opening
        key keys clé clés f +of
        window windows fenêtre fenêtres f +opening +of
        door doors porte portes f +opening +of
        flower flowers fleur fleurs f
        picture pictures image images f +of
        hat hats chapeau chapeaux m
        apple apples pomme pommes f +food
        cake cakes gâteau gâteaux m +food
        egg eggs œuf œufs m +food
        """,
    ),
    *_nouns(
        "place",
        """
        street streets rue rues f
        bridge bridges pont ponts m
        river rivers rivière rivières f
        garden gardens jardin jardins m
        field fields champ champs m
        house houses maison maisons f
        school schools école écoles f
        city cities ville villes f
        area areas zone zones f
        island islands île îles f
        forest forests forêt forêts f
        road roads route routes f
        """,
    ),
    *_nouns(
        "document",
        """
        agreement agreements accord accords m
        treaty treaties traité traités m
        law laws loi lois f
        contract contracts contrat contrats m
        """,
    ),
)

NAMES: tuple[tuple[str, Gender], ...] = (("sam", "m"), ("paul", "m"), ("marie", "f"), ("anna", "f"))

ADJECTIVES_BEFORE = _adjectives(
    """
    small petit
    big grand
    young jeune
    pretty joli
    beautiful beau beaux belle belles bel
    old vieux vieux vieille vieilles vieil
    good bon bons bonne bonnes
    bad mauvais mauvais mauvaise mauvaises
    """,
    is_before_noun=True,
)
ADJECTIVES_AFTER = _adjectives(
    """
    red rouge
    black noir
    white blanc blancs blanche blanches
    green vert
    blue bleu
    yellow jaune
    european européen européens européenne européennes
    economic économique
    french français français française françaises
    modern moderne
    strange étrange
    famous célèbre
    """
)
STATES = _adjectives(
    """
    tired fatigué
    hungry affamé
    sick malade
    happy heureux heureux heureuse heureuses
    sad triste
    """
)
"""Adjectives of people and animals only: after `because`, `it` is then the agent."""
SHAPES = _adjectives(
    """
    wide large
    narrow étroit
    dark sombre
    dangerous dangereux dangereux dangereuse dangereuses
    """
)
"""Adjectives of places only: after `because`, `it` is then the place."""

VERBS = _verbs(
    """
    see sees saw : vois vois voit voyons voient vu : person animal thing place document
    watch watches watched : regarder : person animal thing place
    find finds found : trouver : person animal thing place
    follow follows followed : suis suis suit suivons suivent suivi : person animal
    love loves loved : aimer : person animal thing place
    know knows knew : connais connais connaît connaissons connaissent connu : person place document
    draw draws drew : dessiner : person animal thing place
    wash washes washed : laver : animal thing
    eat eats ate : manger : food
    cross crosses crossed : traverser : place
    avoid avoids avoided : éviter : person animal place
    open opens opened : ouvre ouvres ouvre ouvrons ouvrent ouvert : opening
    sell sells sold : vends vends vend vendons vendent vendu : thing food
    lose loses lost : perds perds perd perdons perdent perdu : thing
    hear hears heard : entends entends entend entendons entendent entendu : person animal
    take takes took : prends prends prend prenons prennent pris : thing food
    write writes wrote : écris écris écrit écrivons écrivent écrit : text document
    buy buys bought : achète achètes achète achetons achètent acheté : thing food
    sign signs signed : signer : document text
    """
)
ACTIONS = _verbs(
    """
    sleep sleeps slept : dors dors dort dormons dorment dormi :
    work works worked : travailler :
    dance dances danced : danser :
    sing sings sang : chanter :
    laugh laughs laughed : ris ris rit rions rient ri :
    run runs ran : cours cours court courons courent couru :
    swim swims swam : nager :
    """
)
TO_HAVE = ("ai", "as", "a", "avons", "ont")
TO_BE = (("suis", "es", "est", "sommes", "sont"), ("étais", "étais", "était", "étions", "étaient"))
TO_BE_ENGLISH = (("am", "are", "is", "are", "are"), ("was", "were", "was", "were", "were"))

DETERMINERS: dict[str, tuple[str, str, str]] = {
    "the": ("le", "la", "les"),
    "a": ("un", "une", ""),
    "this": ("ce", "cette", ""),
    "these": ("", "", "ces"),
    "my": ("mon", "ma", "mes"),
    "your": ("ton", "ta", "tes"),
    "every": ("chaque", "chaque", ""),
    "some": ("", "", "des"),
    "two": ("", "", "deux"),
}
"""English determiner to French masculine, feminine, plural; '' where there is none."""

PREPOSITIONS = {"in": "dans", "on": "sur", "behind": "derrière", "with": "avec", "under": "sous"}
SUBJECT_PRONOUNS: dict[str, tuple[str, int, Gender]] = {
    "i": ("je", 0, "m"),
    "you": ("tu", 1, "m"),
    "he": ("il", 2, "m"),
    "she": ("elle", 2, "f"),
    "we": ("nous", 3, "m"),
    "they": ("ils", 4, "m"),
}
OBJECT_PRONOUNS = {"me": "me", "you": "te", "him": "le", "her": "la", "us": "nous", "them": "les"}
ADVERBS = {"often": "souvent", "always": "toujours"}
DEGREES = {"too": "trop", "very": "très"}
MONTHS = dict(
    zip(
        "january march april may june july august october november december".split(),
        "janvier mars avril mai juin juillet août octobre novembre décembre".split(),
        strict=True,
    )
)
YEARS = ("1789", "1848", "1918", "1957", "1969", "1992", "2002")
