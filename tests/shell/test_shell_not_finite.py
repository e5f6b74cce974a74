"""Weights or outputs that are no numbers: every command says so, and nothing is told of such outputs."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hf_folders import make, save_folder
from tiny_models import SENTENCE, tiny_model

import attnscope
from attnscope.analysis import head_pairs
from attnscope.cli.main import main
from attnscope.errors import NotFiniteError
from attnscope.models import best_ids, finite, log_probabilities
from attnscope.records import WriteSettings

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


@pytest.mark.parametrize("command", [
    ("rollout",), ("flow",), ("ask", "residual-stream"), ("ask", "feed-forward"),
    ("ask", "projections", "--head", "L1H0"), ("ask", "hashing", "--head", "L1H0"),
    ("figure", "--view", "graph", "-o", "x.svg"),
], ids=lambda command: "-".join(command[:2]))  # fmt: skip
def test_that_nothing_is_summed_over_weights_that_are_no_numbers(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = spoilt(tmp_path / "broken", "decoder", is_output=True)
    named = (command[1], str(folder), *command[2:]) if command[0] == "ask" else (str(folder), *command[1:])
    assert main([command[0], *named, "--text", SENTENCE]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "not finite" in told.err.replace("weights are not finite numbers", "")


@pytest.mark.parametrize("command", ["predict", "lens", "attribute", "generate"])
def test_that_one_damaged_head_is_found_in_a_short_text_too(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, folder = tiny_model("decoder"), tmp_path / "hidden"
    weights = model.own.module.state_dict()
    with torch.no_grad():
        weights[next(name for name in weights if name.endswith("qkv.weight"))][0] = torch.nan  # one query's
    model.save(folder)
    assert main([command, str(folder), "--text", "the cat"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "not finite" in told.err.splitlines()[-1]


def test_that_measures_over_texts_say_nothing_of_heads_whose_weights_are_no_numbers(tmp_path: Path) -> None:
    model = attnscope.load(spoilt(tmp_path / "broken", "decoder", is_output=True), device="cpu")
    found = attnscope.measure_texts(model, [SENTENCE] * 12)
    columns = zip(found.table.names, found.table.values.T, strict=True)
    known = [name for name, column in columns if not np.isnan(column).all()]
    assert known == ["next"]  # which the mask forbids
    assert all("no measure is defined on these texts" in card.sentence for card in found.cards)
    assert all(card.roles == () for card in found.cards)
    with pytest.raises(NotFiniteError):
        list(head_pairs(model, [SENTENCE]))


def test_that_a_trace_of_weights_that_are_no_numbers_opens_again_as_it_was(tmp_path: Path) -> None:
    trace = attnscope.load(spoilt(tmp_path / "broken", "decoder", is_output=True), device="cpu").trace(
        SENTENCE
    )
    trace.save(tmp_path / "trace.safetensors")
    again = attnscope.load_trace(tmp_path / "trace.safetensors")
    assert not again.check().is_good
    assert again.check().row_sum_error == math.inf


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


def test_that_logits_of_a_pass_that_is_derived_are_looked_at_without_a_warning() -> None:
    logits = torch.tensor([[0.0, 2.0]], requires_grad=True)
    assert best_ids(logits).tolist() == [1]
    assert finite(logits) is logits


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_that_no_singular_values_are_told_of_weights_that_are_no_numbers(
    value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny_model("decoder")
    with torch.no_grad():
        model.own.module.decoder[0].attention.output.weight[0, 0] = value
    model.save(tmp_path / "broken")
    assert main(["weights", str(tmp_path / "broken"), "L0H1"]) == 0
    of_ov, of_qk = capsys.readouterr().out.split("QK of decoder L0H1")
    assert "they have no singular values" in of_ov
    assert "singular values  " in of_qk  # the other product's are told all the same


@pytest.mark.parametrize("layer", [0, 1])
def test_that_no_relevance_is_told_of_weights_that_are_no_numbers(
    layer: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel of torch for CPUs gives 0 for a query of NaN in short texts: the logits are numbers."""
    pytest.importorskip("transformers")
    library, tokenizer = make("gpt2")
    library.transformer.h[layer].attn.c_attn.weight.data[:, :4] = torch.nan
    folder = save_folder(tmp_path / "broken", library, tokenizer)
    assert main(["relevance", str(folder), "--text", "ab c"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "is not finite" in told.err
