"""Made-up written texts, and a GenerationState whose requests lie in `posted`."""

from session_samples import Desk, info, ref, state_of, tokens, traced
from told import names_told

from attnscope.records import (
    WRITTEN_TRACE,
    BeamNode,
    BeamTree,
    Candidate,
    Request,
    TextWritten,
    Token,
    Tokens,
    Traced,
    TraceText,
    WriteSettings,
    WriteText,
    WritingNews,
    WrittenText,
    WrittenToken,
)

WORDS = ("on", "the", "mat")


def written_tokens(n_prompt: int, words: tuple[str, ...] = WORDS) -> tuple[WrittenToken, ...]:
    return tuple(
        WrittenToken(
            token=Token(id=30 + k, piece=word),
            position=n_prompt - 1 + k,
            probability=0.9 - 0.3 * k,
            chance=1.0,
            alternatives=tuple(
                Candidate(token=Token(id=30 + k + 7 * j, piece=f"{word}{j or ''}"), probability=0.6 / (j + 1))
                for j in range(8)
            ),
        )
        for k, word in enumerate(words)
    )


def tree() -> BeamTree:
    def node(parent: int | None, depth: int, piece: str, total: float, state: str) -> BeamNode:
        return BeamNode(
            parent=parent, depth=depth, token=Token(id=ord(piece[0]), piece=piece), log_probability=-0.5,
            total=total, score=total / ((5 + depth) / 6) ** 0.6, state=state,
        )  # fmt: skip

    nodes = (
        node(None, 1, "on", -0.5, "kept"),
        node(None, 1, "in", -0.9, "kept"),
        node(None, 1, "at", -2.0, "dropped"),
        node(0, 2, "the", -1.0, "kept"),
        node(1, 2, "a", -1.4, "kept"),
        node(0, 2, "</s>", -1.6, "finished"),
        node(3, 3, "mat", -1.5, "kept"),
    )
    return BeamTree(nodes=nodes, best=6, n_beams=2, length_penalty=0.6)


class WritingDesk:
    """A session on a decoder and a GenerationState; `answer` plays the worker for a WriteText."""

    def __init__(self, form: str = "decoder") -> None:
        self.desk = Desk().open(info(form))
        self.session = self.desk.session
        self.session.texts.set_text("the cat sat")
        self.desk.answer()
        self.posted: list[Request] = []
        self.cancelled: list[int] = []
        self.state = state_of(
            "generation", self.posted.append, cancel=self.cancelled.append, session=self.session
        )
        self.told = names_told(self.state.changed)

    def request(self) -> WriteText:
        request = self.posted[-1]
        assert isinstance(request, WriteText)
        return request

    def tell_news(self, n_tokens: int = 1) -> None:
        request = self.request()
        tokens = written_tokens(4)[:n_tokens]
        whole = " ".join((request.text, *WORDS[:n_tokens]))
        self.state.handle(WritingNews(number=request.number, tokens=tokens, whole=whole, n_most=50))

    def answer(self) -> None:
        request = self.request()
        self.state.handle(self.written_trace(request))
        self.state.handle(
            TextWritten(number=request.number, written=self.written(request), gates=request.gates)
        )

    def written(self, request: WriteText) -> WrittenText:
        source = self.source(request)
        return WrittenText(
            settings=request.settings, text=" ".join(WORDS), whole=source.text, source=source, target=None,
            tokens=written_tokens(4), has_ended=False, log_probability=-1.5,
            tree=tree() if request.settings.mode == "beams" else None,
        )  # fmt: skip

    def source(self, request: WriteText) -> Tokens:
        return tokens(" ".join((request.text, *WORDS)))

    def written_trace(self, request: WriteText) -> Traced:
        text = " ".join((request.text, *WORDS))
        wish = TraceText(
            number=request.number, text=text, gates=request.gates, heads=request.heads, model=WRITTEN_TRACE
        )
        return traced(wish, self.desk.model)

    def write(self, settings: WriteSettings | None = None) -> "WritingDesk":
        self.state.set_settings(settings or WriteSettings())
        self.state.write()
        self.answer()
        self.told.clear()
        return self


HEAD = ref(0, 1, "decoder")
