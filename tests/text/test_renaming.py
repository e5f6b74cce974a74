"""Names exchanged for made-up ones: consistent within a text, and nothing else changes."""

import re
from pathlib import Path

import numpy as np
import pytest

from attnscope.text import made_up_name, names_in, renamed, renamed_pairs
from attnscope.training import parse_recipe, prepare

STORY = (
    'Then Tom saw Mia. "Hello, Mia," said Tom.',
    "Mom gave Tom's rose to Mia, and Rose ran. He saw Mom and his mom.",
)


def test_that_a_name_is_what_is_hardly_ever_written_small() -> None:
    assert names_in(STORY) == {"Tom", "Mia"}
    assert names_in(()) == names_in(["", "  ", "so he saw Mia"]) == frozenset()


@pytest.mark.parametrize("seed", range(8))
def test_that_names_alone_change_and_stay_the_same_within_a_text(seed: int) -> None:
    lines = [*STORY, "", *STORY, "no names here", "", ""]
    other = renamed(lines, 1.0, np.random.default_rng(seed))
    assert [not line for line in other] == [not line for line in lines]
    assert other[5] == lines[5]
    found = re.fullmatch(r'Then (\w+) saw (\w+)\. "Hello, (\w+)," said (\w+)\.', other[0])
    assert found is not None
    assert found[1] == found[4] != "Tom"
    assert found[2] == found[3] != "Mia"
    assert other[1] == STORY[1].replace("Tom", found[1]).replace("Mia", found[2])
    assert other[3] != other[0]
    assert renamed(lines, 0.0, np.random.default_rng(seed)) == lines
    assert renamed(lines, 1.0, np.random.default_rng(seed)) == other


def test_that_about_that_share_of_the_texts_has_other_names() -> None:
    lines = [*STORY, ""] * 400
    other = renamed(lines, 0.3, np.random.default_rng(0))
    assert 0.24 < sum(other[i] != lines[i] for i in range(0, len(lines), 3)) / 400 < 0.36
    assert renamed([], 0.3, np.random.default_rng(0)) == []


def test_that_made_up_names_are_many_and_are_written_like_names() -> None:
    rng = np.random.default_rng(0)
    names = [made_up_name(rng) for _ in range(2_000)]
    assert len(set(names)) > 1_500
    assert all(re.fullmatch(r"[A-Z][a-z]{2,11}", name) for name in names)


def test_that_a_recipe_leaves_the_held_out_texts_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "stories.txt"
    path.write_text("\n".join([*STORY, ""] * 30))
    text = (
        '[model]\nd_model = 8\nn_heads = 1\n[tokenizer]\nkind = "characters"\nvocab_size = 60\n'
        f'[data]\nkind = "text"\npath = "{path}"\nrenamed_share = %g\n'
        '[objective]\nkind = "causal"\n[training]\nn_steps = 1\n'
    )
    plain, other = (prepare(parse_recipe(text % share)) for share in (0, 1))
    held = [data.tokenizer.decode(data.batches.held_out.tolist()) for data in (plain, other)]  # type: ignore[attr-defined]
    read = [data.tokenizer.decode(data.batches.training.tolist()) for data in (plain, other)]  # type: ignore[attr-defined]
    assert held[0] == held[1]
    assert "Mia" in held[0]
    assert "Mia" in read[0]
    assert "Mia" not in read[1]
    assert read[1].count("rose to") == read[0].count("rose to")


PAIRS = (
    ("I think Tom is 30.", "Je pense que Tom a 30 ans."),
    ("It is 2:30.", "Il est 14 h 30."),
    ("So Tom saw Mia at 5.", "Tom a vu Marie à 5 heures."),
    ("so it was Mia.", "c'était Marie."),
)


def test_that_names_and_numbers_that_both_texts_have_change_in_both() -> None:
    other = renamed_pairs(PAIRS, 40.0, np.random.default_rng(0))
    assert len(other) == 160
    kinds = set()
    for source, target in other:
        first = re.fullmatch(r"I think ([^\W\d_]+) is (\d{1,4})\.( \S)?", source)
        second = re.fullmatch(r"So ([^\W\d_]+) saw Mia at (\d{1,4})\.( \S)?", source)
        found = first or second
        assert found is not None
        assert found[1][0].isupper()
        assert found[1][1:].islower()
        sentence = "Je pense que {} a {} ans.{}" if first else "{} a vu Marie à {} heures.{}"
        assert target == sentence.format(found[1], found[2], found[3] or "")
        kinds.add((first is not None, found[3] is not None))
    assert len(kinds) == 4
    assert renamed_pairs(PAIRS, 40.0, np.random.default_rng(0)) == other
    assert renamed_pairs(PAIRS, 0.0, np.random.default_rng(0)) == []


def test_that_pairs_without_names_and_numbers_give_no_more() -> None:
    for pairs in ((), PAIRS[1:2], PAIRS[3:], (("NO WAY", "JAMAIS"), ("1.5 or 2,000", "1,5 ou 2 000"))):
        assert renamed_pairs(pairs, 5.0, np.random.default_rng(0)) == []


def test_that_a_recipe_reads_more_pairs_with_other_names(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"Now Tom has {n}.\tTom en a {n}.\n" for n in range(40)))
    recipe = parse_recipe(
        '[model]\nd_model = 8\nn_heads = 1\n[tokenizer]\nkind = "characters"\nvocab_size = 60\n'
        f'[data]\nkind = "pairs"\npath = "{path}"\nvalidation_share = 0.25\nrenamed_share = 0.5\n'
        '[objective]\nkind = "translation"\n[training]\nn_steps = 1\n'
    )
    batches = prepare(recipe).batches
    assert len(batches.training.lengths) == 45  # type: ignore[attr-defined]
    assert len(batches.held_out.lengths) == 10  # type: ignore[attr-defined]


def test_that_four_names_in_ten_have_letters_that_english_does_not_have() -> None:
    pairs = [("So Tom is here.", "Alors Tom est ici."), ("So we saw Tom.", "Alors on a vu Tom.")]
    other = renamed_pairs(pairs, 1_000.0, np.random.default_rng(0))
    names = []
    for source, target in other:
        found = re.search(r"So (\w+) is here|saw (\w+)\.", source)
        assert found is not None
        names.append(found[1] or found[2])
        assert names[-1] in target  # the same in both
    assert all(name[0].isupper() and name.isalpha() for name in names)
    assert (
        0.3 < sum(not name.isascii() for name in names) / len(names) < 0.4
    )  # some letters have none like them
