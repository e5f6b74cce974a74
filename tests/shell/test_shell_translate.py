"""`attnscope translate`: a file of lines, many at a time, and its BLEU."""

import json
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import sacrebleu

from attnscope.analysis import metrics
from attnscope.cli.main import main
from attnscope.errors import UserError
from attnscope.models.writing import translating
from attnscope.text.tasks import make_task


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    examples = make_task("english-french").examples(12, seed=3, held_out=True)
    path = tmp_path_factory.mktemp("texts") / "pairs.tsv"
    path.write_text("".join(f"{one.source}\t{one.target}\n" for one in examples), encoding="utf-8")
    return path


@pytest.mark.slow
def test_that_lines_are_translated_in_order_and_scored(pairs: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "french.txt"
    code = main(["translate", "grammar", "-f", str(pairs), "--beams", "2", "-o", str(out), "--batch", "5"])
    assert code == 0
    assert capsys.readouterr().out.startswith("BLEU ")
    written = out.read_text(encoding="utf-8").splitlines()
    right = [line.split("\t")[1] for line in pairs.read_text(encoding="utf-8").splitlines()]
    squeezed = [line.replace(" ", "") for line in written]
    assert sum(one == line.replace(" ", "") for one, line in zip(squeezed, right, strict=True)) >= 11


@pytest.mark.slow
def test_that_gates_change_the_score(pairs: Path, capsys) -> None:
    scores = []
    off = [f"--gate=cross:L{layer}H{head}=0" for layer in range(2) for head in range(8)]
    for gates in ([], off):
        assert main(["translate", "grammar", "-f", str(pairs), "--json", *gates]) == 0
        scores.append(json.loads(capsys.readouterr().out)["bleu"]["value"])
    assert scores[1] < scores[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("stories",), "does not translate"),
        (("grammar", "--beams", "0"), "beams"),
        (("grammar", "--batch", "0"), "--batch"),
        (("grammar", "--by-length", "0"), "--by-length"),
        (("grammar", "--reference", "one.txt"), "12 lines"),
    ],
)
def test_that_what_cannot_be_is_said(
    options: tuple[str, ...], said: str, pairs: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.txt").write_text("un\n", encoding="utf-8")
    assert main(["translate", *options, "-f", str(pairs)]) == 2
    assert said in capsys.readouterr().err


def test_that_a_third_text_is_refused_after_bars_and_told_after_a_tab(tmp_path: Path, capsys) -> None:
    assert main(["translate", "grammar", "--text", "the cat\nthe ||| le ||| la"]) == 2
    assert "Line 2 of --text has 3 texts with three bars between" in capsys.readouterr().err
    lines = ["--text", "the cat\vsleeps .\r\nthe\x85dog\n", "--json"]  # as in a file, these end no line
    assert main(["translate", "grammar", *lines]) == 0
    assert len(json.loads(capsys.readouterr().out)["texts"]) == 2
    path = tmp_path / "pairs.tsv"
    path.write_text("the cat sleeps .\tle chat dort .\tCC-BY\n", encoding="utf-8")
    assert main(["translate", "grammar", "-f", str(path)]) == 0
    assert f"{path} has 3 columns; the first two are read as pairs" in capsys.readouterr().err


def test_that_an_empty_line_stays_one_and_unknown_words_are_told(tmp_path: Path, capsys) -> None:
    path, out = tmp_path / "lines.txt", tmp_path / "out.txt"
    path.write_text("the cat sleeps .\n\nblorb zag\n", encoding="utf-8")
    assert main(["translate", "grammar", "-f", str(path), "-o", str(out)]) == 0
    lines = out.read_text(encoding="utf-8").split("\n")
    assert (len(lines), lines[1]) == (4, "")
    assert "chat" in lines[0]
    assert "no token for 2 words, in 1 of 2 texts" in capsys.readouterr().err


@pytest.mark.slow
def test_that_a_score_by_length_is_sacrebleus_over_each_part(pairs: Path, capsys) -> None:
    off = [f"--gate=cross:L{layer}H{head}=0" for layer in range(2) for head in range(8)]
    shell = ["translate", "grammar", "-f", str(pairs), *off, "--by-length", "4", "--json"]
    assert main(shell) == 0
    printed = json.loads(capsys.readouterr().out)
    rows = [line.split("\t") for line in pairs.read_text(encoding="utf-8").splitlines()]
    wanted: dict[tuple[int, int], tuple[list[str], list[str]]] = {}
    for (source, right), written in zip(rows, printed["texts"], strict=True):
        least = next(n for n in range(1, 100, 4) if n <= len(source.split()) < n + 4)
        texts, references = wanted.setdefault((least, least + 3), ([], []))
        texts.append(written)
        references.append(right)
    assert len(wanted) > 1
    assert [(part["from"], part["to"]) for part in printed["by_length"]] == sorted(wanted)
    for part in printed["by_length"]:
        texts, references = wanted[part["from"], part["to"]]
        assert part["value"] == pytest.approx(sacrebleu.corpus_bleu(texts, [references]).score)
        assert part["n_texts"] == len(texts)
        assert (part["low"] is None) == (part["high"] is None) == (len(texts) < 5)
        assert part["low"] is None or part["low"] <= part["value"] <= part["high"]
    assert 0 < printed["bleu"]["value"] < 100


@pytest.mark.slow
def test_that_parts_are_told_below_the_whole_score(pairs: Path, tmp_path: Path, capsys) -> None:
    shell = ["translate", "grammar", "-f", str(pairs), "-o", str(tmp_path / "out.txt"), "--by-length"]
    assert main(shell) == 0
    whole, *parts = capsys.readouterr().out.splitlines()
    assert whole.startswith("BLEU ")
    assert parts[0].strip().startswith("1–5 words: BLEU ") or parts[0].strip().startswith("6–10 words: BLEU ")
    assert all("no interval: " in part or "% t interval over " in part for part in parts)
    plain = tmp_path / "plain.txt"
    plain.write_text("the cat sleeps .\n", encoding="utf-8")
    assert main(["translate", "grammar", "-f", str(plain), "--by-length"]) == 2
    assert "--reference FILE" in capsys.readouterr().err


def test_that_one_text_is_translated_from_the_command_line(capsys) -> None:
    assert main(["translate", "grammar", "--text", "the white cat sleeps"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("le chat blanc dort\n", "")
    assert main(["translate", "grammar", "--text", "the white cat sleeps\tle chat blanc dort"]) == 0
    assert "BLEU 100" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--text", " "), "no text"),
        (("--text", "a", "-f", "x"), "not allowed with"),
        (("--text", "a", "--reference", "x"), "--reference belongs to a file"),
        ((), "--text"),
    ],
)
def test_that_a_text_and_a_file_are_one_or_the_other(options: tuple[str, ...], said: str, capsys) -> None:
    assert main(["translate", "grammar", *options]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def no_counter(monkeypatch) -> Iterator[None]:
    metrics._counter.cache_clear()
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    yield
    metrics._counter.cache_clear()


@pytest.mark.usefixtures("no_counter")
def test_that_what_counts_bleu_is_missed_before_anything_is_translated(
    pairs: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr("attnscope.cli.translate.open_model", lambda _: pytest.fail("opened"))
    assert main(["translate", "grammar", "-f", str(pairs)]) == 2
    assert "sacrebleu" in capsys.readouterr().err


@pytest.mark.usefixtures("no_counter")
def test_that_texts_without_references_need_nothing_to_count_with(capsys) -> None:
    assert main(["translate", "grammar", "--text", "the white cat sleeps"]) == 0
    assert capsys.readouterr().out == "le chat blanc dort\n"


@pytest.mark.slow
def test_that_translations_are_handed_over_where_the_score_fails(
    pairs: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    def fail(*_args: object) -> None:
        raise UserError("No score today.")

    monkeypatch.setattr(metrics, "bleu", fail)
    assert main(["translate", "grammar", "-f", str(pairs)]) == 2
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 12
    assert printed.err.splitlines()[-1] == "attnscope: No score today."
    out = tmp_path / "french.txt"
    assert main(["translate", "grammar", "-f", str(pairs), "-o", str(out)]) == 2
    assert out.read_text(encoding="utf-8") == printed.out
    capsys.readouterr()
    assert main(["translate", "grammar", "-f", str(pairs), "--json"]) == 2
    table = json.loads(capsys.readouterr().out)
    assert (table["texts"], table["bleu"]) == (printed.out.splitlines(), None)


@pytest.mark.slow
def test_that_lines_are_printed_as_they_are_made(pairs: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    whole = translating.translate_texts
    calls = []

    def stop(*args: object, **options: object) -> Iterator[translating.Translation]:
        calls.append(args)
        if len(calls) % 3 == 0:
            raise KeyboardInterrupt
        return whole(*args, **options)

    monkeypatch.setattr(translating, "translate_texts", stop)
    monkeypatch.setattr("attnscope.cli.translate._BATCHES_AT_ONCE", 1)
    shell = ["translate", "grammar", "-f", str(pairs), "--batch", "4"]
    assert main(shell) == 130
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 8
    assert "the first 8 of 12 lines were translated" in printed.err
    out = tmp_path / "french.txt"
    assert main([*shell, "-o", str(out)]) == 130
    assert out.read_text(encoding="utf-8") == printed.out


def test_that_short_texts_are_told_to_have_no_bleu(tmp_path: Path, monkeypatch, capsys) -> None:
    pairs = tmp_path / "short.tsv"
    pairs.write_text("the cat\tle chat\n", encoding="utf-8")
    monkeypatch.setattr("attnscope.cli.translate._translate", lambda *_: iter(["le chat"]))
    assert main(["translate", "grammar", "-f", str(pairs)]) == 0
    said = capsys.readouterr()
    assert "BLEU – (it matches up to 4 words in a row, and no text has 4)" in said.out + said.err
    assert "precisions 100.0/100.0/–/–" in said.out + said.err


@pytest.mark.slow
def test_that_lines_with_one_source_are_one_text_with_several_references(
    pairs: Path, tmp_path: Path, capsys
) -> None:
    columns = [line.split("\t") for line in pairs.read_text(encoding="utf-8").splitlines()]
    several = tmp_path / "several.tsv"
    others = ["elle dort .", "le chat", "la maison voit un petit chien noir ."]
    lines = [f"{source}\t{right}" for source, right in columns]
    lines[1:1] = [f"{columns[i][0]}\t{other}" for i, other in zip((5, 0, 5), others, strict=True)]
    several.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["translate", "grammar", "-f", str(several), "--all-references", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["texts"]) == told["bleu"]["n_texts"] == 12
    rights: dict[str, list[str]] = {}
    for line in lines:
        rights.setdefault(line.split("\t")[0], []).append(line.split("\t")[1])
    streams = [[(*r, None, None)[n] for r in rights.values()] for n in range(3)]
    expected = sacrebleu.metrics.bleu.BLEU().corpus_score(told["texts"], streams)
    assert told["bleu"]["value"] == pytest.approx(expected.score, abs=1e-9)
    assert "nrefs:var" in told["bleu"]["signature"]


def test_that_a_text_too_long_for_the_model_is_told(capsys) -> None:
    assert main(["translate", "grammar", "--text", "the white cat sleeps"]) == 0
    assert "cut to" not in capsys.readouterr().err
    assert main(["translate", "grammar", "--text", "the white cat sleeps " * 40, "--max-tokens", "4"]) == 0
    assert "1 of 1 text cut to the 48 tokens that grammar reads." in capsys.readouterr().err


def test_that_only_texts_are_translated_that_training_kept_out(tmp_path: Path, capsys) -> None:
    sources = [f"the {colour} {animal} sleeps" for colour in ("white", "black") for animal in ("cat", "dog")]
    kept = [source for source in sources * 2 if zlib.crc32(source.encode()) % 2 == 0]
    assert 0 < len(kept) < 2 * len(sources)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{source}\tle chat\n" for source in sources * 2) + "\n", encoding="utf-8")
    assert main(["translate", "grammar", "-f", str(pairs), "--held-out", "0.5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["texts"]) == told["bleu"]["n_texts"] == len(kept)
    pairs.write_text("".join(f"{source}\tle chat\n" for source in {*sources} - {*kept}), encoding="utf-8")
    assert main(["translate", "grammar", "-f", str(pairs), "--held-out", "0.5"]) == 2
    assert "held out of training" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("n_texts", "said"),
    [
        (3, r"BLEU [\d.]+, no interval: 3 texts, and 5 are needed; "),
        (29, r"BLEU [\d.]+ \([\d.]+–[\d.]+\), 95 % t interval over 29 texts; "),
        (30, r"BLEU [\d.]+ \([\d.]+–[\d.]+\), 95 % bootstrap interval over 30 texts; "),
    ],
)
def test_that_a_score_says_which_interval_it_has_and_over_how_many_texts(
    n_texts: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = make_task("english-french").examples(n_texts, seed=4, held_out=True)
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{one.source}\t{one.target} x\n" for one in examples), encoding="utf-8")
    assert main(["translate", "grammar", "-f", str(path), "-o", str(tmp_path / "out.txt")]) == 0
    assert re.match(said, capsys.readouterr().out)
