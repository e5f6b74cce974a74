"""A session that is shown a translation's maps as far as it is written."""

from dataclasses import replace

from session_samples import Desk, info, ref, states_of, traced

from attnscope.records import Failed, Traced, TraceText
from attnscope.viewmodels.maps import sides_of_site, with_room


class WritingDesk(Desk):
    """A worker that has written the first word; `finish` gives the whole."""

    def answer_one(self, request):
        if not isinstance(request, TraceText):
            super().answer_one(request)
            return
        self.request = request
        part = traced(replace(request, target="le"), self.model)
        written = replace(part.comparison, is_writing=True)
        self.session.handle(replace(part, measures=(), comparison=written, is_target_whole=False))

    def finish(self) -> Traced:
        whole = traced(self.request, self.model)
        self.session.handle(whole)
        return whole


def test_that_a_part_is_shown_undimmed_and_the_whole_takes_its_place():
    desk = WritingDesk().open(info("encoder-decoder"))
    session = desk.session
    assert session.traced.target.text == "le"
    assert session.tracing.is_stale  # nobody works out anything from a part
    assert session.tracing.is_growing  # and nothing is dimmed that is right
    assert session.tracing.is_waiting
    assert session.measures == ()
    whole = desk.finish()
    assert session.traced is whole
    assert not session.tracing.is_stale
    assert not session.tracing.is_growing


def test_that_the_rows_of_a_part_are_named_by_its_own_tokens():
    desk = WritingDesk().open(info("encoder-decoder"))
    desk.session.select_heads((ref(1, 0, "cross"),))
    desk.session.texts.set_text("another text")
    desk.answer()
    shown = desk.session.maps.of(ref(1, 0, "cross"))
    grid = next(grid for grid in desk.session.traced.grids if grid.site.stack == "cross")
    queries, keys = sides_of_site(grid.site, desk.session.traced)
    assert [token.piece for token in queries] == ["le", "</s>"]
    assert [token.piece for token in keys] == ["another", "text", "</s>"]
    assert shown.weights.shape == (grid.n_queries, grid.n_keys) == (2, 3)


def test_that_a_newer_text_dims_the_part_of_the_one_before():
    desk = WritingDesk().open(info("encoder-decoder"))
    first = desk.request
    desk.session.texts.set_text("another text")
    assert desk.session.tracing.is_stale
    assert not desk.session.tracing.is_growing
    shown = desk.session.traced
    desk.session.handle(traced(first, desk.model))  # comes too late
    assert desk.session.traced is shown


def test_that_writing_that_is_stopped_or_fails_leaves_the_part_and_says_so():
    desk = WritingDesk().open(info("encoder-decoder"))
    session = desk.session
    assert session.tracing.give_up() == session.traced.number
    assert session.notices.shown.message == "Tracing was stopped: the translation is not complete yet."
    assert session.tracing.is_stale
    session.tracing.again()
    desk.answer()
    session.handle(Failed(number=session.traced.number, request="TraceText", message="No memory."))
    assert session.notices.shown.message == "No memory."
    assert not session.tracing.is_waiting


def test_that_rows_to_come_are_drawn_as_no_data():
    desk = WritingDesk().open(info("encoder-decoder"))
    for grid in desk.session.traced.grids:
        n_queries, n_keys = grid.n_queries, grid.n_keys
        roomy = with_room(grid, 6, 5)
        stack = grid.site.stack
        assert roomy.n_queries == (n_queries if stack == "encoder" else 6)
        assert roomy.n_keys == (5 if stack == "decoder" else n_keys)
        assert roomy.levels.shape[1:] == (roomy.n_queries, roomy.n_keys)
        assert (roomy.levels[:, :n_queries, :n_keys] == grid.levels).all()
        assert not roomy.levels[:, n_queries:].any()
        assert not roomy.levels[:, :, n_keys:].any()
        assert with_room(grid, 1, 1) is grid  # nothing is ever taken away


def test_that_no_pass_begins_from_a_part():
    desk = WritingDesk().open(info("encoder-decoder"))
    session, post = desk.session, desk.posted.append
    states = states_of(session, worker=post)
    patching, alike = states.patching, states.alike
    patching.set_corrupt("a dog sleeps")
    assert not patching.is_runnable
    assert not alike.can_run
    desk.finish()
    assert patching.is_runnable
    assert alike.can_run
