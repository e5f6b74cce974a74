"""How long the texts of a file are before there is a tokenizer, against the tokenizer that is then made."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attnscope.schemes.tokenizers import KINDS
from attnscope.text import train_tokenizer
from attnscope.training import (
    file_lengths,
    held_out_batches,
    longest_tokens,
    mean_tokens,
    parse_recipe,
    plan_recipe,
    prepare,
    tokens_a_step,
)

LINE = (
    "We met {} friends at the old station.\tNous avons rencontré {} amis à la vieille gare, où il pleuvait."
)


def _recipe(path: object, kind: str = "byte-bpe", vocab_size: int = 300, data: str = "pairs", more: str = ""):
    objective = {"pairs": "translation", "labelled": "classification", "tagged": "labels"}[data]
    return parse_recipe(
        "[model]\nd_model = 16\nn_heads = 2\nmax_tokens = 256\n"
        f'[data]\nkind = "{data}"\npath = "{path}"\n{more}'
        f'[tokenizer]\nkind = "{kind}"\nvocab_size = {vocab_size}\n[objective]\nkind = "{objective}"\n'
        "[training]\nn_steps = 1\nbatch_size = 4\n"
    )


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(LINE.format(n, n) + "\n" for n in range(4000)), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_that_it_is_near_what_the_tokenizer_makes_of_them(pairs: Path, kind: str) -> None:
    lines = pairs.read_text(encoding="utf-8").splitlines()[:200]
    targets = [line.split("\t")[1] for line in lines]
    tokenizer = train_tokenizer(kind, [LINE.replace("{}", "12"), *targets], vocab_size=300)
    made = sum(len(ids) for ids in tokenizer.encode_lines(targets)) / len(targets) + 1
    found = file_lengths(_recipe(pairs, kind))
    assert found is not None
    least, most = (0.9, 1.1) if kind in ("words", "characters", "bytes") else (0.5, 4.0)
    assert least * made <= found.mean() <= most * made  # pieces learned of one sentence are unusually long


def test_that_a_plan_counts_them_and_sorted_batches_have_less_padding(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{'a ' * (1 + n % 40)}\tb\n" for n in range(800)), encoding="utf-8")
    plain = mean_tokens(_recipe(path, "words"))
    alike = mean_tokens(_recipe(path, "words", more="similar_lengths = true\n"))
    assert 30 < plain < 38
    assert alike == pytest.approx(21.5, abs=1.5)  # 1 to 40 words and an end
    assert longest_tokens(_recipe(path, "words")) == 256


def test_that_no_line_is_longer_than_what_the_model_reads(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{'a ' * 5000}\tb\n" * 20, encoding="utf-8")
    assert mean_tokens(_recipe(path, "words")) == 256.0


def test_that_a_file_that_tells_nothing_is_planned_with_the_longest(tmp_path: Path) -> None:
    empty, odd, one = tmp_path / "empty.tsv", tmp_path / "odd.tsv", tmp_path / "one.tsv"
    empty.write_bytes(b"")
    odd.write_bytes(b"\xff\xfe\n" * 9 + b"\t\n|||\n")
    one.write_bytes(b"a\tb")  # no end of a line: it may be a part of one
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (empty, one, fifo, tmp_path, tmp_path / "missing"):
        assert mean_tokens(_recipe(path)) == 256.0
    assert 1.0 <= mean_tokens(_recipe(odd)) <= 256.0


def test_that_both_texts_of_a_pair_count_as_long_as_each_is(tmp_path: Path) -> None:
    path, labelled = tmp_path / "pairs.tsv", tmp_path / "labelled.tsv"
    path.write_text("a b c d e f g\ta b\n" * 50, encoding="utf-8")
    plan = plan_recipe(_recipe(path, "words"), torch.device("cpu"))
    assert plan.tokens_a_step == 4 * (8 + 3)
    assert any(
        note.startswith("For memory every text is counted with max_tokens, 256") for note in plan.notes
    )
    labelled.write_text("good\ta b c d e f g\ta b\n" * 50, encoding="utf-8")
    pair = _recipe(labelled, "words", data="labelled")
    pair = replace(pair, model=replace(pair.model, reads_pair=True))
    assert tokens_a_step(pair) == 4 * (8 + 3)


def test_that_labelled_texts_are_counted_too(tmp_path: Path) -> None:
    path = tmp_path / "labelled.tsv"
    path.write_text("good\ta b c d e\n" * 50, encoding="utf-8")
    assert mean_tokens(_recipe(path, "words", data="labelled")) == 6.0


@pytest.mark.parametrize("kind", ["trees", "columns", "slashes"])
def test_that_words_with_labels_are_counted_by_the_sentence(kind: str, tmp_path: Path) -> None:
    cells = ["_"] * 8
    sentence = {
        "trees": "# text = a b c\n" + "".join("\t".join([str(i), "word", *cells]) + "\n" for i in range(6)),
        "columns": "word\tNOUN\n" * 6,
        "slashes": "word/NOUN " * 6,
    }[kind] + "\n"
    path = tmp_path / "tagged.txt"
    path.write_text(sentence * 20_000, encoding="utf-8")
    assert mean_tokens(_recipe(path, "words", data="tagged")) == 7.0


@pytest.mark.parametrize("n_texts", [30, 300, 9000])
@pytest.mark.parametrize("kind", ["tagged", "pairs", "text"])
def test_that_a_plan_counts_the_batches_that_a_small_file_holds_out(
    kind: str, n_texts: int, tmp_path: Path
) -> None:
    lines = {
        "tagged": "the\tDET\ncat{}\tNOUN\nsat\tVERB\n\n",
        "pairs": "the cat {} sat\tle chat {}\n",
        "text": "the cat {} sat on the mat of its own\n",
    }
    path = tmp_path / "data.txt"
    path.write_text("".join(lines[kind].replace("{}", str(n)) for n in range(n_texts)), encoding="utf-8")
    objective = {"pairs": "translation", "text": "causal", "tagged": "labels"}[kind]
    pooling = 'pooling = "none"\n' if kind == "tagged" else ""
    recipe = parse_recipe(
        f"[model]\nd_model = 16\nn_heads = 2\nmax_tokens = 32\n{pooling}"
        f'[data]\nkind = "{kind}"\npath = "{path}"\n[tokenizer]\nkind = "characters"\n'
        f'[objective]\nkind = "{objective}"\n[training]\nn_steps = 1\nbatch_size = 8\n'
        "evaluation_batches = 50\n"
    )
    held_out = prepare(recipe).batches.evaluation()
    n_rows = sum(len(batch.ids) for batch in held_out)
    assert held_out_batches(recipe) == pytest.approx(n_rows / 8, rel=0.25, abs=0.1)
    assert (n_rows == 400) == (n_texts == 9000)
