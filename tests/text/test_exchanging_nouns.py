"""Rare nouns put into the places of others: which ones, where, and what is left alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from attnscope.errors import RecipeError
from attnscope.text import exchanged_pairs
from attnscope.training import ExampleBatches, parse_recipe, prepare

HE = {"hat": "chapeau", "curtain": "rideau", "knife": "couteau", "bench": "banc"}
SHE = {"table": "table", "chair": "chaise", "river": "rivière"}
OPEN = {"egg": "œuf", "uncle": "oncle"}
"""Masculine, and both languages begin with a vowel: "an egg", "l'œuf"."""
HE_MANY = {"hats": "chapeaux", "curtains": "rideaux", "knives": "couteaux", "benches": "bancs"}
SHE_MANY = {"tables": "tables", "chairs": "chaises", "rivers": "rivières"}
ALL = HE | SHE | OPEN
ONE_PLACES = [
    ("I bought {a} yesterday.", "J'ai acheté {un} hier."),
    ("{The} is here.", "{Le} est ici."),
    ("Do you see {the} ?", "Vois-tu {le} ?"),
    ("Tom likes {the} and Mary likes it.", "Tom aime {le} et Mary l'aime."),
    ("This is {a}.", "C'est {un}."),
    ("Tom wanted {a} and got it.", "Tom voulait {un} et il l'a eu."),
]
MANY_PLACES = [
    ("The {} are here.", "Les {} sont ici."),
    ("Tom sees the {}.", "Tom voit les {}."),
    ("Take these {} now.", "Prends ces {} maintenant."),
    ("He has my {}.", "Il a mes {}."),
]


def _one(source: str, target: str, noun: str) -> tuple[str, str]:
    translation, un = ALL[noun], "une" if noun in SHE else "un"
    a = f"an {noun}" if noun in OPEN else f"a {noun}"
    le = f"l'{translation}" if noun in OPEN else f"{'la' if noun in SHE else 'le'} {translation}"
    english = source.format(a=a, the=f"the {noun}", The=f"The {noun}")
    return english, target.format(un=f"{un} {translation}", le=le, Le=le[0].upper() + le[1:])


def _ones(nouns: Mapping[str, str]) -> list[tuple[str, str]]:
    return [_one(*place, noun) for noun in nouns for place in ONE_PLACES]


def _many(nouns: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(a.format(noun), b.format(nouns[noun])) for noun in nouns for a, b in MANY_PLACES]


def _two(place: tuple[str, str], english: str, french: str, un: str = "un") -> tuple[str, str]:
    """A place filled with words that are in none of the lists."""
    le = {"un": "le", "une": "la"}[un] + f" {french}"
    source = place[0].format(a=f"a {english}", the=f"the {english}", The=f"The {english}")
    return source, place[1].format(un=f"{un} {french}", le=le, Le=le.capitalize())


PAIRS = [*_ones(ALL), *_many(HE_MANY | SHE_MANY)]
WANTED = "I want {the} now.", "Je veux {le} maintenant."


def _made(pairs: Sequence[tuple[str, str]], share: float = 20.0, seed: int = 3) -> list[tuple[str, str]]:
    return exchanged_pairs(pairs, share, np.random.default_rng(seed))


def test_that_as_many_are_made_as_asked_for_and_the_same_for_a_seed() -> None:
    assert len(_made(PAIRS, 0.4)) == round(0.4 * len(PAIRS))
    assert _made(PAIRS, 1.0) == _made(PAIRS, 1.0)
    assert _made(PAIRS, 1.0) != _made(PAIRS, 1.0, seed=4)


def test_that_each_rare_noun_is_as_likely_as_any_other() -> None:
    pairs = [*PAIRS, *_ones({"hat": ""}) * 3]
    made = _made(pairs, 60.0)
    counts = {noun: sum(f" {noun} " in source for source, _ in made) for noun in ("hat", "curtain", "knife")}
    assert max(counts.values()) < 1.3 * min(counts.values())


def test_that_both_texts_get_the_same_noun_of_the_same_gender_number_and_first_sound() -> None:
    """Every noun stands in every place that suits it, so that all that is made well stands here already."""
    made = set(_made(PAIRS))
    assert made <= set(PAIRS)
    for noun in (*ALL, *HE_MANY, *SHE_MANY):
        assert any(noun in source.split() for source, _ in made)


@pytest.mark.parametrize(
    ("stood", "suit"), [("hat", HE), ("river", SHE), ("egg", OPEN)], ids=["he", "she", "vowel"]
)
def test_that_a_noun_takes_a_new_place_where_one_of_its_kind_stood(stood: str, suit: dict[str, str]) -> None:
    made = {pair for pair in _made([*PAIRS, _one(*WANTED, stood)]) if "I want" in pair[0]}
    assert made == {_one(*WANTED, noun) for noun in suit}


def test_that_nouns_of_another_number_in_one_language_alone_stay_apart() -> None:
    """Trousers are many in English alone, and hair, *les cheveux*, is many in French alone."""
    odd = [
        ("Tom sees the trousers.", "Tom voit le pantalon."),
        ("He has my trousers.", "Il a un pantalon."),
        ("The hair is here.", "Les cheveux sont ici."),
        ("He has my hair.", "Il a mes cheveux."),
    ]
    hair = ("A hair is here.", "Un cheveu est ici."), ("I see a hair.", "Je vois un cheveu.")
    made = set(_made([*PAIRS, *odd * 3, *hair]))
    assert made <= {*PAIRS, *odd}
    assert made & set(odd[:2])
    assert made & set(odd[2:])


def test_that_frequent_nouns_give_places_and_take_none() -> None:
    many = [*PAIRS, *_ones({"hat": ""}) * 15]  # 96 times
    made = _made([*many, _one(*WANTED, "hat")])
    assert {pair for pair in made if "I want" in pair[0]} == {
        _one(*WANTED, noun) for noun in ("curtain", "knife", "bench")
    }
    assert not any("hat" in source.replace(".", "").split() for source, _ in made)


def test_that_a_place_without_an_article_in_french_is_left_alone() -> None:
    """Nothing there tells whether the sentence wants the noun's gender and number."""
    made = _made([*PAIRS, ("Tom wore the hat home.", "Tom porta chapeau chez lui.")])
    assert not any("wore" in source for source, _ in made)
    made = _made([*PAIRS, ("Tom wore the hat home.", "Tom porta le chapeau chez lui.")])
    assert ("Tom wore the curtain home.", "Tom porta le rideau chez lui.") in made


