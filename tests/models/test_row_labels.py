"""What the rows of cross-attention are named after: the token written there, or the one read last."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_models import tiny_model

import attnscope as at
from attnscope import FigureOrigin, from_arrays
from attnscope.figures import figure_file_bytes, figure_from_bytes, readout_names, what_to_keep
from attnscope.records import NOT_WRITTEN, WriteSettings, row_labels
from attnscope.trace import load_trace
from attnscope.viewmodels import ViewState
from attnscope.viewmodels.maps import Aspect, map_through
from attnscope.viewmodels.session import session_from_bytes

HEAD = ("cross", 1, 0)


@pytest.fixture(scope="module")
def model():
    return tiny_model("encoder-decoder")


@pytest.fixture(scope="module")
def trace(model):
    return model.trace("the cat sat", "le chat le")


def test_that_a_row_is_called_after_the_next_token_and_the_last_after_the_models_own(model, trace):
    read = trace.head_map(HEAD)
    shown = at.figure(trace, "head", head=HEAD).spec.maps[0]
    pieces = trace.target.pieces
    best = model.network.answer(int(trace.logits[-1].argmax()))
    assert [q.label for q in shown.queries] == [*pieces[1:], best.piece]
    assert [q.read for q in shown.queries] == list(pieces)
    assert np.array_equal(shown.weights, read.weights)
    assert at.figure(trace, "head", head=HEAD, rows="read").spec.maps[0].queries == trace.target.tokens


def test_that_only_rows_that_write_are_called_anew(trace):
    for head in (("encoder", 0, 0), ("decoder", 0, 0)):
        assert at.figure(trace, "head", head=head).spec.maps[0].queries == trace.tokens(head[:2])[0]
    given = from_arrays({"cross": np.full((1, 1, 2, 3), 1 / 3)}, ["a", "b", "c"], target=["x", "y"])
    assert [q.label for q in at.figure(given, "head").spec.maps[0].queries] == ["x", "y"]
    assert row_labels((), NOT_WRITTEN, "written") == ()


def test_that_a_written_text_names_its_rows_and_what_is_not_written_has_a_mark(model):
    written = model.write("the cat sat", WriteSettings(max_tokens=3))
    shown = at.figure(written.trace, "head", head=HEAD).spec.maps[0]
    tokens = written.trace.target.tokens
    assert [q.label for q in shown.queries[:-1]] == [t.label for t in tokens[1:]]
    assert shown.queries[-1].label in (NOT_WRITTEN.label, "</s>")


def test_that_pointing_at_a_cell_says_both(trace):
    shown = at.figure(trace, "head", head=HEAD).spec.maps[0]
    words = re.sub("[\u2068\u2069]", "", readout_names(shown, 0, 1))
    first = trace.target.pieces[1]
    assert words == f"query 0 reading “<s>”, writing “{first}” → key 1 “{trace.source.pieces[1]}”"


def test_that_words_are_joined_by_what_is_written(trace):
    written = map_through(Aspect(is_by_word=True), (trace.head_map(HEAD),))
    names = [token.piece for token in trace.target.tokens[1:]]
    joined = [token.joins_previous for token in trace.target.tokens[1:]]
    words: list[list[int]] = []
    for i in range(len(names)):
        words[-1].append(i) if joined[i] else words.append([i])
    weights = trace.weights(HEAD[:2], 0).astype(np.float64)
    for row, members in enumerate(words):
        assert written.queries[row].label == "".join(names[i] for i in members).strip()
        total = float(written.weights[row].sum())
        assert total == pytest.approx(weights[members].sum(axis=1).mean(), abs=1e-5)


def test_that_tables_hold_what_was_read_and_what_is_written(trace, tmp_path: Path):
    made = at.figure(trace, "head", head=HEAD)
    rows = list(csv.DictReader(io.StringIO(made.save(tmp_path / "a.csv").read_text())))
    n_keys = len(trace.source)
    assert [row["query token"] for row in rows[::n_keys]] == list(trace.target.pieces)
    assert [row["written token"] for row in rows[::n_keys][:-1]] == list(trace.target.pieces[1:])
    arrays = np.load(made.save(tmp_path / "a.npz"))
    assert arrays["cross_L1H0_queries"].tolist() == list(trace.target.pieces)
    assert arrays["cross_L1H0_written"].tolist()[:-1] == list(trace.target.pieces[1:])
    plain = at.figure(trace, "head", head=HEAD, rows="read").save(tmp_path / "b.csv").read_text()
    assert "written token" not in plain
    page = made.save(tmp_path / "a.html").read_text()
    assert '"reads":["<s>"'.replace("<", "\\u003c").replace(">", "\\u003e") in page


def test_that_a_difference_and_lines_name_rows_likewise(trace):
    first = at.figure(trace, "lines", head=HEAD).spec.maps[0].queries
    both = at.figure(trace, "difference", head=HEAD, other=trace).spec.compared
    assert [q.label for q in both.queries] == [q.label for q in first]
    old = at.figure(trace, "difference", head=HEAD, other=trace, rows="read").spec.compared
    assert [q.label for q in old.queries] == list(trace.target.pieces)
    assert np.array_equal(old.first, both.first)


@pytest.mark.parametrize("rows", ["written", "read"])
def test_that_rows_of_two_sides_are_matched_by_what_they_are_called_after(model, trace, rows):
    other = model.trace("the cat sat", "chat le")
    both = at.figure(trace, "difference", head=HEAD, other=other, align="pieces", rows=rows).spec.compared
    pairs = [
        (a.label, b.label) for a, b in zip(*both.side_queries, strict=True) if "–" not in (a.piece, b.piece)
    ]
    assert len(pairs) >= 2
    assert all(a == b for a, b in pairs)
    assert {a for a, _ in pairs} >= ({"chat", "le"} if rows == "read" else {"le"})


def test_that_files_of_older_versions_keep_the_rows_they_were_saved_with(trace):
    origin = FigureOrigin(source="m", text="a", heads=(), aspect=Aspect())
    spec = replace(at.figure(trace, "head", head=HEAD).spec, origin=origin)
    content = json.loads(figure_file_bytes(what_to_keep(spec)))
    assert content["aspect"]["rows"] == "written"
    assert figure_from_bytes(json.dumps(content).encode()).origin.aspect.rows == "written"
    del content["aspect"]["rows"]
    assert figure_from_bytes(json.dumps(content).encode()).origin.aspect.rows == "read"
    session = {"format": 1, "model": {"source": "m"}, "text": "a", "aspect": {"blend": "none"}}
    found = session_from_bytes(json.dumps(session).encode(), what="x")
    assert found.setting.aspect.rows == "read"


def test_that_a_saved_trace_keeps_what_follows(trace, tmp_path: Path):
    trace.save(tmp_path / "t.safetensors")
    assert load_trace(tmp_path / "t.safetensors").target.following == trace.target.following


def test_that_the_token_strip_lights_the_token_a_row_is_called_after():
    view, sides = ViewState(), ("target", "source")
    view.hover_token("target", 2, sides, 1)
    assert view.highlight.query == 1
    assert view.lit_tokens("target", sides, 1).query == 2
    view.hover_token("target", 0, sides, 1)
    assert view.highlight.query is None


def test_that_a_head_step_by_step_calls_its_query_as_maps_call_their_rows(model, trace, tmp_path: Path):
    rows = at.figure(trace, "head", head=HEAD).spec.maps[0].queries
    for query in (0, -1):
        made = at.inside_figure(model, "the cat sat", HEAD, query, target="le chat le")
        assert made.spec.inside.inside.query_token == rows[query]
        table = list(csv.DictReader(io.StringIO(made.save(tmp_path / "a.csv").read_text())))
        assert table[0]["query token"] == trace.target.pieces[query]
        assert table[0]["written token"] == rows[query].piece
    other = at.inside_figure(model, "the cat sat", ("decoder", 1, 0), target="le chat le")
    assert "written token" not in other.save(tmp_path / "b.csv").read_text()
