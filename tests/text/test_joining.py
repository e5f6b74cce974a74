"""Pairs joined to longer ones: what is joined, how, and what is left alone."""

from pathlib import Path

import numpy as np
import pytest

from attnscope.errors import RecipeError
from attnscope.text import joined_pairs, joining_words
from attnscope.training import parse_recipe, prepare

AND = [("and", "et")]
PAIRS = [
    ("My name is Tom.", "Je m'appelle Tom."),
    ("I met Tom and Mary.", "J'ai rencontré Tom et Mary."),
    ("Tom likes Mary.", "Tom aime Mary."),
    ("He saw Tom.", "Il a vu Tom."),
    ("The cat sleeps.", "Le chat dort."),
    ("Where is Mary?", "Où est Mary ?"),
]


def _joined(pairs: list[tuple[str, str]], share: float = 20.0, seed: int = 3) -> list[tuple[str, str]]:
    return joined_pairs(pairs, share, AND, np.random.default_rng(seed))


def test_that_as_many_are_made_as_asked_for_and_the_same_for_a_seed() -> None:
    assert len(_joined(PAIRS, 0.4)) == 2
    assert _joined(PAIRS) == _joined(PAIRS)
    assert _joined(PAIRS) != _joined(PAIRS, seed=4)


def test_that_the_second_sentence_loses_its_capital_unless_a_name_or_i_has_it() -> None:
    made = dict(_joined(PAIRS, 100.0))
    assert made["My name is Tom and the cat sleeps."] == "Je m'appelle Tom et le chat dort."
    assert made["The cat sleeps, and Tom likes Mary."] == "Le chat dort, et Tom aime Mary."
    assert made["The cat sleeps and I met Tom and Mary."] == "Le chat dort et j'ai rencontré Tom et Mary."


def test_that_only_statements_are_joined_and_others_stand_in_a_row() -> None:
    for source, target in _joined(PAIRS):
        if "?" in source:
            assert " and where" not in source
            assert "Où est" in target
    assert ("The cat sleeps. Where is Mary?", "Le chat dort. Où est Mary ?") in _joined(PAIRS, 100.0)


def test_that_without_joining_words_sentences_stand_in_a_row() -> None:
    for source, _ in joined_pairs(PAIRS, 20.0, [], np.random.default_rng(1)):
        assert sum(source.count(mark) for mark in ".?") == 2


@pytest.mark.parametrize("pairs", [[], [("", "")], [("a " * 13, "b.")], [("a", "")]])
def test_that_nothing_is_made_of_nothing_or_of_long_sentences(pairs: list[tuple[str, str]]) -> None:
    assert _joined(pairs) == []


def test_that_joining_words_are_read_and_odd_ones_refused() -> None:
    assert joining_words("") == []
    assert joining_words(" and/et , but / mais,") == [("and", "et"), ("but", "mais")]
    for odd in ("and", "and/", "/et", "a/b/c"):
        with pytest.raises(ValueError, match="a slash"):
            joining_words(odd)


def _recipe(path: Path, share: float, by: str) -> str:
    return (
        f'[model]\nd_model = 16\nn_heads = 2\n[data]\nkind = "pairs"\npath = "{path}"\n'
        f'validation_share = 0.25\njoined_share = {share}\njoined_by = "{by}"\n'
        '[objective]\nkind = "translation"\n'
        '[tokenizer]\nkind = "characters"\nvocab_size = 60\n[training]\nn_steps = 1\nbatch_size = 2\n'
    )


def test_that_a_recipe_reads_joined_pairs_and_never_joins_held_out_ones(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"cat{n} sleeps.\tchat{n} dort.\n" for n in range(40)), encoding="utf-8")
    batches = prepare(parse_recipe(_recipe(path, 0.5, "and/et"))).batches
    assert len(batches.training.lengths) == 45  # type: ignore[attr-defined]
    assert len(batches.held_out.lengths) == 10  # type: ignore[attr-defined]


def test_that_odd_joining_words_of_a_recipe_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="joined_by"):
        parse_recipe(_recipe(tmp_path / "x", 0.5, "and"))
    text = '[data]\nkind = "text"\npath = "x"\njoined_share = 0.5\n[objective]\nkind = "causal"\n'
    text += "[training]\nn_steps = 1\n"
    with pytest.raises(RecipeError, match=r"joined_share is 0.5"):
        parse_recipe(text)
