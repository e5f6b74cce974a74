"""The parts of the Explore page: what the person does becomes an intent, what the session holds is shown."""

import dataclasses
from itertools import pairwise
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from session_samples import SAMPLES, Desk, info, ref, states_of, tokens, traced

from attnscope.figures import DARK
from attnscope.records import NO_GATES, Answer, NumberTable, Sample, Site, Tokens, tokens_of_site
from attnscope.viewmodels import Highlight, Requests, ViewState
from attnscope.viewmodels.compare import Segment
from attnscope.viewmodels.session import (
    MEASURES,
    MeasureShown,
    Session,
    SessionChanges,
    TypedText,
    text_notes,
)
from attnscope.widgets import apply_theme
from attnscope.widgets.explore import (
    MOST_TYPED,
    AnswerView,
    DifferenceLabel,
    ExplorePage,
    GateControl,
    MeasureRow,
    TextBar,
)
from attnscope.widgets.labs import TextTable

pytestmark = pytest.mark.qt


def make(qtbot, desk: Desk) -> tuple[ExplorePage, ViewState]:
    view = ViewState()
    page = ExplorePage(states_of(desk.session), view)
    qtbot.addWidget(page)
    page.resize(1200, 720)
    page.show()
    return page, view


def mock_session(**values: object) -> MagicMock:
    made = Session(Requests(lambda _request: None))
    session = MagicMock(spec=made)
    texts = MagicMock(spec=made.texts, typed=TypedText(), names={}, is_past_trained=False)
    start = {
        "model": info(), "text": "", "target": None, "texts": texts, "traced": None,
        "traced_text": None, "stack": "cross",
        "primary": ref(0, 1), "selection": (ref(0, 1),), "gates": NO_GATES,
        "changed": SessionChanges(),
    }  # fmt: skip
    for name, value in {**start, **values}.items():
        setattr(session, name, value)
    return session


def test_that_each_key_reaches_the_session(qtbot):
    session = mock_session()
    bar = TextBar(session, ViewState())
    qtbot.addWidget(bar)
    qtbot.keyClicks(bar.text_edit, "the")
    assert [call.args for call in session.texts.set_text.call_args_list] == [("t",), ("th",), ("the",)]
    qtbot.keyClicks(bar.target_edit, "l")
    session.texts.set_target.assert_called_once_with("l")


def test_that_showing_a_text_does_not_set_it(qtbot):
    session = mock_session(text="shown by the session")
    bar = TextBar(session, ViewState())
    qtbot.addWidget(bar)
    assert bar.text_edit.text() == "shown by the session"
    session.texts.set_text.assert_not_called()


def test_that_dragging_the_gate_is_one_drag_for_the_session(qtbot):
    session = mock_session()
    gate = GateControl(session)
    qtbot.addWidget(gate)
    session.head_changes.set_gate.assert_not_called()
    gate.slider.setSliderDown(True)
    gate.slider.setSliderPosition(60)
    gate.slider.setSliderDown(False)
    session.head_changes.set_gate.assert_called_once_with(ref(0, 1), 0.6)
    session.head_changes.end_drag.assert_called_once_with()
    qtbot.mouseClick(gate.switch, Qt.MouseButton.LeftButton)
    session.head_changes.toggle_gates.assert_called_once_with((ref(0, 1),))


def test_that_the_gate_shown_is_the_sessions(qtbot):
    desk = Desk().open()
    page, _ = make(qtbot, desk)
    desk.session.head_changes.set_gate(desk.session.primary, 0.25)
    gate = page.inspector.gate
    assert (gate.value.text(), gate.slider.value(), gate.switch.text()) == ("0.25", 25, "on")
    desk.session.undo()
    assert gate.slider.value() == 100
    desk.session.head_changes.toggle_gate(desk.session.primary)
    assert gate.switch.text() == "off"


