"""The tokenizer of bytes against Python's own UTF-8, on any text there is."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import attnscope as at
from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.records import KINDS as TITLES
from attnscope.text import Tokenizer, train_tokenizer

BYTES = train_tokenizer("bytes", ["read and forgotten"], vocab_size=261)
any_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)
quick = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_that_every_byte_has_its_number_behind_the_special_tokens() -> None:
    assert BYTES.vocab_size == 261
    assert (BYTES.pad_id, BYTES.unknown_id, BYTES.begin_id, BYTES.end_id, BYTES.mask_id) == (0, 1, 2, 3, 4)
    for byte in range(128):
        assert BYTES.encode_ids(chr(byte)) == [5 + byte]
    assert TITLES["bytes"] == "bytes"


@quick
@given(text=any_text)
def test_that_ids_are_the_bytes_of_utf_8_and_give_back_any_text(text: str) -> None:
    if "<mask>" in text or "[MASK]" in text:
        return
    tokens = BYTES.encode(text)
    assert tokens.ids == tuple(5 + byte for byte in text.encode())
    assert BYTES.decode(tokens.ids) == text
    assert tokens.n_unknown == tokens.n_replaced == tokens.n_dropped == tokens.n_cut == 0
    for token in tokens.tokens:
        assert 0 <= token.start <= token.end <= len(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\0\x7f",
        "  two  spaces ",
        "é",
        "e\u0301",
        "漢字",
        "😀👩‍👩‍👧",
        "\ufeff\u202e",
        "\U0010ffff",
        "a" * 9001,
    ],
)
def test_that_odd_texts_come_back(text: str) -> None:
    assert BYTES.encode_ids(text) == [5 + byte for byte in text.encode()]
    assert BYTES.decode(BYTES.encode_ids(text)) == text


def test_that_half_a_character_is_shown_and_not_lost() -> None:
    assert BYTES.encode("€").pieces == ("€⟨1/3⟩", "€⟨2/3⟩", "€⟨3/3⟩")
    assert BYTES.encode("a€", max_tokens=2).pieces == ("a", "⟨E2⟩")
    assert BYTES.encode("a b\n").pieces == ("a", "␣", "b", "↵")


def test_that_a_hidden_byte_leaves_the_spaces_around_it() -> None:
    ids = BYTES.encode_ids("a <mask> b")
    assert ids == [5 + 97, 5 + 32, BYTES.mask_id, 5 + 32, 5 + 98]


def test_that_words_begin_after_a_space() -> None:
    tokens = BYTES.encode("to be").tokens
    assert [token.joins_previous for token in tokens] == [False, True, False, True, True]


def test_that_what_was_read_and_how_many_are_asked_for_is_all_the_same(tmp_path: Path) -> None:
    other = train_tokenizer("bytes", ["漢字 and others"] * 3, vocab_size=900)
    assert other.vocab_size == 261
    assert other.encode_ids("Ünïcödé 😀") == BYTES.encode_ids("Ünïcödé 😀")
    other.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert (again.kind, again.vocab_size) == ("bytes", 261)
    with pytest.raises(RecipeError, match="bytes"):
        train_tokenizer("bytes", ["a"], vocab_size=260)


def test_that_a_recipe_trains_with_it(tmp_path: Path) -> None:
    run, text = tmp_path / "run", tmp_path / "text.txt"
    text.write_text("Où est la bibliothèque ? – Là-bas, près du café.\n" * 40, encoding="utf-8")
    recipe = tmp_path / "bytes.toml"
    recipe.write_text(
        "[model]\nd_model = 16\nn_layers = 1\nn_heads = 2\nd_ff = 16\nmax_tokens = 24\n"
        '[tokenizer]\nkind = "bytes"\nvocab_size = 261\n'
        f'[data]\nkind = "text"\npath = "{text.as_posix()}"\n[objective]\nkind = "causal"\n'
        "[training]\nn_steps = 3\nbatch_size = 4\nevaluate_every = 3\n",
        encoding="utf-8",
    )
    assert main(["--device", "cpu", "train", str(recipe), "--out", str(run)]) == 0
    model = at.load(str(run), device="cpu")
    assert model.own.config.vocab_size == 261
    keys, _ = model.trace("là").tokens(("decoder", 0))
    assert [token.piece for token in keys][-2:] == ["à⟨1/2⟩", "à⟨2/2⟩"]