def test_that_one_word_for_two_is_exchanged_in_neither_language() -> None:
    """ "Tea pot" is *théière*, and *porte fenêtre* is "patio": half of it exchanged would leave the other."""
    teapots = [_two(place, "tea pot", "théière", "une") for place in ONE_PLACES[:4]]
    pots = [_two(place, "pot", "théière", "une") for place in ONE_PLACES[2:4]]
    assert set(_made([*PAIRS, *teapots, *pots])) <= {*PAIRS, *teapots, *pots}
    patios = [_two(place, "patio", "porte fenêtre", "une") for place in ONE_PLACES]
    halves = ("door", "porte"), ("window", "fenêtre")
    doors = [_two(place, *half, "une") for half in halves for place in ONE_PLACES[:3]]
    made = {
        pair for pair in _made([*PAIRS, *patios, *doors]) if "patio" in pair[0] or "porte fenêtre" in pair[1]
    }
    assert not made


def test_that_a_translation_is_one_that_four_in_ten_of_its_links_name() -> None:
    """A hat is *chapeau* six times; *bonnet* is its translation from the fourth time on, not at three."""
    caps = [_two(place, "hat", "bonnet") for place in ONE_PLACES[:4]]
    assert any("bonnet" in target for _, target in _made([*PAIRS, *caps]))
    assert not any("bonnet" in target for _, target in _made([*PAIRS, *caps[:3]]))


