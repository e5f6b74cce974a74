"""The attention graph: when it asks, for which token and threshold, what it says of a circle."""

from typing import Any

import pytest
from graph_samples import graph
from session_samples import Desk, states_of
from told import names_told

from attnscope.records import AttentionGraph, Failed, GraphEdge, GraphShown, ShowGraph
from attnscope.viewmodels.causes import node_words


def watched() -> tuple[Desk, Any, Any, list[ShowGraph]]:
    desk = Desk().open()
    asked: list[ShowGraph] = []
    states = states_of(desk.session, worker=asked.append)
    across, state = states.across, states.graph
    state.watch(True)
    return desk, across, state, asked


def test_that_it_asks_once_for_each_token_text_and_threshold() -> None:
    desk, across, state, asked = watched()
    traced = desk.session.traced
    assert traced is not None
    assert [(a.trace, a.position, a.threshold) for a in asked] == [(traced.number, 0, 0.01)]
    across.choose(2)
    told = names_told(state.changed)
    state.choose_threshold(0.05)
    state.choose_threshold(0.05)
    assert told == ["graph"]
    state.choose_threshold(0.3)  # none of those offered
    assert [(a.position, a.threshold) for a in asked[1:]] == [(2, 0.01), (2, 0.05)]
    state.watch(False)
    desk.session.texts.set_text("another text")
    desk.answer()
    assert len(asked) == 3
    state.watch(True)
    assert len(asked) == 4


def test_that_an_answer_that_comes_too_late_changes_nothing() -> None:
    desk, across, state, asked = watched()
    across.choose(1)
    state.handle(GraphShown(number=asked[0].number, position=0, graph=graph()))
    assert state.graph is None
    state.handle(GraphShown(number=asked[1].number, position=1, graph=graph()))
    assert state.graph == graph()
    across.choose(2)
    state.handle(Failed(number=asked[2].number, request="ShowGraph", message="No."))
    assert (state.graph, state.query.error) == (None, "No.")
    desk.open()
    assert state.query.error == ""


def test_that_a_circle_says_its_share_and_what_it_reads() -> None:
    assert node_words(graph(), 0) == (
        "“=sat” at decoder 1: 100.0 % of the output; reads “=sat” 0.75 (its own stream), “cat” 0.25"
    )
    assert node_words(graph(), 3) == "“cat” at decoder input: 25.0 % of the output"


def test_that_a_graph_with_an_edge_to_nowhere_cannot_be() -> None:
    whole = graph()
    lost = (*whole.edges, GraphEdge(upper=0, lower=9, weight=0.1, is_stream=False))
    with pytest.raises(ValueError, match="node that is not there"):
        AttentionGraph(levels=whole.levels, nodes=whole.nodes, edges=lost, threshold=0.0, kept_share=1.0)
    with pytest.raises(ValueError, match="level that does not exist"):
        AttentionGraph(levels=("in",), nodes=whole.nodes, edges=(), threshold=0.0, kept_share=1.0)
