"""What a person may write in Python: heads, gates and changes in several ways; plain errors else."""

import pytest
import torch
from tiny_models import tiny_model

import attnscope as at
from attnscope.errors import LoadError, UserError

HEAD = at.HeadRef(stack="encoder", layer=1, head=0)


@pytest.fixture(scope="module")
def model() -> at.Model:
    return tiny_model("encoder-decoder")


@pytest.fixture(scope="module")
def trace(model) -> at.Trace:
    return model.trace("the cat", "the cat")


@pytest.mark.parametrize("name", [HEAD, ("encoder", 1, 0), "encoder:L1H0", "encoder L1H0"])
def test_that_a_head_may_be_named_in_each_of_its_ways(model, trace, name):
    table = model.gates()
    table[name] = 0.0
    assert table.frozen().off() == (HEAD,)
    assert model.trace("the cat", "the cat", {name: 0.0}).gates.off() == (HEAD,)
    assert at.figure(trace, "head", head=name).spec.maps[0].head == HEAD
    assert trace.head_map(name).head == HEAD


@pytest.mark.parametrize("name", ["L1H0", "foo", "pool:L0H0", 3, ("encoder", "x", 0), ("encoder", 0)])
def test_that_a_name_of_no_one_head_is_refused(trace, model, name):
    with pytest.raises(UserError, match="does not name one head"):
        at.figure(trace, "head", head=name)
    with pytest.raises(UserError, match="does not name one head"):
        model.trace("the cat", "the cat", {name: 0.0})


def test_that_one_change_is_as_good_as_a_tuple_of_it(model):
    change = at.MakeUniform(head=HEAD)
    assert model.trace("the cat", "the cat", interventions=change).interventions == (change,)
    assert model.trace("the cat", "the cat", interventions=[change]).interventions == (change,)
    for name in (("encoder", 1, 0), "encoder:L1H0"):
        named = at.MakeUniform(head=name)  # type: ignore[arg-type]
        assert model.trace("the cat", "the cat", interventions=named).interventions == (change,)
    with pytest.raises(UserError, match="does not name one head"):
        model.trace("the cat", "the cat", interventions=at.MakeUniform(head="L1H0"))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="not a change to a head"):
        model.trace("the cat", "the cat", interventions=HEAD)


def test_that_model_gates_figure_and_trace_say_in_a_line_what_they_are(model, trace):
    table = model.gates()
    assert repr(table).endswith("heads: all on")
    table["encoder", 1, 0] = 0.5
    assert repr(table).endswith("heads: encoder:L1H0=0.5")
    assert f"{model.info.n_parameters:,} parameters" in repr(model)
    assert repr(at.figure(trace, "grid", width_mm=85)).startswith("Figure: grid, 85 × ")
    assert "(1 unknown)" in repr(model.trace("the zebra", "the cat"))


def test_that_what_is_no_model_gate_text_list_or_site_is_said(model, trace):
    with pytest.raises(LoadError, match="type Linear"):
        at.load(torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="not gates"):
        model.trace("the cat", "the cat", gates=3)
    with pytest.raises(UserError, match="is x"):
        model.trace("the cat", "the cat", gates={HEAD: "x"})
    with pytest.raises(UserError, match="One text"):
        at.importance(model, "one text")
    with pytest.raises(UserError, match=r"such as \('encoder', 0\)"):
        trace.weights("encoder", 0)


@pytest.mark.parametrize(
    "choice",
    [
        {"scale": "foo"},
        {"turn": 30},
        {"turn": False},
        {"colour_map": "jet"},
        {"size": "big"},
        {"caption": "words"},
        {"title": 3},
        {"origin": "here"},
        {"n_strongest": -1},
        {"least_weight": float("nan")},
        {"width_mm": 2.0},
    ],
)
def test_that_a_figure_refuses_what_it_could_not_draw(trace, choice):
    with pytest.raises(UserError):
        at.figure(trace, **choice)


def test_that_a_figure_without_an_origin_is_kept_with_its_numbers(trace, tmp_path):
    shown = at.figure(trace, "head", head=HEAD, title="kept")
    again = at.load_figure(shown.save(tmp_path / "a.figure.json"))
    assert again.spec.maps[0].weights.tobytes() == trace.weights(("encoder", 1), 0).tobytes()
    assert again.render("svg") == shown.render("svg")


def test_that_paths_of_traces_may_be_texts(trace, tmp_path):
    path = str(tmp_path / "trace.safetensors")
    at.save_trace(path, trace)
    assert at.load_trace(path).sites == trace.sites


def test_that_every_public_name_can_be_imported():
    assert all(getattr(at, name) is not None for name in dir(at))
