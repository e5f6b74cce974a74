"""`attnscope predict`: what a model says, before and after, for every kind of output."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_models import tiny_model

from attnscope.analysis import tell_text
from attnscope.cli.main import main
from attnscope.models import Model, load
from attnscope.records import Candidate, Comparison, Output, Prediction, Token


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["predict", *arguments, "--device", "cpu"])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("masked") / "tiny"
    tiny_model("encoder").save(folder)
    return str(folder)


def test_that_each_mask_gets_its_guesses(capsys: pytest.CaptureFixture[str], masked: str) -> None:
    code, out, err = run(capsys, masked, "--text", "the <mask> sat on <mask>", "--top", "3")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["<mask> 1", "<mask> 2"]
    said = load(masked, device="cpu").predict("the <mask> sat on <mask>", top=3)
    best = said.predictions[1].candidates[0]
    assert lines[5].split() == [best.token.piece, f"{best.probability:.3f}"]
    assert len(lines) == 8


def test_that_changed_heads_are_told_before_and_after_with_their_divergence(
    capsys: pytest.CaptureFixture[str], masked: str
) -> None:
    wish = (masked, "--text", "the <mask> sat", "--gate", "L0H1=0", "--top", "100")
    code, out, _ = run(capsys, *wish, "--json")
    assert code == 0
    told = json.loads(out)
    (one,) = told["predictions"]
    before, after = ({c["id"]: c["probability"] for c in one[side]} for side in ("before", "after"))
    assert sum(before.values()) == pytest.approx(1.0)
    by_hand = sum(p * math.log(p / after[id]) for id, p in before.items())
    assert one["kl_nats"] == pytest.approx(by_hand, rel=1e-4)
    assert told["is_changed"]
    heading = run(capsys, *wish)[1].splitlines()[0]
    assert heading.startswith("<mask> 1  KL ")
    assert heading.endswith("before → after")


def test_that_a_token_that_is_no_longer_among_the_best_is_told_as_below_them(
    capsys: pytest.CaptureFixture[str], masked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = {name: Token(id=k, piece=name, start=0, end=1) for k, name in enumerate(("a", "b"))}

    def output(piece: str, share: float, written: str) -> Output:
        best = (Candidate(token=token[piece], probability=share),)
        place = Prediction(position=0, context="after “x”", candidates=best)
        return Output(kind="next-token", predictions=(place,), generated=written)

    comparison = Comparison(before=output("a", 0.4, "a b"), after=output("b", 0.25, ""), kl_nats=(0.5,))
    look = Model.look
    monkeypatch.setattr(
        Model, "look", lambda *given, **more: replace(look(*given, **more), comparison=comparison)
    )
    code, out, _ = run(capsys, masked, "--text", "the <mask> sat", "--gate", "L0H1=0")
    assert code == 0
    lines = out.splitlines()
    assert lines[1].split() == ["a", "0.400", "<0.250"]
    assert lines[2].split() == ["b", "<0.400", "0.250"]
    assert lines[-1].split() == ["now:", "(nothing)"]


def test_that_translations_and_texts_that_go_on_say_what_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for form in ("encoder-decoder", "decoder"):
        tiny_model(form).save(tmp_path / form)
        code, out, _ = run(capsys, str(tmp_path / form), "--text", "the cat", "--top", "1")
        assert code == 0
        assert out.splitlines()[-1].startswith("writes: ")
        assert ("at the start" in out) == (form == "encoder-decoder")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--text", " "), "no text"),
        (("--text", "the cat", "--top", "0"), "1 to 1,000"),
        (("--text", "the cat", "--target", "le chat"), "one text only"),
        (("--text", "the cat", "--gate", "L9H0=0"), "L9H0"),
    ],
)
def test_that_what_cannot_be_asked_is_one_sentence(
    capsys: pytest.CaptureFixture[str], masked: str, options: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, masked, *options)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_that_a_whole_file_is_told_in_nats_a_character(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tiny_model("decoder").save(tmp_path / "m")
    text = "the cat sat on the mat\na dog saw the bird\n" * 12
    (tmp_path / "t.txt").write_text(text, encoding="utf-8")
    code, out, err = run(capsys, str(tmp_path / "m"), "-f", str(tmp_path / "t.txt"))
    assert (code, err) == (0, "")
    told = tell_text(load(tmp_path / "m", device="cpu"), text)
    assert told.per_character is not None
    lines = out.splitlines()
    assert lines[0].startswith(f"{told.per_character[0]:.4f} (")
    assert lines[0].endswith(") nats a character")
    assert f"{told.n_characters:,} characters; 95 % t interval over {told.n_windows} parts of" in lines[3]
    pruned = run(capsys, str(tmp_path / "m"), "-f", str(tmp_path / "t.txt"), "--gate", "L0H1=0", "--json")
    assert json.loads(pruned[1])["per_token"][0] != told.per_token[0]
    for wrong in (("--text", "the cat"), ("--target", "le chat")):
        assert run(capsys, str(tmp_path / "m"), "-f", str(tmp_path / "t.txt"), *wrong)[0] == 2
    assert run(capsys, str(tmp_path / "m"))[0] == 2