def test_that_the_target_is_shown_only_where_a_model_takes_one(qtbot):
    desk = Desk().open()
    page, _ = make(qtbot, desk)
    bar = page.text_bar
    assert bar.target_edit.isVisible()
    assert bar.target_edit.placeholderText() == "le chat dort"
    desk.open(info("decoder"))
    assert not bar.target_edit.isVisible()
    assert not bar.target_strip.isVisible()


@pytest.mark.parametrize(
    ("n", "told"), [(100_000, "80,000 characters cut"), (MOST_TYPED, "180,000 characters or more cut")]
)
def test_that_what_a_paste_loses_is_counted(qtbot, n: int, told: str):
    desk = Desk().open()
    page, _ = make(qtbot, desk)
    QGuiApplication.clipboard().setText("x" * n)
    page.text_bar.text_edit.selectAll()
    page.text_bar.text_edit.paste()
    assert text_notes(Tokens(text="", tokens=()), desk.session.texts.typed) == told


def test_that_samples_can_be_chosen_and_are_plain_text(qtbot):
    desk = Desk().open()
    page, _ = make(qtbot, desk)
    actions = page.text_bar.samples_button.menu().actions()
    assert len(actions) == len(SAMPLES)
    assert "&&" in actions[1].text()
    assert "&lt;b&gt;" in actions[1].toolTip()
    actions[1].trigger()
    assert desk.session.text == SAMPLES[1].text
    assert page.text_bar.text_edit.text() == SAMPLES[1].text


def test_that_a_long_hint_ends_in_dots(qtbot):
    long = (
        "The adjectives change places, so that the alignment runs backwards for three words; then it goes on."
    )
    samples = (Sample(text="a", hint=long), Sample(text="b", hint=f"{long} And more after that."))
    desk = Desk().open(dataclasses.replace(info(), samples=samples))
    page, _ = make(qtbot, desk)
    whole, cut = (action.text() for action in page.text_bar.samples_button.menu().actions())
    assert whole.endswith(long)
    assert cut.endswith("…")
    assert cut.count("…") == 1


def test_that_lost_characters_and_tokens_are_counted_on_screen(qtbot):
    """F28, F32."""
    desk = Desk().open()
    page, _ = make(qtbot, desk)
    desk.session.texts.set_text("a\ud800b")
    request = desk.traces()[-1]
    assert request.text == "a\ufffdb"
    reply = traced(request, desk.model)
    object.__setattr__(reply, "source", Tokens(text="a", tokens=tokens("a").tokens, n_dropped=3, n_unknown=1))
    desk.session.handle(reply)
    notes = [label.text() for label in page.text_bar.findChildren(type(page.inspector.place))]
    assert "3 tokens cut · 1 unknown · 1 replaced" in notes
    assert page.text_bar.text_edit.text() == "a\ufffdb"
    desk.session.texts.set_text("")
    notes = [label.text() for label in page.text_bar.findChildren(type(page.inspector.place))]
    assert not any("unknown" in note for note in notes)


@pytest.mark.parametrize(
    ("n_unknown", "n_copyable", "role"), [(2, 2, "hint"), (2, 1, "warning"), (1, 0, "warning")]
)
def test_that_words_that_can_be_copied_are_no_warning_in_either_text(qtbot, n_unknown, n_copyable, role):
    desk = Desk().open(info("encoder-decoder"))
    page, _ = make(qtbot, desk)
    desk.session.texts.set_text("a b")
    reply = traced(desk.traces()[-1], desk.model)
    told = Tokens(text="a b", tokens=tokens("a b").tokens, n_unknown=n_unknown, n_copyable=n_copyable)
    desk.session.handle(dataclasses.replace(reply, source=told, target=told))
    shown = [
        label
        for label in page.text_bar.findChildren(type(page.inspector.place))
        if "can be copied" in label.text() or "unknown" in label.text()
    ]
    assert [label.property("role") for label in shown] == [role, role]


