"""What commands say beside their results: texts that were cut, stacks left out, devices, further columns."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from tiny_models import tiny_model as make_tiny

from attnscope.cli import main as cli
from attnscope.cli.inputs import tell_cut
from attnscope.models import Model, load
from attnscope.records import Token, Tokens

LONG = "the cat sat " * 20


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    code = cli.main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.slow
def test_that_every_command_says_that_a_text_was_cut(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    text = ("--text", LONG)
    out = ("-o", str(tmp_path / "out.safetensors"))
    picture = ("-o", str(tmp_path / "out.svg"), "--caption")
    commands = (("trace", *text, *out), ("figure", *text, *picture), ("measure", *text), ("generate", *text))
    for name, *rest in commands:
        code, _, err = run(capsys, name, tiny_model, *rest)
        assert code == 0
        told = [line for line in err.splitlines() if "only the first 24 of 61 tokens were read" in line]
        assert len(told) == 1, (name, err)
        assert "--past-trained" not in told[0]  # this model cannot
    assert "only the first 24 of 61 tokens were read" in (tmp_path / "out.svg").read_text(encoding="utf-8")


def test_that_reading_on_is_offered_where_it_is_possible(capsys: pytest.CaptureFixture[str]) -> None:
    read = Tokens(text="the cat", tokens=(Token(id=5, piece="the"),), n_dropped=2_000)
    tell_cut(read, can_read_on=True)
    said = "attnscope: only the first 1 of 2,001 tokens were read; --past-trained reads on.\n"
    assert capsys.readouterr().err == said


def test_that_every_command_says_which_words_are_unknown(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    text = ("--text", "the zebra sat")
    out = ("-o", str(tmp_path / "out.safetensors"))
    picture = ("-o", str(tmp_path / "out.svg"))
    for name, *rest in (("trace", *text, *out), ("figure", *text, *picture), ("measure", *text)):
        code, _, err = run(capsys, name, tiny_model, *rest)
        assert code == 0
        assert "attnscope: 1 token is unknown: zebra." in err.splitlines(), (name, err)
    many = tuple(Token(id=0, piece="<unk>", own=str(i)) for i in range(7))
    told = Tokens(text="0 1 2 3 4 5 6", tokens=many, n_unknown=7).unknown_words
    assert told == "7 tokens are unknown: 0, 1, 2, 3, 4, …"
    tell_cut(Tokens(text="a", tokens=()), Tokens(text="0", tokens=many[:1], n_unknown=1))
    assert capsys.readouterr().err == "attnscope: in the second text 1 token is unknown: 0.\n"


@pytest.mark.slow
def test_that_commands_say_which_checkpoint_they_use_when_the_newest_is_damaged(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    for step in (1, 2):
        shutil.copytree(tiny_model, tmp_path / "run" / "checkpoints" / str(step))
    (tmp_path / "run" / "recipe.toml").write_text("", encoding="utf-8")
    (tmp_path / "run" / "checkpoints" / "2" / "model.safetensors").write_bytes(b"")
    text, out = ("--text", "the cat"), ("-o", str(tmp_path / "out.figure.json"))
    for name, *rest in (
        ("measure", *text),
        ("figure", *text, *out),
        ("attribute", *text),
        ("generate", *text),
    ):
        code, _, err = run(capsys, name, str(tmp_path / "run"), *rest)
        assert code == 0
        told = [
            line for line in err.splitlines() if line.startswith("attnscope: The newest checkpoint cannot")
        ]
        assert len(told) == 1, (name, err)
        assert told[0].endswith("; this is step 1.")
    code, _, err = run(capsys, "measure", tiny_model, *text)
    assert (code, "checkpoint" in err) == (0, False)
    assert "; this is step 1." in repr(load(str(tmp_path / "run")))


def test_that_a_cut_text_is_quoted_as_far_as_it_was_read() -> None:
    tokens = (Token(id=5, piece="the", start=0, end=3), Token(id=3, piece="</s>", is_special=True))
    assert Tokens(text="the cat", tokens=tokens, n_dropped=1).read_text == "the"
    assert Tokens(text="the cat", tokens=tokens).read_text == "the cat"
    assert Tokens(text="the cat", tokens=tokens).cut_words == ""


@pytest.mark.parametrize("command", ["info", "measure"])
def test_that_a_device_before_the_command_counts(
    capsys: pytest.CaptureFixture[str], tiny_model: str, command: str
) -> None:
    text = () if command == "info" else ("--text", "the cat")
    code, _, err = run(capsys, "--device", "nosuch", command, tiny_model, *text)
    assert code == 2
    assert "nosuch" in err
    assert run(capsys, "--device", "nosuch", command, tiny_model, *text, "--device", "cpu")[0] == 0


def test_that_a_grid_names_its_stack_and_the_others(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    path = tmp_path / "grid.svg"
    code, out, _ = run(capsys, "figure", tiny_model, "--text", "the cat", "-o", str(path))
    assert code == 0
    assert "heads of the encoder stack, --stack decoder or cross draws the others" in out
    assert ">encoder<" in path.read_text(encoding="utf-8")


def test_that_further_columns_of_pairs_are_told(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    corpus = tmp_path / "pairs.tsv"
    corpus.write_text("the cat\tle chat\tCC-BY\n", encoding="utf-8")
    code, _, err = run(capsys, "measure", tiny_model, "--corpus", str(corpus))
    assert code == 0
    assert "3 columns; the first two" in err


def test_that_more_tokens_than_the_model_was_made_for_are_noted(
    capsys: pytest.CaptureFixture[str], tiny_model: str
) -> None:
    assert "5,000 tokens are more than the 24" in run(capsys, "info", tiny_model, "--tokens", "5000")[1]
    assert "more than the" not in run(capsys, "info", tiny_model, "--tokens", "12")[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"form": "encoder", "reads": "picture"}, "a picture, named by its path\n"),
        ({"reads": "recording"}, "a recording, named by its path, and a second text"),
    ],
)
def test_that_info_says_what_a_model_reads(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tiny_model: str,
    changes: dict[str, str],
    said: str,
) -> None:
    known = dataclasses.replace(load(tiny_model, device="cpu").info, **changes)
    monkeypatch.setattr(Model, "info", property(lambda model: known))
    assert re.search(rf"^reads +{said}", run(capsys, "info", tiny_model)[1], re.MULTILINE)


@pytest.mark.parametrize(
    ("heads", "said", "not_said"),
    [("", "No head is named", "stack"), ("L0H1", "for instance 'cross L0H1'", "--stack")],
)
def test_that_prune_suggests_only_what_it_has(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path, heads: str, said: str, not_said: str
) -> None:
    code, _, err = run(capsys, "prune", tiny_model, "--heads", heads, "-o", str(tmp_path / "x"))
    assert code == 2
    assert said in err
    assert not_said not in err


@pytest.mark.slow
def test_that_writing_nothing_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = make_tiny("encoder-decoder")
    module = model.own.module
    with torch.no_grad():  # every hidden stream is ones, and only the end token likes ones
        module.decoder_norm.weight.zero_()
        module.decoder_norm.bias.fill_(1.0)
        module.tokens.weight[model.own.vocabulary.end_id] = 10.0
    model.save(tmp_path / "silent")
    code, out, err = run(capsys, "generate", str(tmp_path / "silent"), "--text", "the cat", "--json")
    assert code == 0
    assert [token["piece"] for token in json.loads(out)["tokens"]] == ["</s>"]
    assert "nothing was generated; tiny ended the text at once" in err
    assert (
        "nothing was generated"
        not in run(capsys, "generate", "stories", "--text", "the king", "--max-tokens", "5")[2]
    )


def test_that_info_leaves_out_what_the_model_never_looks_at(capsys: pytest.CaptureFixture[str]) -> None:
    code, told, _ = run(capsys, "info", "stories")
    words = told.split()
    assert code == 0
    assert "rope_base" in words
    assert not {"dilation", "n_buckets", "temperature", "prefix_tokens"} & set(words)
