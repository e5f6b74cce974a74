"""A drawn mask belongs to the text that was typed, whatever other trace is shown for a while."""

from session_samples import Desk, traced

from attnscope.records import TraceText
from attnscope.viewmodels.session import MaskState


def test_that_a_written_text_of_another_length_leaves_the_mask_alone() -> None:
    desk = Desk().open()
    session, state = desk.session, MaskState(desk.session)
    state.edges.use("0 1")
    desk.answer()
    mask, n_steps = state.mask, session.history.n_done
    written = traced(TraceText(number=99, text="a text that goes on and on"), desk.model)
    session.tracing.show(written)
    assert session.traced is written
    assert state.mask == mask is not None
    assert session.history.n_done == n_steps
    assert session.notices.shown is None