@pytest.mark.parametrize("text", ["", "   ", "</s>", "a"])
def test_that_short_and_empty_texts_have_a_designed_state(qtbot, text):
    """F31."""
    desk = Desk().open()
    page, view = make(qtbot, desk)
    desk.session.texts.set_text(text)
    desk.answer()
    for name in ("heatmap", "lines"):
        view.show_view(name)
        assert not page.grab().isNull()
    assert page.card.isVisible() is (not text.strip())


def test_that_hovering_a_token_lights_it_in_every_view(qtbot):
    desk = Desk().open()
    page, view = make(qtbot, desk)
    assert desk.session.stack == "cross"
    page.text_bar.source_strip.token_hovered.emit(1)
    assert view.highlight == Highlight(query=None, key=1)
    page.head_panel.heatmap.cell_hovered.emit(2, 0, 0.25)
    assert view.highlight == Highlight(query=2, key=0)
    assert view.cell is not None
    assert view.cell.sentence == "dort → the  0.25"
    page.head_panel.heatmap.left.emit()
    assert view.highlight == Highlight()
    assert view.cell is None


def test_that_clicks_in_the_grid_become_intents(qtbot):
    desk = Desk().open()
    page, view = make(qtbot, desk)
    grid = page.grid_panel.grid
    grid.head_selected.emit(ref(0, 0, "cross"), False)
    grid.head_selected.emit(ref(1, 0, "cross"), True)
    assert desk.session.selection == (ref(0, 0, "cross"), ref(1, 0, "cross"))
    grid.head_toggled.emit(ref(0, 0, "cross"))
    assert desk.session.gates.off() == (ref(0, 0, "cross"),)
    qtbot.keyClick(grid, Qt.Key.Key_Space)  # every selected head, as Ctrl+G
    assert desk.session.gates.off() == (ref(0, 0, "cross"), ref(1, 0, "cross"))
    grid.head_activated.emit(ref(0, 0, "cross"))
    assert view.is_enlarged
    assert not page.grid_panel.isVisible()
    qtbot.mouseClick(page.head_panel.heading.back, Qt.MouseButton.LeftButton)
    assert page.grid_panel.isVisible()


def test_that_hovering_a_thumbnail_names_its_row_and_its_column(qtbot):
    desk = Desk().open()
    page, view = make(qtbot, desk)
    page.resize(1200, 800)
    page.show()
    grid, head = page.grid_panel.grid, desk.session.primary
    shown = next(g for g in desk.session.traced.grids if head in g.site.heads)
    layout = grid.layout_now()
    box = layout.box(*layout.place(head))
    rows, columns = tokens_of_site(shown.site, desk.session.traced.source, desk.session.traced.target)
    for query, key in ((0, 0), (shown.n_queries - 1, 1)):
        x = box.left() + (key + 0.5) * box.width() / shown.n_keys
        y = box.top() + (query + 0.5) * box.height() / shown.n_queries
        qtbot.mouseMove(grid, QPointF(x, y).toPoint())
        assert view.pointer_text == f"{rows[query].piece} → {columns[key].piece}"
    grid.leaveEvent(QEvent(QEvent.Type.Leave))
    assert view.pointer_text == ""


def test_that_outputs_stand_side_by_side_with_what_changed(qtbot):
    desk = Desk().open()
    page, view = make(qtbot, desk)
    output = page.output
    assert [title.text() for title in output._text_titles] == [
        "translation, all heads on",
        "translation, with your changes",
    ]
    assert output.kind.text() == "translation"
    desk.session.model = dataclasses.replace(desk.session.model, writes="sorted row")
    desk.session.changed.traced.emit()
    assert output._text_titles[0].text() == "sorted row, all heads on"
    assert output.kind.text() == "sorted row"
    assert output.kl.text() == "KL 0.25 nats"
    assert "w1: 0.900 before, not among the best after" in output.table.accessibleDescription()
    assert output.positions.count() == 2
    view.choose_position(1)
    assert output.kl.text() == "KL 0 nats"
    desk.session.head_changes.toggle_gate(ref(0, 0))
    desk.answer()
    assert [text.accessibleDescription() for text in output.texts] == ["le chat dort", "le chien dort"]


