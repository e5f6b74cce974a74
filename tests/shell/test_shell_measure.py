"""The command `measure` over files: texts, corpora, trees, links."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tiny_models import tiny_model

from attnscope import measure_texts
from attnscope.analysis import repeated_rows
from attnscope.cli.main import main
from attnscope.models import load
from attnscope.records import SPECIAL_TOKENS

TEXTS = "the cat sat on the mat\na dog saw the bird\nthe cat saw the cat\n"
TREES = "\n".join(
    f"1\tthe\t_\t_\t_\t_\t2\tdet\t_\t_\n2\t{word}\t_\t_\t_\t_\t3\tnsubj\t_\t_\n3\tsat\t_\t_\t_\t_\t0\troot\t_\t_\n"
    for word in ("cat", "dog", "mat") * 8
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for form in ("encoder", "encoder-decoder"):
        tiny_model(form).save(tmp_path / form)
    (tmp_path / "texts.txt").write_text(TEXTS, encoding="utf-8")
    (tmp_path / "trees.conllu").write_text(TREES, encoding="utf-8")
    (tmp_path / "pairs.txt").write_text("the cat sat\tle chat est\n", encoding="utf-8")
    (tmp_path / "links.txt").write_text("0-0 1-1 2p2\n", encoding="utf-8")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    files = [str(folder / a) if (folder / a).exists() else a for a in arguments]
    code = main(["measure", *files])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_that_a_corpus_becomes_a_sorted_table_with_progress(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnscope.cli.terminal.PATIENCE_S", -1.0)
    out = folder / "table.csv"
    (folder / "many.txt").write_text(TEXTS * 3, encoding="utf-8")
    code, said, progress = run(
        capsys, folder, "encoder", "--corpus", "many.txt", "--sort", "first", "--csv", str(out)
    )
    assert code == 0
    assert "9 texts" in said
    assert "special tokens kept" in said
    assert "means over texts, 95 % t intervals over texts (none below 5)" in said
    assert "8 of 9 texts" in progress or "9 of 9 texts" in progress
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    firsts = [float(row["first"]) for row in rows]
    assert len(rows) == 8
    assert firsts == sorted(firsts, reverse=True)
    assert float(rows[0]["first_low"]) <= firsts[0] <= float(rows[0]["first_high"])


@pytest.mark.slow
def test_that_trees_tell_the_relations_of_heads(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, said, _ = run(
        capsys, folder, "encoder", "--conllu", "trees.conllu", "--json", "--special", "dropped"
    )
    found = json.loads(said)
    assert code == 0
    assert found["specials"] == "dropped"
    names = {(r["relation"], r["direction"]) for r in found["syntax"]["relations"]}
    assert ("det", "to head") in names
    assert len(found["heads"]) == 8
    code, said, _ = run(capsys, folder, "encoder", "--conllu", "trees.conllu")
    assert "nsubj to dependent" in said


@pytest.mark.slow
def test_that_links_tell_the_error_rate_of_heads(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    arguments = ("encoder-decoder", "--corpus", "pairs.txt", "--links", "links.txt", "--stack", "cross")
    code, said, _ = run(capsys, folder, *arguments)
    assert code == 0
    assert "L1 mean" in said
    assert "encoder L0H0" not in said
    code, said, _ = run(capsys, folder, *arguments, "--json")
    assert len(json.loads(said)["alignment"]["heads"]) == 10


def test_that_sources_alone_measure_the_encoder_and_say_so(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    asked = ("encoder-decoder", "--corpus", "texts.txt")
    code, said, told = run(capsys, folder, *asked)
    assert (code, "L0H0" in said) == (0, True)
    assert "only the encoder is measured" in told
    code, said, told = run(capsys, folder, *asked, "--stack", "cross")
    assert (code, said) == (2, "")
    assert "no second text after a tab" in told


def test_that_one_text_may_come_from_a_file_and_be_sorted(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, said, _ = run(
        capsys, folder, "encoder", "-f", "texts.txt", "--sort", "distance", "--ascending", "--json"
    )
    assert code == 0
    distances = [head["distance"] for head in json.loads(said)["heads"]]
    assert distances == sorted(distances)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--text", "a", "--corpus", "texts.txt"), "more than one thing"),
        (("--corpus", "texts.txt", "--sort", "size"), "no column 'size'"),
        (("--corpus", "texts.txt", "--stack", "cross"), "no stack 'cross'"),
        (
            ("--corpus", "texts.txt", "--max-texts", "0"),
            "argument --max-texts: '0' is not a whole number from 1",
        ),
        (("--corpus", "nothing.txt"), "cannot be read"),
        (("--corpus", "texts.txt", "--repeated", "3"), "more than one thing"),
        (
            ("--repeated", str(10**9)),
            "argument --repeated: '1000000000' is not a whole number from 1 to 100,000",
        ),
        ((), "no text to look at"),
    ],
)
def test_that_what_cannot_be_measured_is_told(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, _, said = run(capsys, folder, "encoder", *arguments)
    assert code == 2
    assert message in said


def test_that_the_command_knows_every_way_of_special_tokens(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, _, said = run(capsys, folder, "encoder", "--special", "lost")
    assert code == 2
    assert f"(choose from {', '.join(SPECIAL_TOKENS)})" in said.replace("'", "")


def test_that_random_tokens_written_twice_are_measured_as_their_text_would_be(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    out = folder / "table.csv"
    code, said, _ = run(capsys, folder, "encoder", "--repeated", "6", "--csv", str(out))
    assert (code, "over random tokens written twice" in said) == (0, True)
    model = load(folder / "encoder", device="cpu")
    rows = repeated_rows(model, n_rows=6)
    texts = [model.network.vocabulary.decode(row.source.ids) for row in rows]
    for text, row in zip(texts, rows, strict=True):
        words = text.split()
        assert words[: len(words) // 2] == words[len(words) // 2 :]
        assert model.encode(text).source.ids == row.source.ids
    wanted = measure_texts(model, texts).table.column("previous")
    rows_said = csv.DictReader(out.read_text(encoding="utf-8").splitlines())
    np.testing.assert_allclose([float(row["previous"]) for row in rows_said], wanted, rtol=1e-4)


def test_that_random_tokens_measure_the_encoder_of_a_translator(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert "only the encoder" in run(capsys, folder, "encoder-decoder", "--repeated", "2")[2]
    code, _, said = run(capsys, folder, "encoder-decoder", "--repeated", "2", "--stack", "cross")
    assert (code, "Random tokens have no second texts" in said) == (2, True)
