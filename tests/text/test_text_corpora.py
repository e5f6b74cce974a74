"""Reading files to train on."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from attnscope.analysis import read_corpus, read_gold_files
from attnscope.cli.main import build_parser, main
from attnscope.errors import LoadError, RecipeError
from attnscope.records import GoldFiles
from attnscope.text import carelessly, columns_of, read_lines, read_pairs, split, split_lines, split_pairs


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_that_both_line_ends_are_read(tmp_path: Path, end: bytes) -> None:
    path = written(tmp_path, end.join([b"one", b"", "été".encode(), b""]))
    assert read_lines(path) == ["one", "", "été"]


def test_that_the_texts_of_a_folder_are_read_one_after_another(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.TXT").write_bytes(b"three\r\n")  # as other systems write it
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\n\ntwo")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    assert read_lines(tmp_path) == ["one", "", "two", "", "three", ""]
    (tmp_path / "a.txt").write_bytes(b"caf\xe9")
    with pytest.raises(LoadError, match=r"Line 1 of .*a\.txt is not UTF-8"):
        read_lines(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(LoadError, match=r"empty has no \.txt file in it"):
        read_lines(empty)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("né".encode("utf-16"), "UTF-16"),
        (b"\x1f\x8b\x08\x08", "compressed"),
        (b"PK\x03\x04\x14\x00\xff", ".docx"),
        (b"%PDF-1.7 \xff", "PDF"),
    ],
)
def test_that_a_file_of_another_format_is_named_by_it(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(LoadError, match=told):
        read_lines(written(tmp_path, content))


def test_that_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path, b"\xef\xbb\xbfone\ntwo")) == ["one", "two"]


def test_that_other_separators_do_not_end_a_line(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path, "one\u2028two\x0cthree\n".encode())) == ["one\u2028two\x0cthree"]


def test_that_pairs_are_read_and_further_columns_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, b"I see.\tJe vois.\tCC-BY\n\nGo.\tVa !\n")
    assert read_pairs(path) == [("I see.", "Je vois."), ("Go.", "Va !")]


@pytest.mark.parametrize("line", ["no tab", "\tonly target", "only source\t ", "\t\t."])
def test_that_a_line_without_two_texts_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(LoadError, match=r"Line 3 .*not a pair") as caught:
        read_pairs(written(tmp_path, f"a\tb\n\n{line}\nc\td\n".encode()))
    assert caught.value.kind == "not-a-pair"


def test_that_validation_is_the_end_of_the_text() -> None:
    training, validation = split([str(n) for n in range(100)], 0.1)
    assert validation == [str(n) for n in range(90, 100)]
    assert len(training) == 90


def test_that_each_side_of_a_split_has_something() -> None:
    assert split(["a", "b"], 0.001) == (["a"], ["b"])
    assert split(["a", "b"], 0.999) == (["a"], ["b"])


def test_that_the_end_of_a_text_is_held_out_by_its_characters() -> None:
    lines = ["x" * (n * 7 % 61) for n in range(400)] + ["", "y" * 300, "z"]
    whole = sum(len(line) + 1 for line in lines)
    for share in (0.0005, 0.01, 0.1, 0.112, 0.5, 0.9):
        training, held_out = split_lines(lines, share)
        assert training + held_out == lines
        assert min(len(training), len(held_out)) >= 1
        sizes = [sum(len(line) + 1 for line in lines[-n:]) for n in range(1, len(lines))]
        nearest = min(abs(size - share * whole) for size in sizes)  # every split there is
        assert abs(sum(len(line) + 1 for line in held_out) - share * whole) == pytest.approx(nearest)
    for share in (0.001, 0.999):
        assert split_lines(["a", "b"], share) == (["a"], ["b"])
    with pytest.raises(LoadError, match="only one text"):
        split_lines(["a"], 0.5)


def test_that_no_source_is_on_both_sides_of_a_split() -> None:
    pairs = [(f"s{n % 40}", f"t{n}") for n in range(200)]
    training, validation = split_pairs(pairs, 0.1)
    assert not {source for source, _ in training} & {source for source, _ in validation}
    assert sorted(training + validation) == sorted(pairs)
    assert len({source for source, _ in validation}) == 4


def test_that_sources_are_held_out_by_their_checksum_whatever_else_is_in_the_file() -> None:
    pairs = [(f"source {n // 2}", f"target {n}") for n in range(400)]
    training, validation = split_pairs(pairs, 0.02, by_checksum=True)
    assert validation == [pair for pair in pairs if zlib.crc32(pair[0].encode()) % 50 == 0]
    assert sorted(training + validation) == sorted(pairs)
    assert split_pairs(pairs[100:], 0.02, by_checksum=True)[1] == [p for p in validation if p in pairs[100:]]


def test_that_checksums_which_hold_out_nothing_are_refused() -> None:
    with pytest.raises(LoadError, match="hold out 0 of them"):
        split_pairs([("a", "b"), ("c", "d")], 0.02, by_checksum=True)


@pytest.mark.parametrize("share", [0, 1, -0.1, True, "0.1", float("nan")])
def test_that_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(RecipeError, match=r"data\.validation_share"):
        split(["a", "b"], share)


def read_to_translate(path: Path) -> object:
    arguments = build_parser(("translate",)).parse_args(["translate", "no-model", "-f", str(path)])
    return arguments.run(arguments)


def test_that_three_bars_stand_between_the_texts_of_a_pair_where_no_tab_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("the cat ||| le chat\n\na ||| b\tc ||| d\none|||un\n")
    assert read_pairs(path) == [("the cat", "le chat"), ("a ||| b", "c ||| d"), ("one", "un")]
    assert columns_of("  a text ", 1, path) == ["  a text "]
    path.write_text("the cat |||\n")
    with pytest.raises(LoadError, match="not a pair"):
        read_pairs(path)
    path.write_text("the cat ||| le chat\n")
    assert read_corpus(path, takes_target=True) == [("the cat", "le chat")]
    assert read_corpus(path, takes_target=False) == ["the cat ||| le chat"]
    assert main(["translate", "grammar", "-f", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["texts"]) == 1
    assert told["bleu"]["n_right_words"] == 2  # of the reference


@pytest.mark.parametrize(
    "read",
    [
        read_pairs,
        lambda path: read_corpus(path, takes_target=True),
        read_to_translate,
        lambda path: read_gold_files(GoldFiles(pairs=str(path), links="none")),
    ],
)
def test_that_a_third_text_after_three_bars_is_refused_by_every_reader(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("the cat ||| le chat\n\none|||un ||| more\n")
    with pytest.raises(LoadError, match=r"Line 3 of .*pairs\.txt has 3 texts .*'one\|\|\|un") as told:
        read(path)
    assert (told.value.kind, told.value.expected) == ("not-a-pair", "two texts")


@pytest.mark.parametrize(
    ("source", "typed"),
    [
        ("My name is Leo.", "my name is Leo"),
        ("I hate maths!", "I hate maths"),
        ("NATO is here...", "NATO is here"),
        ("Where is John ?", "where is John"),
        ("Éric dort", "éric dort"),
        ("I don't know.", "I don't know"),
        ("Tom's dog isn't here.", "tom's dog isn't here"),
        ("He won't come.", "he wont come"),
        ("They've gone.", "theyve gone"),
        ("?!", "?!"),
        ("a", "a"),
    ],
)
def test_that_a_sentence_typed_in_haste_has_no_capital_first_no_mark_last_and_at_times_no_apostrophe(
    source: str, typed: str
) -> None:
    assert carelessly(source) == typed