def test_that_pictures_dim_only_when_the_answer_is_slow(qtbot):
    desk = Desk().open()
    page, _ = make(qtbot, desk)
    dimmed = []
    page.text_bar.source_strip.set_stale = dimmed.append
    desk.session.texts.set_text("quick")
    desk.answer()
    assert dimmed == []
    desk.session.texts.set_text("slow")
    qtbot.waitUntil(lambda: dimmed == [True], timeout=2000)
    desk.answer()
    assert dimmed == [True, False]


def test_that_changed_words_are_shown_letter_by_letter(qtbot):
    label = DifferenceLabel("text")
    qtbot.addWidget(label)
    label.resize(160, 20)
    label.show_segments(
        (Segment(text="<i>le</i>", is_changed=False), Segment(text=" 😀 chien" * 30, is_changed=True))
    )
    assert label.height() > 40
    apply_theme(label, DARK)
    assert not label.grab().isNull()


def test_that_escape_in_a_text_field_gives_the_keys_to_the_grid(qtbot):
    desk = Desk().open()
    page, _ = make(qtbot, desk)
    for edit in (page.text_bar.text_edit, page.text_bar.target_edit):
        edit.setFocus()
        qtbot.keyClick(edit, Qt.Key.Key_Escape)
        assert page.focusWidget() is page.grid_panel.grid


def test_that_the_target_is_said_to_be_held_fixed_while_heads_change(qtbot):
    desk = Desk().open()
    page, _ = make(qtbot, desk)
    assert page.text_bar.target_edit.placeholderText() == "le chat dort"
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.answer()
    assert "held fixed" in page.text_bar.target_edit.placeholderText()


@pytest.mark.parametrize(
    ("stack", "said"), [("encoder", "read alone"), ("back", "matched with an empty one")]
)
def test_that_a_second_text_that_is_left_out_is_empty_only_where_two_are_matched(qtbot, stack, said):
    sites = (Site(stack=stack, layer=0, n_heads=1, n_kv_heads=1),)
    model = dataclasses.replace(info(), form="encoder", sites=sites, reads_pairs=True, labels=("no", "yes"))
    bar = TextBar(mock_session(model=model, text="the cat"), ViewState())
    qtbot.addWidget(bar)
    assert said in bar.target_edit.placeholderText()


def test_that_a_model_without_heads_leaves_the_side_to_its_answers(qtbot):
    desk = Desk().open()
    page, _ = make(qtbot, desk)
    assert page.inspector.isVisible()
    desk.session.model = dataclasses.replace(desk.session.model, sites=())
    desk.session.changed.model.emit()
    assert not page.inspector.isVisible()
    assert page.answers.isVisible()
    desk.session.model = info()
    desk.session.changed.model.emit()
    assert page.inspector.isVisible()


def test_that_a_model_with_something_in_the_place_of_attention_opens_on_the_map_that_it_hides(qtbot):
    desk = Desk().open()
    page, view = make(qtbot, desk)
    desk.session.model = dataclasses.replace(desk.session.model, sites=(), mixer="retention")
    desk.session.changed.model.emit()
    assert page.ask.isVisible()
    assert page.ask.questions.currentData() == "hidden-attention"
    assert page.answers.width() >= page.width() - 2
    assert page.text_bar.isVisible()
    assert not page.aspect_bar.isVisible()
    assert not page.card.isVisible()
    view.fold(frozenset({"answers"}))
    assert page.card.isVisible()
    view.fold(frozenset())
    page.answers.show_panel("Output")
    desk.session.model = info()
    desk.session.changed.model.emit()
    assert page.grid_panel.isVisible()
    assert page.aspect_bar.isVisible()
    assert page.answers.width() < page.width() / 2


