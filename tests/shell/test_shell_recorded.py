"""Files of recorded attention in the place of a model and a text on the command line."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import attnscope
from attnscope.cli.main import main
from attnscope.records import HeadRef
from attnscope.settings import StartOptions
from attnscope.viewmodels.session import Shown, command_line, python_script


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
    with attnscope.record(model) as found:
        model(torch.ones(1, 3, 8), torch.ones(1, 2, 8))
    path = tmp_path / "mine.safetensors"
    found.trace(["a", "b", "c"], ["x", "y"], name="mine").save(path)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_that_commands_that_look_take_a_recording(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "info", recording)
    assert code == 0
    assert "mine: recorded attention, 3 and 2 tokens" in out
    assert "cross L0  2 heads  decoder.layers.0.multihead_attn" in out
    code, out, _ = run(capsys, "measure", recording, "--json")
    assert [head["head"]["stack"] for head in json.loads(out)["heads"]] == [
        "encoder", "encoder", "decoder", "decoder", "cross", "cross"
    ]  # fmt: skip
    assert run(capsys, "trace", recording, "-o", tmp_path / "x.npz")[0] == 0
    with np.load(tmp_path / "x.npz") as arrays:
        own = attnscope.load_trace(recording)
        np.testing.assert_allclose(arrays["cross.0"], own.all_weights(("cross", 0)))
        assert arrays["cross.0.queries"].tolist() == ["x", "y"]
    figure = tmp_path / "figure.csv"
    code, _, _ = run(capsys, "figure", recording, "--view", "head", "--head", "cross:L0H1", "-o", figure)
    assert code == 0
    assert "x,a" in figure.read_text().replace('"', "") or "x" in figure.read_text()


def test_that_every_command_says_when_the_rows_of_a_recording_do_not_sum_to_1(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = attnscope.load_trace(recording)
    key = own.sites[0].key
    own.records[key] = replace(own.records[key], lse=own.records[key].lse - 2.0)
    own.save(recording)
    out = tmp_path / "figure.svg"
    commands = (("measure",), ("trace", "-o", tmp_path / "x.npz"), ("figure", "--view", "grid", "-o", out))
    for command, *rest in commands:
        code, _, err = run(capsys, command, recording, *rest)
        assert (code, "row sums off by 6e+00" in err) == (0, True), command
    assert "row sums off by 6e+00" in run(capsys, "info", recording)[1]
    figure = attnscope.figure(attnscope.load_trace(recording), view="head", heads=("encoder:L0H0",))
    assert "⚠ rows off by 6.4" in figure._repr_svg_()
    wrong = attnscope.load_trace(recording)
    assert wrong.check().sentence == "encoder L0: row sums off by 6e+00"
    for view in ("head", "lines", "panels"):
        for heads in (("encoder:L0H0",), ("cross:L0H0",)):
            drawn = attnscope.figure(wrong, view=view, heads=heads, plain=True)
            is_told = "⚠ rows off by 6.4" in drawn._repr_svg_()
            assert is_told == (heads == ("encoder:L0H0",)), (view, heads)


def test_that_figures_of_recordings_are_drawn_again(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = HeadRef(stack="cross", layer=0, head=1)
    shown = Shown(source=str(recording), text="a b c", target="x y", heads=(head,), is_recorded=True)
    assert "--text" not in command_line(shown)
    out = tmp_path / "one.csv"
    exec(python_script(shown, str(out)), {})
    kept = tmp_path / "kept.figure.json"
    words = ("figure", recording, "--view", "head", "--head", "cross:L0H1")
    assert run(capsys, *words, "-o", kept)[0] == 0
    assert run(capsys, *words, "-o", tmp_path / "two.csv")[0] == 0
    assert run(capsys, "figure", kept, "-o", tmp_path / "three.csv")[0] == 0
    first = out.read_text()
    assert first == (tmp_path / "two.csv").read_text() == (tmp_path / "three.csv").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("figure", "--text", "other", "-o", "x.svg"), "cannot read another text"),
        (("figure", "--gate", "encoder:L0H0=0", "-o", "x.svg"), "--gate needs a model"),
        (("trace", "-f", "text.txt", "-o", "x.npz"), "-f needs a model"),
        (("generate", "--text", "a"), "recorded attention, not a model"),
        (("prune", "--heads", "L0H0", "-o", "x"), "recorded attention, not a model"),
        (("measure", "--corpus", "text.txt"), "recorded attention, not a model"),
    ],
)
def test_that_what_needs_a_model_is_refused_in_one_line(
    recording: Path, words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, words[0], recording, *words[1:])
    assert code == 2
    assert reason in err
    assert err.count("\n") == 1


def test_that_rows_that_do_not_sum_to_one_are_told_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attnscope.from_arrays(torch.full((1, 1, 2, 2), 0.25)).save(tmp_path / "half.safetensors")
    code, out, err = run(capsys, "measure", tmp_path / "half.safetensors")
    assert code == 0
    assert "2 of 2 rows do not sum to 1 but to 0.5 (" in err
    assert "rows do not sum to 1: off by 0.5" in out


def test_that_a_file_in_the_place_of_a_command_opens_the_window(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnscope import boot

    opened: list[StartOptions] = []
    monkeypatch.setattr(boot, "prepare_environment", lambda **_: None)
    monkeypatch.setattr(boot, "open_window", lambda options: opened.append(options) or 0)
    assert main([str(recording)]) == 0
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert main(["open", str(recording)]) == 0
    assert [options.source for options in opened] == [str(recording)] * 2
    assert [options.may_choose_threads for options in opened] == [False, True]
