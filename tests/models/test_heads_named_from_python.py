"""Heads are named in one way in every public function; what is no head or trace is told in words."""

import numpy as np
import pytest

import attnscope
from attnscope.errors import UserError
from attnscope.records import HeadRef


@pytest.fixture(scope="module")
def trace() -> attnscope.Trace:
    return attnscope.from_arrays(
        {"encoder": np.full((2, 3, 4, 4), 0.25), "cross": np.full((1, 3, 5, 4), 0.25)},
        list("abcd"),
        list("vwxyz"),
    )


def test_that_every_name_of_a_head_means_it_everywhere(trace: attnscope.Trace) -> None:
    site, wanted = trace.sites[1], HeadRef(stack="encoder", layer=1, head=2)
    names = [
        (1, 2),
        (site, 2),
        (("encoder", 1), 2),
        ("encoder", 1, 2),
        "encoder:L1H2",
        wanted,
        (np.int64(1), 2),
    ]
    for name in [*names, (np.int64(1), 2)]:
        assert attnscope.figure(trace, "head", head=name).spec.maps[0].head == wanted
        assert np.array_equal(trace.weights(name), trace.weights(1, 2))
        assert trace.head_map(name).head == wanted
    assert (
        attnscope.figure(trace, "lines", heads=[(0, 1), "cross:L0H0"][:1]).spec.maps[0].head.label == "L0H1"
    )


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        (lambda t: t.weights(1, "2"), "does not name one head"),
        (lambda t: t.weights(1, 1.5), "does not name one head"),
        (lambda t: t.weights(None, 0), "is not a site"),
        (lambda t: t.weights(("encoder",), 0), "is not a site"),
        (lambda t: t.weights(0), "does not name one head"),
        (lambda t: t.row(0, 0, "1"), "the number of no query"),
        (lambda t: t.tile(0, 0, 3, slice(0, 2)), "type int.*slice"),
        (lambda t: attnscope.figure(t, "head", head=(9, 0)), "does not name one head"),
        (lambda t: attnscope.figure(t, "lines", heads=3), "Heads: found an object.*Give one as head="),
        (lambda t: attnscope.figure("a"), r"type str \('a'\).*figure\(model.trace\(text\)\)"),
        (lambda t: attnscope.measure("a"), r"measure\(model.trace\(text\)\)"),
        (lambda t: attnscope.importance(t, ["a"]), r"Expected: a model.*attnscope.load"),
        (lambda t: attnscope.panels([t]), "A panel: found an object of type Trace"),
        (lambda t: attnscope.save_trace(t, "a.safetensors"), r"a path and a trace.*trace.save\(path\)"),
        (lambda t: attnscope.record(row="a"), "The row: found an object of type str"),
    ],
)
def test_that_a_wrong_argument_is_told_in_words(trace: attnscope.Trace, ask, word: str) -> None:
    with pytest.raises(UserError, match=word):
        ask(trace)
