"""The old text stays, dimmed, while the model writes the new one."""

from dataclasses import replace

import pytest
from session_samples import Desk, info, traced

from attnscope.records import Failed, OutputWritten, TraceText
from attnscope.viewmodels import ViewState
from attnscope.widgets import PlainLabel
from attnscope.widgets.explore import OutputPanel

pytestmark = pytest.mark.qt


class LateDesk(Desk):
    """A worker that shows maps first; `write` gives the text."""

    def answer_one(self, request):
        if not isinstance(request, TraceText):
            super().answer_one(request)
            return
        self.whole = traced(request, self.model)
        comparison = self.whole.comparison
        silent = [replace(output, generated="") for output in (comparison.before, comparison.after)]
        late = replace(comparison, before=silent[0], after=silent[1], is_writing=True)
        self.session.handle(replace(self.whole, comparison=late))

    def write(self, text):
        comparison = self.whole.comparison
        said = [replace(output, generated=text) for output in (comparison.before, comparison.after)]
        comparison = replace(comparison, before=said[0], after=said[1])
        self.session.handle(OutputWritten(number=self.whole.number, comparison=comparison))


def shown(panel):
    return panel.texts[0].accessibleDescription()


def test_that_the_old_text_stays_dimmed_until_the_new_one_is_written(qtbot):
    desk = LateDesk().open(info("decoder"))
    panel = OutputPanel(desk.session, ViewState())
    qtbot.addWidget(panel)
    assert shown(panel) == ""
    desk.write("le chat")
    assert shown(panel) == "le chat"
    desk.session.texts.set_text("another text")
    desk.answer()
    assert not desk.session.tracing.is_stale
    assert shown(panel) == "le chat"
    qtbot.waitUntil(lambda: panel.texts[0].is_stale, timeout=2000)
    desk.write("le chien")
    assert shown(panel) == "le chien"
    assert not panel.texts[0].is_stale


def test_that_what_comes_for_an_older_text_is_not_taken():
    desk = LateDesk().open(info("decoder"))
    older = desk.whole
    desk.session.texts.set_text("another text")
    desk.answer()
    desk.session.handle(OutputWritten(number=older.number, comparison=older.comparison))
    assert desk.session.traced.comparison.is_writing
    desk.told.clear()
    desk.write("le chien")
    assert desk.told == ["output"]
    assert desk.session.traced.comparison.after.generated == "le chien"


def test_that_maps_stay_when_writing_fails():
    desk = LateDesk().open(info("decoder"))
    number = desk.session.traced.number
    desk.session.handle(Failed(number=number, request="TraceText", message="There is not enough memory."))
    assert desk.session.traced.number == number
    assert not desk.session.traced.comparison.is_writing
    assert not desk.session.tracing.is_stale
    assert "memory" in desk.session.notices.shown.message


def test_that_a_text_without_a_token_to_fill_in_says_what_to_type(qtbot):
    class NothingToFill(Desk):
        def answer_one(self, request):
            if not isinstance(request, TraceText):
                super().answer_one(request)
                return
            whole = traced(request, self.model)
            said = replace(whole.comparison.before, kind="masked-token", predictions=())
            self.session.handle(
                replace(whole, comparison=replace(whole.comparison, before=said, after=said, kl_nats=()))
            )

    desk = NothingToFill().open(info("encoder"))
    panel = OutputPanel(desk.session, ViewState())
    qtbot.addWidget(panel)
    panel.show()
    assert panel.unwritten.isVisible()
    assert panel.unwritten.text().endswith("Type <mask>.")


def test_that_a_model_whose_heads_cannot_be_changed_writes_one_text(qtbot):
    desk = Desk().open(replace(info("encoder-decoder"), has_gates=False))
    panel = OutputPanel(desk.session, ViewState())
    qtbot.addWidget(panel)
    panel.show()

    def titles():
        labels = [label for label in panel.findChildren(PlainLabel) if label.isVisible()]
        return [label.text() for label in labels if label.text().startswith("translation")]

    assert titles() == ["translation", "translation"]  # what is told, and the text
    assert [text.isVisible() for text in panel.texts] == [True, False]
    assert (
        panel.table.accessibleName() == "Most probable tokens"
    )  # one column, as there is nothing to compare
    assert panel.kl.text() == ""
    desk.open(info("encoder-decoder"))
    assert panel.table.accessibleName() == "Most probable tokens: before and after"
    assert panel.kl.text().startswith("KL ")
    assert titles()[1:] == ["translation, all heads on", "translation, with your changes"]
    assert all(text.isVisible() for text in panel.texts)