@pytest.mark.parametrize(("n_male", "is_sure"), [(6, True), (5, False)])
def test_that_a_gender_is_known_from_six_articles_of_seven(n_male: int, is_sure: bool) -> None:
    """Of *livre*, one *la* beside six or five of *le* and *un*."""
    books = [_two(place, "book", "livre") for place in ONE_PLACES[:n_male]]
    pound = _two(WANTED, "book", "livre", "une")
    made = [source for source, _ in _made([*PAIRS, *books, pound]) if "book" in source]
    assert bool(made) == is_sure


def test_that_a_word_that_nouns_follow_is_no_noun() -> None:
    """ "The red car": *red* follows an article as a noun does, but a noun follows it."""
    nouns = [("The red is here.", "Le rouge est ici."), ("Tom likes the red now.", "Tom aime le rouge.")]
    other = [("The red hat is here.", "Le chapeau rouge est ici.")] * 4
    assert any("red" in source.split() for source, _ in _made([*PAIRS, *nouns * 2]))
    made = _made([*PAIRS, *nouns * 2, *other])
    with_red = {source for source, _ in made if "red" in source.split()}
    assert with_red == {f"The red {noun} is here." for noun in HE}


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("", "")],
        [("a hat", "")] * 9,
        [("The hat.", "The hat.")] * 9,
        [("?!", "…")] * 5,
        [("😀 the hat", "😀 \u0301")] * 5,
        _ones(HE)[:2],
        [(target, source) for source, target in PAIRS],
    ],
    ids=["none", "empty", "no target", "no French", "marks", "emoji", "too few", "from French"],
)
def test_that_nothing_is_made_where_no_noun_is_told(pairs: list[tuple[str, str]]) -> None:
    assert _made(pairs) == []


def _recipe(path: Path, more: str) -> str:
    return (
        f'[model]\nd_model = 16\nn_heads = 2\n[data]\nkind = "pairs"\npath = "{path}"\n'
        f'validation_share = 0.2\n{more}\n[objective]\nkind = "translation"\n'
        '[tokenizer]\nkind = "characters"\nvocab_size = 90\n[training]\nn_steps = 1\nbatch_size = 2\n'
    )


def _read(text: str) -> tuple[list[str], list[str]]:
    """The training and the held-out pairs, as text."""
    prepared = prepare(parse_recipe(text))
    batches, decode = prepared.batches, prepared.tokenizer.decode
    assert isinstance(batches, ExampleBatches)
    rows = [
        [decode(source) + decode(target) for source, target in zip(*(a.tolist() for a in kept), strict=True)]
        for kept in (batches.training.parts, batches.held_out.parts)
    ]
    return rows[0], rows[1]


def test_that_a_recipe_reads_them_after_its_own_pairs_and_changes_no_held_out_one(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    plain, kept = _read(_recipe(path, ""))
    assert _read(_recipe(path, "exchanged_share = 0.0")) == (plain, kept)
    more, kept_now = _read(_recipe(path, "exchanged_share = 0.5"))
    assert kept_now == kept
    assert more[: len(plain)] == plain
    assert len(more) == len(plain) + round(0.5 * len(plain))


def test_that_a_recipe_says_so_where_no_noun_can_be_exchanged(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"cat{n} sleeps.\tchat{n} dort.\n" for n in range(40)), encoding="utf-8")
    with pytest.raises(RecipeError, match=r"exchanged_share is 0\.5, but .*pairs\.tsv has no rare noun"):
        prepare(parse_recipe(_recipe(path, "exchanged_share = 0.5")))
    text = '[data]\nkind = "text"\npath = "x"\nexchanged_share = 0.5\n[objective]\nkind = "causal"\n'
    with pytest.raises(RecipeError, match=r"exchanged_share is 0\.5 and data\.kind"):
        parse_recipe(text + "[training]\nn_steps = 1\n")
