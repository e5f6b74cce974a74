"""Every state behind the window, who asks whom, and the way of each reply back to who asked."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from attnscope.records.experiments import Finding, Question
from attnscope.records.messages import ModelLoaded, Ready
from attnscope.records.requests import Reply, Request
from attnscope.viewmodels.asking import AskState
from attnscope.viewmodels.causes.across_layers import AcrossState, GraphState
from attnscope.viewmodels.causes.attribution_and_patching import AttributingState, PatchingState
from attnscope.viewmodels.causes.inside import InsideState
from attnscope.viewmodels.causes.layer_lens import LensState
from attnscope.viewmodels.compare.state import CompareState
from attnscope.viewmodels.generation import GenerationState
from attnscope.viewmodels.heads.alike import AlikeState
from attnscope.viewmodels.heads.head_weights import WeightsState
from attnscope.viewmodels.heads.marks import AligningState, TintState
from attnscope.viewmodels.heads.pruning import CurvesState, PruningState
from attnscope.viewmodels.heads.state import HeadsState
from attnscope.viewmodels.labs.experiments import ExperimentsState, LabStates
from attnscope.viewmodels.labs.tokenizers import MergesState, TokenizersState, VocabularyState
from attnscope.viewmodels.maps.map_tiles import MapTiles
from attnscope.viewmodels.maps.picturing import PictureState
from attnscope.viewmodels.positions import PositionsState
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.shelf import ShelfState
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.sweeping import SweepState

Post = Callable[[Request], None]


def _nowhere(_request: object) -> None:
    """For states that nobody answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posts:
    """Where requests go: to the worker, beside it to who has the traces, or to who downloads.

    `cancel` gives a request of the worker up, by its number.
    """

    worker: Post = _nowhere
    tiles: Post = _nowhere
    downloads: Post = _nowhere
    cancel: Callable[[int], None] = _nowhere


NOBODY = Posts()
"""Where no request is answered."""

# Handing every reply of the worker to the part of the window that asked, and to nobody else.

MOST_PARTS = 64


class Part(Protocol):
    """A part of the window that asks."""

    def handle(self, reply: Reply) -> object: ...


PartT = TypeVar("PartT", bound=Part)


class Replies:
    """Part k of n asks under the numbers k, k + n, k + 2n …, so that a reply's number tells whose it is.

    What nobody asked for, under number 0, goes to the part that joined first.
    """

    def __init__(self, posts: Posts = NOBODY) -> None:
        self.posts = posts
        self._parts: list[Part] = []
        self._heard: dict[type[Reply], list[Part]] = defaultdict(list)

    def join(self, make: Callable[[Requests], PartT], *hears: type[Reply], post: Post | None = None) -> PartT:
        """Make a part that asks the worker, or whom `post` leads to, under numbers of its own.

        It also gets every reply of the kinds that it `hears`.
        """
        place = len(self._parts)
        if place == MOST_PARTS:
            raise RuntimeError(f"at most {MOST_PARTS} parts")
        first, posts = place or MOST_PARTS, self.posts
        part = make(Requests(post or posts.worker, posts.cancel, first=first, step=MOST_PARTS))
        self._parts.append(part)
        for kind in hears:
            self._heard[kind].append(part)
        return part

    def deliver(self, reply: Reply) -> None:
        """Hand a reply to who asked, then to who hears of such replies."""
        place = reply.number % MOST_PARTS
        owner = self._parts[place] if place < len(self._parts) else None
        if owner is not None:
            owner.handle(reply)
        for part in self._heard.get(type(reply), ()):
            if part is not owner:
                part.handle(reply)


class States:
    """All but the session are made here, each with numbers of its own.

    `read_kept` reads what came with the program of the experiments of labs.
    """

    def __init__(
        self,
        session: Session,
        replies: Replies,
        *,
        read_kept: Callable[[], Mapping[Question, Finding]] = dict,
    ) -> None:
        join = replies.join
        self.session = session
        self.map_tiles = join(MapTiles, post=replies.posts.tiles)
        self.training = join(TrainingState, Ready)
        self.sweep = SweepState(self.training)
        self.positions = join(PositionsState, ModelLoaded)
        self.pruning = join(PruningState)
        self.heads = join(partial(HeadsState, session), ModelLoaded)
        self.tints = TintState(session, self.heads)
        self.compare = join(partial(CompareState, session))
        self.generation = join(partial(GenerationState, session))
        self.lens = join(partial(LensState, session))
        self.inside = join(partial(InsideState, session))
        self.picturing = join(partial(PictureState, session))
        self.aligning = join(partial(AligningState, session))
        self.across = join(partial(AcrossState, session))
        self.graph = join(partial(GraphState, session, self.across))
        self.attributing = join(partial(AttributingState, session, self.across))
        self.patching = join(partial(PatchingState, session, self.across), ModelLoaded)
        self.asking = join(partial(AskState, session))
        self.curves = join(partial(CurvesState, session), ModelLoaded)
        self.curves.changed.importance.connect(self._rank_heads, max_args=0)
        self.alike = join(partial(AlikeState, session), ModelLoaded)
        self.weights = join(partial(WeightsState, session), ModelLoaded)
        self.labs = LabStates(
            experiments=join(partial(ExperimentsState, session, read_kept=read_kept), ModelLoaded),
            merges=join(MergesState, ModelLoaded),
            tokenizers=join(TokenizersState, ModelLoaded),
            vocabulary=join(VocabularyState, ModelLoaded),
        )
        self.shelf = join(ShelfState, post=replies.posts.downloads)

    def _rank_heads(self) -> None:
        """The table of heads shows what the pruning curves have found."""
        self.heads.rank(self.curves.importances)
