"""The page turns to Explore when a model is there, and stays where it cannot be opened."""

from session_samples import Desk

from attnscope.records import Failed
from attnscope.viewmodels import ViewState
from attnscope.viewmodels.session import open_and_explore


def test_that_a_model_that_cannot_be_opened_turns_no_page() -> None:
    desk, view = Desk().open(), ViewState()
    view.show_page("train")
    open_and_explore(desk.session, view, "/nowhere")
    desk.session.handle(
        Failed(number=desk.posted[-1].number, message="No.", request="LoadModel", crash_log="")
    )
    assert view.page == "train"
    desk.session.opening.load("other")
    desk.answer()
    assert view.page == "train"
    open_and_explore(desk.session, view, "tiny")
    assert view.page == "train"
    desk.answer()
    assert view.page == "explore"
