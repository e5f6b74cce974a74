"""A session that is shown the layers of a long text as they come."""

from dataclasses import replace

from long_fakes import HEAD, long_map
from session_samples import Desk, info, traced

from attnscope.records import Failed, Progress, TraceText
from attnscope.viewmodels import Requests, WorkState, watch_session
from attnscope.viewmodels.maps import MapTiles


class SlowDesk(Desk):
    """A worker that has come to the first layer; `finish` gives the whole trace."""

    def answer_one(self, request):
        if not isinstance(request, TraceText):
            super().answer_one(request)
            return
        self.request = request
        told = Progress(number=request.number, what="layer 1 of 6, about 8 s left", fraction=1 / 6)
        self.session.handle(told)
        self.session.handle(replace(self.whole(), known=frozenset({("encoder", 0)}), measures=()))

    def whole(self):
        return traced(self.request, self.model)


def test_that_known_layers_are_shown_while_the_rest_is_waited_for():
    desk = SlowDesk()
    work = WorkState()
    cancelled = []
    watch_session(work, desk.session, cancelled.append)
    desk.open(info("encoder-decoder"))
    session = desk.session
    assert session.traced.known == {("encoder", 0)}
    assert session.tracing.is_stale  # nobody works out anything from a part
    assert session.tracing.is_growing  # and nothing is dimmed that is right
    assert session.tracing.is_waiting
    assert work.summary == "Tracing the text 17 % · layer 1 of 6, about 8 s left"
    session.handle(desk.whole())
    assert session.traced.known is None
    assert not session.tracing.is_stale
    assert not session.tracing.is_growing
    assert work.jobs == ()


def test_that_a_pass_stopped_in_its_middle_leaves_what_is_known_and_says_so():
    desk = SlowDesk().open(info("encoder-decoder"))
    session = desk.session
    number = session.tracing.give_up()
    assert number == session.traced.number
    assert "only 1 of 6 layers are known" in session.notices.shown.message
    assert not session.tracing.is_waiting
    assert session.tracing.is_stale
    session.tracing.again()
    desk.answer()
    session.handle(desk.whole())
    assert session.traced.known is None


def test_that_a_newer_text_dims_the_layers_of_the_one_before():
    desk = SlowDesk().open(info("encoder-decoder"))
    desk.session.texts.set_text("another text")
    assert not desk.session.tracing.is_growing
    assert desk.session.tracing.progress is None


def test_that_a_pass_that_fails_after_some_layers_is_told():
    desk = SlowDesk().open(info("encoder-decoder"))
    number = desk.session.traced.number
    desk.session.handle(Failed(number=number, request="TraceText", message="There is not enough memory."))
    assert "memory" in desk.session.notices.shown.message
    assert not desk.session.tracing.is_waiting


def test_that_no_tile_is_asked_for_before_its_layer_is_known():
    posted = []
    tiles = MapTiles(Requests(posted.append))
    tiles.show(replace(long_map(), is_known=False))
    tiles.zoom(2.0, 10.0, 10.0)
    assert posted == []
    tiles.lines.show((replace(long_map(), is_known=False),))
    assert posted == []
    tiles.show(long_map())
    assert {request.slot for request in posted} == {"overview", "view"}
    assert {request.head for request in posted} == {HEAD}
    tiles.lines.show((long_map(),))
    assert len(posted) == 3


def test_that_the_window_is_told_of_a_keystroke_before_the_worker_is_asked():
    desk = Desk().open(info("decoder"))
    posted = []
    desk.session.changed.connect(lambda told: posted.append((told.signal.name, len(desk.posted))))
    desk.session.texts.set_text("another text")
    assert [name for name, _ in posted] == ["text", "history", "stale"]
    assert {n for _, n in posted} == {0}  # it holds the interpreter as soon as it is
    assert isinstance(desk.posted[0], TraceText)
