"""Small made-up replies that a session can be fed in tests: one model, one text, plausible numbers."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import numpy as np
from told import names_told

from attnscope.records import (
    Candidate,
    Comparison,
    Finding,
    Gates,
    HeadMap,
    HeadMeasures,
    HeadRef,
    HeadsShown,
    LoadModel,
    ModelInfo,
    ModelLoaded,
    OpenText,
    Output,
    Prediction,
    Question,
    Request,
    Sample,
    SelfCheck,
    ShowHeads,
    Site,
    SiteGrid,
    Stack,
    Token,
    Tokens,
    Traced,
    TraceText,
)
from attnscope.viewmodels import LabStates, Posts, Replies, Requests, States
from attnscope.viewmodels.session import Session
from attnscope.workers import Engine

SAMPLES = (Sample(text="the cat sleeps", hint="an easy one"), Sample(text="I love <b>you</b> & me"))


def ref(layer: int, head: int, stack: Stack = "encoder") -> HeadRef:
    return HeadRef(stack=stack, layer=layer, head=head)


def sites(stacks: tuple[Stack, ...] = ("encoder", "decoder", "cross")) -> tuple[Site, ...]:
    return tuple(Site(stack=s, layer=layer, n_heads=2, n_kv_heads=2) for s in stacks for layer in range(2))


def info(form: str = "encoder-decoder", name: str = "tiny") -> ModelInfo:
    stacks = {"encoder-decoder": ("encoder", "decoder", "cross")}.get(form, (form,))
    return ModelInfo(
        name=name, source=name, form=form, objective="translation", n_parameters=1234,
        max_tokens=16, vocab_size=20, tokenizer="words", device="cpu", sha256="ab" * 32,
        sites=sites(stacks), samples=SAMPLES,
    )  # fmt: skip


def tokens(text: str) -> Tokens:
    pieces = [Token(id=k + 5, piece=word) for k, word in enumerate(text.split())]
    return Tokens(text=text, tokens=(*pieces, Token(id=3, piece="</s>", is_special=True)))


def prediction(*pairs: tuple[int, float], context: str = "after “the”") -> Prediction:
    candidates = tuple(Candidate(token=Token(id=i, piece=f"w{i}"), probability=p) for i, p in pairs)
    return Prediction(position=0, context=context, candidates=candidates)


def head_map(head: HeadRef, queries: Tokens, keys: Tokens) -> HeadMap:
    weights = np.full((len(queries), len(keys)), 1.0 / max(len(keys), 1), dtype=np.float32)
    return HeadMap(head=head, queries=queries.tokens, keys=keys.tokens, weights=weights)


def traced(request: TraceText, model: ModelInfo, *, n_unknown: int = 0, is_good: bool = True) -> Traced:
    source = tokens(request.text)
    source = Tokens(text=source.text, tokens=source.tokens, n_unknown=n_unknown)
    target = tokens(request.target or "le chat dort") if model.takes_target else None
    grids = []
    for site in model.sites:
        queries, keys = _texts(site.stack, source, target)
        levels = np.full((site.n_heads, len(queries), len(keys)), 200, dtype=np.uint8)
        peaks = np.full(site.n_heads, 0.5)
        grids.append(
            SiteGrid(site=site, n_queries=len(queries), n_keys=len(keys), levels=levels, peaks=peaks)
        )
    kind = "translation" if model.takes_target else "next-token"
    before = Output(kind=kind, predictions=(prediction((1, 0.9), (2, 0.1)),) * 2, generated="le chat dort")
    text_after = "le chien dort" if request.gates else "le chat dort"
    after = Output(kind=kind, predictions=(prediction((2, 0.7), (4, 0.2)),) * 2, generated=text_after)
    return Traced(
        number=request.number, model=request.model, text=request.text, source=source, target=target,
        gates=request.gates, grids=tuple(grids), measures=measures(model),
        maps=tuple(head_map(h, *_texts(h.stack, source, target)) for h in request.heads),
        comparison=Comparison(before=before, after=after, kl_nats=(0.25, 0.0)),
        check=SelfCheck(row_sum_error=1e-7, forbidden_weight=0, output_error=4e-8, is_evaluation_mode=is_good),  # noqa: E501
        duration_ms=12.0, interventions=request.interventions,
    )  # fmt: skip


def measures(model: ModelInfo) -> tuple[HeadMeasures, ...]:
    return tuple(
        HeadMeasures(
            head=h, entropy=0.5, distance=1.5, confidence=0.5 + 0.1 * h.head + 0.2 * h.layer,
            previous=0.1, first=0.05, diagonal=float("nan") if h.stack == "cross" else 0.2,
        )
        for site in model.sites
        for h in site.heads
    )  # fmt: skip


def _texts(stack: Stack, source: Tokens, target: Tokens | None) -> tuple[Tokens, Tokens]:
    if target is None or stack == "encoder":
        return source, source
    return (target, target) if stack == "decoder" else (target, source)


class Desk:
    """A session whose requests lie in `posted` until `answer` plays the worker."""

    def __init__(self) -> None:
        self.posted: list[Request] = []
        self.session = Session(Requests(self.posted.append))
        self.told = names_told(self.session.changed)
        self.model = info()

    def open(self, model: ModelInfo | None = None) -> "Desk":
        self.model = model or self.model
        self.session.opening.load(self.model.source)
        self.answer()
        self.told.clear()
        return self

    def answer(self) -> None:
        while self.posted:
            self.answer_one(self.posted.pop(0))

    def answer_one(self, request: Request) -> None:
        match request:
            case LoadModel():
                self.session.handle(ModelLoaded(number=request.number, info=self.model))
            case TraceText():
                self.session.handle(traced(request, self.model))
            case OpenText() if request.tokens:
                for reply in Engine(lambda error, what: None).handle(request):
                    self.session.handle(reply)
            case ShowHeads():
                trace = self.session.traced
                assert trace is not None
                maps = tuple(head_map(h, *_texts(h.stack, trace.source, trace.target)) for h in request.heads)
                self.session.handle(HeadsShown(number=request.number, model=request.model, maps=maps))

    def traces(self) -> list[TraceText]:
        return [r for r in self.posted if isinstance(r, TraceText)]


def states_of(session: Session, **posts: Callable[[Request], None]) -> States:
    """Every other state of a window around a session; nobody answers them but where `posts` lead."""
    return States(session, Replies(Posts(**posts)))


def state_of(
    name: str,
    post: Callable[[Request], object],
    *,
    cancel: Callable[[int], object] = lambda number: None,
    session: Session | None = None,
    read_kept: Callable[[], Mapping[Question, Finding]] = dict,
) -> Any:
    """One of the states of a window, by its name there; what any of them asks goes to `post`."""
    posts = Posts(worker=post, tiles=post, downloads=post, cancel=cancel)
    return attrgetter(name)(States(session or Desk().session, Replies(posts), read_kept=read_kept))


def gates_off(*heads: HeadRef) -> Gates:
    return Gates.of(dict.fromkeys(heads, 0.0))


def lab_states(session: Session | None = None) -> LabStates:
    """The states of the labs; nobody answers them."""
    return states_of(session or Desk().session).labs