def test_that_an_answer_takes_the_place_of_the_head_until_another_tab_is_shown(qtbot):
    page, view = make(qtbot, Desk().open())
    width = page.answers.width()
    page.show_question("surprise")
    assert page.ask.enlarge_button.isChecked()
    assert page.answers.width() > 2 * width
    assert page.grid_panel.isVisible()
    assert not page.head_panel.isVisible()
    assert not page.inspector.measures.isVisible()
    page.show_question("projections")
    assert page.answers.width() > 2 * width
    page.answers.show_panel("Output")
    assert not page.ask.enlarge_button.isChecked()
    assert page.head_panel.isVisible()
    assert page.inspector.measures.isVisible()
    assert page.answers.width() == width
    view.enlarge(True)
    page.show_question("surprise")
    assert page.grid_panel.isVisible()


def test_that_answers_stay_beside_the_head_once_a_person_wants_that_and_where_they_have_room(qtbot):
    page, _ = make(qtbot, Desk().open())
    width = page.answers.width()
    page.show_question("surprise")
    page.ask.enlarge_button.click()
    assert page.head_panel.isVisible()
    assert page.answers.width() == width
    for _ in range(2):
        page.answers.show_panel("Output")
        page.show_question("projections")
        assert page.head_panel.isVisible()
    page.ask.enlarge_button.click()
    page.answers.show_panel("Output")
    page.show_question("projections")
    assert not page.head_panel.isVisible(), "what a person wants last holds"
    page.answers.show_panel("Output")
    page.resize(1800, 700)
    page.columns.setSizes([1100, 700])
    wide = page.answers.width()
    page.show_question("surprise")
    assert page.head_panel.isVisible(), "two maps stand beside each other in this column"
    assert page.answers.width() == wide


def test_that_a_tour_keeps_the_head_beside_an_answer(qtbot):
    page, _ = make(qtbot, Desk().open())
    page.set_touring(True)
    page.show_question("surprise")
    assert page.head_panel.isVisible()


def test_that_a_table_too_wide_for_its_room_cuts_its_widest_column_as_far_as_the_heading(qtbot):
    saying = NumberTable(
        title="Steps", columns=("step", "norm", "first numbers"), rows=(("0 stream in", 1.85, "0.113 " * 12),)
    )
    view = AnswerView()
    qtbot.addWidget(view)
    view.show_answer(Answer(sentence="s", tables=(saying,)))
    widths = {}
    for room in (700, 340, 200):
        view.resize(room, 300)
        view.show()
        table = view.tables[0].findChild(TextTable)
        widths[room] = [table.columnWidth(k) for k in range(3)]
        if room > 200:
            assert sum(widths[room]) <= table.viewport().width()
    assert widths[700][2] > widths[340][2] >= widths[200][2] >= 72
    assert widths[700][:2] == widths[200][:2]


def test_that_no_digit_of_a_measure_is_cut_off(qtbot) -> None:
    kind = next(one for one in MEASURES if one.name == "distance")
    row = MeasureRow(kind)
    qtbot.addWidget(row)
    row.resize(240, row.height())
    widths = []
    for value in (4.3, 74.3, 474.3, 7474.3, 27474.3):
        row.show_measure(MeasureShown(kind=kind, value=value, place=0.0, others=()))
        image = row.grab().toImage()
        ground, high = image.pixel(0, 0), range(image.height())
        inked = [any(image.pixel(x, y) != ground for y in high) for x in range(image.width())]
        right = max(x for x, is_inked in enumerate(inked) if is_inked)
        widths.append(right - next(x for x in range(right, 0, -1) if not any(inked[x - 6 : x])))
    digits = [longer - shorter for shorter, longer in pairwise(widths)]
    assert min(digits) > 4, widths  # each digit more is a digit wider
