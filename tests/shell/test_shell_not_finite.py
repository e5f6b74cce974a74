"""Weights or outputs that are no numbers: every command says so, and nothing is told of such outputs."""

from pathlib import Path

import pytest
import torch
from tiny_models import SENTENCE, tiny_model

import attnscope
from attnscope.cli.main import main
from attnscope.errors import NotFiniteError
from attnscope.models.outputs import best_ids, finite, log_probabilities
from attnscope.records.generation import WriteSettings

pytestmark = pytest.mark.slow

OUTPUT = "tokens.weight"


def spoilt(folder: Path, form: str, *, is_output: bool, value: float = torch.nan) -> Path:
    """A model folder with an intact manifest, whose damage reaches its output or hides in one head."""
    model = tiny_model(form)
    module = model.own.module
    names = [name for name in module.state_dict() if name.endswith("weight")]
    name = OUTPUT if is_output else next(n for n in names if "quer" in n or ".q" in n)
    with torch.no_grad():
        module.state_dict()[name][:] = value
    model.save(folder)
    return folder


@pytest.mark.parametrize("command", [
    ("predict",), ("trace", "-o", "x.npz"), ("measure",), ("attribute",),
    ("figure", "--view", "head", "--head", "L0H0", "-o", "x.svg"), ("generate",),
], ids=lambda command: command[0])  # fmt: skip
def test_that_every_command_says_that_weights_are_no_numbers(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = spoilt(tmp_path / "hidden", "decoder", is_output=False)
    main([command[0], str(folder), "--text", SENTENCE, *command[1:]])
    assert "Some weights are not finite numbers" in capsys.readouterr().err


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_an_output_that_is_no_number_is_refused(
    form: str, value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = spoilt(tmp_path / "broken", form, is_output=True, value=value)
    commands = {"decoder": ["predict", "generate"], "encoder": ["predict"]}.get(form, ["predict", "generate"])
    for command in commands:
        assert main([command, str(folder), "--text", SENTENCE]) == 2, command
        told = capsys.readouterr()
        assert told.out == ""
        assert "The model's output is not finite" in told.err
        assert "the text at once" not in told.err
    model = attnscope.load(folder, device="cpu")
    with pytest.raises(NotFiniteError):
        model.predict(SENTENCE)
    if form == "decoder":
        with pytest.raises(NotFiniteError):
            model.write(SENTENCE, WriteSettings(mode="beams", n_beams=2, max_tokens=3))
        with pytest.raises(NotFiniteError):
            model.generate(SENTENCE)
        look = model.look(SENTENCE, keep_output=True)  # the window shows its maps, grey, and why no output
        assert "not finite" in look.comparison.refused
        assert look.comparison.after.predictions == ()
        assert not look.trace.check().is_good


def test_that_translating_a_file_is_refused_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = spoilt(tmp_path / "broken", "encoder-decoder", is_output=True)
    (tmp_path / "lines.txt").write_text(f"{SENTENCE}\n")
    code = main(["translate", str(folder), "-f", str(tmp_path / "lines.txt")])
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert "The model's output is not finite" in told.err


def test_that_a_token_that_is_ruled_out_is_no_fault() -> None:
    logits = torch.tensor([[0.0, -torch.inf, 2.0], [1.0, 0.5, -torch.inf]])
    assert best_ids(logits).tolist() == [2, 0]
    assert finite(logits) is logits
    torch.testing.assert_close(log_probabilities(logits).exp().sum(-1), torch.ones(2, dtype=torch.float64))
    for wrong in (torch.nan, torch.inf):
        for place in range(3):
            spoilt_row = logits.clone()
            spoilt_row[1, place] = wrong
            for ask in (best_ids, finite, log_probabilities):
                with pytest.raises(NotFiniteError):
                    ask(spoilt_row)
    with pytest.raises(NotFiniteError):
        finite(torch.full((1, 3), -torch.inf))
