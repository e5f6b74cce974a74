"""The tab of what a head's weights say: asked for when seen, linked to the selection, stopped, exported."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot
from session_samples import Desk, ref, state_of

from attnscope.figures import DARK, LIGHT, PROJECTOR, render
from attnscope.records import (
    CircuitKind,
    Failed,
    HeadCircuit,
    HeadRef,
    HeadWeightsFound,
    ModelLoaded,
    ShowWeights,
    Site,
    SiteSpectrum,
    StopWork,
    Token,
    TokenPair,
    WeightPart,
    WeightsNews,
    WeightsShown,
)
from attnscope.viewmodels.heads import sameness_words
from attnscope.widgets import apply_theme
from attnscope.widgets.heads import WeightsPage

pytestmark = pytest.mark.qt


def part(head: HeadRef, kind: CircuitKind, sameness: float = 0.75) -> WeightPart:
    pairs = tuple(
        TokenPair(first=Token(id=k, piece=f"=a{k}"), second=Token(id=9, piece="<b>"), value=4.0 - k)
        for k in range(3)
    )
    site = Site(stack=head.stack, layer=head.layer, n_heads=2, n_kv_heads=2)
    spectrum = SiteSpectrum(
        site=site, kind=kind, single=np.array([[2.0, 1.0], [3.0, 0.0]]), stacked=np.array([3.0, 2.0, 1.0])
    )
    circuit = HeadCircuit(head=head, kind=kind, largest=pairs, smallest=pairs[::-1], sameness=sameness)
    return WeightPart(kind=kind, circuit=circuit, spectrum=spectrum)


def found_of(head: HeadRef) -> HeadWeightsFound:
    return HeadWeightsFound(head=head, parts=(part(head, "ov"), part(head, "qk", -0.9)))


class Page:
    def __init__(self, qtbot: QtBot, save_to: str = "") -> None:
        self.desk = Desk().open()
        self.asked: list[object] = []
        self.state = state_of("weights", self.asked.append, session=self.desk.session)
        self.widget = WeightsPage(self.state, ask_save=lambda *_: save_to)
        qtbot.addWidget(self.widget)
        self.widget.resize(1100, 600)

    def answer(self) -> None:
        asked = self.asked[-1]
        assert isinstance(asked, ShowWeights)
        self.state.handle(WeightsShown(number=asked.number, found=found_of(asked.head)))


def test_that_a_head_is_asked_for_once_it_is_seen_and_kept_for_when_it_comes_back(qtbot: QtBot) -> None:
    page = Page(qtbot)
    page.desk.session.select_heads((ref(0, 1),))
    assert page.asked == []
    page.widget.show()
    asked = page.asked[-1]
    assert isinstance(asked, ShowWeights)
    assert asked.head == ref(0, 1)
    page.state.handle(WeightsNews(number=asked.number, n_done=1, n_total=4, about="OV"))
    assert page.state.stage is not None
    assert (page.state.stage.title, page.state.job.fraction) == ("OV: 1 of 4 tokens", 0.25)
    partly = HeadWeightsFound(head=ref(0, 1), parts=(replace(part(ref(0, 1), "ov"), circuit=None),))
    page.state.handle(WeightsShown(number=asked.number, found=partly))
    assert (page.state.stage, page.state.note("ov")) == (None, "Multiplying…")
    page.answer()
    assert page.state.note("ov") == "Σ Re λ / Σ |λ| = +0.75: it copies"
    assert page.state.note("qk") == "Σ Re λ / Σ |λ| = −0.90: it avoids tokens like itself"
    # Head 1 has all of Σσ² in one dimension, head 0 needs two of two; all together 13 of 14 in two.
    assert "QK: 90 % of Σσ² in 1 of 2 dimensions (the layer's heads one by one 3, together 2)" in (
        page.state.statement()
    )
    page.widget.forward.click()
    assert page.desk.session.primary == ref(1, 0)
    page.answer()
    n = len(page.asked)
    page.widget.back.click()
    assert (page.desk.session.primary, len(page.asked), page.state.stage) == (ref(0, 1), n, None)
    late = WeightsShown(number=asked.number, found=partly)
    page.state.handle(late)
    assert page.state.note("qk") != ""
    for palette in (DARK, PROJECTOR, LIGHT):
        apply_theme(page.widget, palette)
        assert not page.widget.grab().isNull()
    page.state.handle(ModelLoaded(number=1, info=page.desk.session.model))  # type: ignore[arg-type]
    assert page.state.found is None


def test_that_it_stops_goes_on_and_says_what_cannot_be_read(qtbot: QtBot) -> None:
    page = Page(qtbot)
    page.widget.show()
    page.widget.stop_button.click()
    assert page.asked[-1] == StopWork(number=page.asked[-1].number, work="ShowWeights")
    assert page.state.stage is not None
    assert page.state.stage.title == "Stopped"
    page.widget.run_button.click()
    asked = page.asked[-1]
    assert isinstance(asked, ShowWeights)
    page.state.handle(Failed(number=asked.number, request="ShowWeights", message="Out of memory."))
    assert page.state.stage is not None
    assert page.state.stage.hint == "Out of memory."
    page.widget.run_button.click()
    asked = page.asked[-1]
    assert isinstance(asked, ShowWeights)
    refused = tuple(WeightPart(kind=k, refusal="No tokens.", no_spectrum="No tokens.") for k in ("ov", "qk"))
    found = HeadWeightsFound(head=asked.head, parts=refused)
    page.state.handle(WeightsShown(number=asked.number, found=found))
    assert page.state.stage is not None
    assert (page.state.stage.kind, page.state.stage.hint) == ("failed", "No tokens.")
    assert page.widget.figure_spec() is None


def test_that_pairs_values_and_curves_are_exported(qtbot: QtBot, tmp_path: Path) -> None:
    target = tmp_path / "out"
    page = Page(qtbot, str(target))
    page.widget.show()
    page.answer()
    page.widget._on_export_pairs()
    rows = list(csv.DictReader(io.StringIO(target.read_text(encoding="utf-8"))))
    assert len(rows) == 12
    assert (rows[0]["product"], rows[0]["end"], rows[0]["value"]) == ("ov", "strongest", "4")
    assert not rows[0]["first"].startswith("=")  # no formula for a spreadsheet
    page.widget._on_export_json()
    found = json.loads(target.read_text(encoding="utf-8"))
    assert found["products"]["qk"]["sameness"] == -0.9
    head = page.desk.session.primary
    assert head is not None
    assert found["products"]["ov"]["singular_values"] == [[2.0, 1.0], [3.0, 0.0]][head.head]
    assert found["products"]["ov"]["weakest"][0]["value"] == 2.0
    spec = page.widget.figure_spec()
    assert spec is not None
    numbers = render(spec, "csv").decode()
    assert "QK of layer" in numbers
    assert '"all heads","2","0.928571' in numbers  # (9 + 4) / 14
    assert render(spec, "svg").startswith(b"<?xml")
    page.state.show_end("weakest")
    assert page.state.pairs("ov")[0].value == 2.0
    assert page.widget.panels[0].table.pair_at(30.0) == page.state.pairs("ov")[0]


def test_that_a_model_without_pairs_has_its_singular_values_alone(qtbot: QtBot) -> None:
    page = Page(qtbot)
    page.desk.session.select_heads((ref(0, 1),))
    page.widget.show()
    asked = page.asked[-1]
    assert isinstance(asked, ShowWeights)
    whole = found_of(asked.head)
    bare = tuple(replace(one, circuit=None, refusal="no table of tokens") for one in whole.parts)
    page.state.handle(WeightsShown(number=asked.number, found=replace(whole, parts=bare)))
    assert page.widget.charts.isVisible()
    assert not any(panel.isVisible() for panel in page.widget.panels)
    page.desk.session.select_heads((ref(0, 0),))
    page.answer()
    assert all(panel.isVisible() for panel in page.widget.panels)


def test_that_a_head_between_two_texts_that_writes_other_words_translates() -> None:
    def circuit(stack: str, second: str) -> HeadCircuit:
        pair = TokenPair(first=Token(id=1, piece="bridges"), second=Token(id=2, piece=second), value=2.0)
        head = HeadRef(stack=stack, layer=1, head=7)  # type: ignore[arg-type]
        return HeadCircuit(head=head, kind="ov", largest=(pair,), smallest=(pair,), sameness=0.8)

    assert sameness_words(circuit("cross", "ponts")).endswith("it writes a translation of what it looks at")
    assert sameness_words(circuit("cross", "bridges")).endswith("it copies")
    assert sameness_words(circuit("decoder", "ponts")).endswith("it copies")
