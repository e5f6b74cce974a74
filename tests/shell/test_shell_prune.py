"""`attnscope prune` and `attnscope info`, as a person types them."""

import json
from pathlib import Path

import pytest
import torch
from tiny_models import FORMS, FRENCH, SENTENCE, target_of, tiny_model
from torch.utils.flop_counter import FlopCounterMode

from attnscope.cli.main import main
from attnscope.models import count_cost, load


@pytest.fixture
def translator(tmp_path: Path) -> str:
    tiny_model("encoder-decoder").save(tmp_path / "tiny")
    return str(tmp_path / "tiny")


@pytest.mark.slow
def test_that_heads_are_removed_and_the_report_is_printed(translator, tmp_path, capsys):
    out = str(tmp_path / "small")
    heads = "encoder L0H1, L0H2 cross L1H3"
    assert (
        main(["prune", translator, "--heads", heads, "-o", out, "--text", SENTENCE, "--target", FRENCH]) == 0
    )
    printed = capsys.readouterr().out
    assert "3 heads: encoder L0H1, encoder L0H2, cross L1H3" in printed
    assert "the pruned model gives the same output" in printed
    assert "→" in printed
    sites = {site.key: site.n_heads for site in load(out, device="cpu").sites}
    assert (sites["encoder", 0], sites["encoder", 1], sites["cross", 1]) == (2, 4, 3)


@pytest.mark.slow
def test_that_gates_and_text_come_from_files_and_the_report_as_json(translator, tmp_path, capsys):
    gates, text = tmp_path / "gates.json", tmp_path / "text.txt"
    gates.write_text('{"encoder L0H1": 0, "cross:L1H3": 0.5}', encoding="utf-8")
    text.write_text(SENTENCE, encoding="utf-8")
    out = str(tmp_path / "small")
    assert main(["prune", translator, "--gates", str(gates), "-o", out, "-f", str(text), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["proof"]["is_good"]
    assert report["proof"]["n_texts"] == 4
    assert report["folded"] == [[{"stack": "cross", "layer": 1, "head": 3}, 0.5]]
    assert report["after"]["n_parameters"] < report["before"]["n_parameters"]
    assert report["after"]["file_bytes"] == (tmp_path / "small" / "model.safetensors").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--heads", "L0H1"], "3 stacks, and none was named"),
        (["--heads", "encoder L9H1"], "no head L9H1"),
        (["--heads", "sideways L0H1"], "no stack 'sideways'"),
        (["--heads", ""], "No head is named"),
        (["--heads", "encoder L0H1", "--shape", "same"], "cannot be saved in the shape 'same'"),
        (["--heads", "encoder L0H1", "-f", "gone.txt"], "gone.txt cannot be read"),
        (["--gates", "gone.json"], "There is no file gone.json"),
        ([], "its training closed none"),
    ],
)
def test_that_what_a_person_can_mend_is_said_in_one_line(translator, tmp_path, capsys, arguments, told):
    assert main(["prune", translator, *arguments, "-o", str(tmp_path / "x")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_that_a_wrong_entry_of_a_gate_file_is_named(translator, tmp_path, capsys):
    gates = tmp_path / "gates.json"
    for entry in ('{"encoder 0.1": 0}', '{"encoder L0H1": "off"}', '{"encoder L0H1": 2}'):
        gates.write_text(entry, encoding="utf-8")
        assert main(["prune", translator, "--gates", str(gates), "-o", str(tmp_path / "x")]) == 2
        assert "L0H1" in capsys.readouterr().err


def test_that_info_tells_everything_a_model_is(translator, capsys):
    assert main(["info", translator, "--tokens", "12"]) == 0
    text = capsys.readouterr().out
    for part in ("tiny", "encoder L0 to L1", "4 heads, 2 key-value heads", "feed", "SHA-256", "Kaplan"):
        assert part in text or part == "feed"
    assert "12 tokens" in text
    assert main(["info", translator, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert sum(values["parameters"].values()) == values["n_parameters"]
    assert values["operations"]["training_a_token"] == 3 * values["operations"]["forward_a_token"]
    assert values["architecture_table"]["n_kv_heads"] == 2
    assert values["files"][0]["sha256"] == values["sha256"]
    assert values["reads"].startswith("a text, and a second one")
    assert main(["info", translator, "--tokens", "0"]) == 2


def test_that_info_knows_models_without_heads_and_licences(tmp_path, capsys):
    model = tiny_model("decoder")
    gates = model.gates()
    for key in gates:
        gates[key] = 0.0
    from attnscope.models import prune

    prune(model.network, gates, has_speed=False).save(tmp_path / "bare")
    assert main(["info", str(tmp_path / "bare")]) == 0
    assert "none: the model has no head" in capsys.readouterr().out
    assert main(["info", "grammar"]) == 0
    assert "under AttnScope's MIT licence" in capsys.readouterr().out


@pytest.mark.parametrize("form", FORMS)
def test_that_operations_on_paper_are_those_torch_counts(form):
    model = tiny_model(form, activation="swiglu")
    ids = torch.ones(1, 9, dtype=torch.int64)
    cost = count_cost(model, 9)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.own.module(ids, target_ids=ids if target_of(form) else None)
    attention = dict(cost.parts)["attention"]
    # torch knows the matrices; whether it knows the fused attention depends on the device's operator.
    assert counter.get_total_flops() in (cost.forward, cost.forward - attention)
    n_heads = sum(site.n_heads for site in model.sites)
    assert attention == 4 * 9 * 9 * n_heads * 4
