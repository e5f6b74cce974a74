"""The sentence whose attention is redrawn while a model learns, and its replay.

Time comes from a clock that is passed in.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal

from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.messages import TRAINING_MODEL, Failed, RunOpened, Traced, TraceText
from attnscope.records.outputs import OutputWritten
from attnscope.records.requests import Reply
from attnscope.records.runs import RunNews
from attnscope.records.sites import HeadRef, Stack, labelled_head
from attnscope.viewmodels.maps.aspect import PLAIN, labelled
from attnscope.viewmodels.query import Requests

Sentences = tuple[tuple[str, str | None], ...]
"""Texts with their targets, where they have one."""
LIVE_INTERVAL_S = 0.5
"""Shortest time between two looks at the model in training."""
PLAY_INTERVAL_S = 0.25
"""How long a checkpoint stays on screen while the replay plays."""
_LOST_AFTER_S = 30.0
_N_KEPT = 32
_AS_TELLING = 0.95
"""Heads that tell this share of what the most telling one does tell as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint on disk; without `has_model` the run's record of its watched sentences, in a file."""

    step: int
    folder: str
    has_model: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureWish:
    """One picture: the model, the text, the head, and its freshness (only for the live model)."""

    model: str = ""
    text: str = ""
    target: str | None = None
    head: HeadRef | None = None
    freshness: int = 0

    @property
    def subject(self) -> "PictureWish":
        return replace(self, freshness=0)


NO_PICTURE = PictureWish()
"""There is nothing to look at, or nothing was yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The pending picture, and its start; number 0: none."""

    number: int = 0
    wish: PictureWish = NO_PICTURE
    at: float = -math.inf


class KeptPictures:
    """The pictures of recently viewed checkpoints, for sliding back and forth."""

    def __init__(self) -> None:
        self._kept: OrderedDict[PictureWish, Traced] = OrderedDict()

    def find(self, wish: PictureWish) -> Traced | None:
        if wish in self._kept:
            self._kept.move_to_end(wish)
        return self._kept.get(wish)

    def keep(self, wish: PictureWish, traced: Traced) -> None:
        """Keep a picture, unless it is of the live model, which changes."""
        if wish.model != TRAINING_MODEL:
            self._kept[wish] = traced
            while len(self._kept) > _N_KEPT:
                self._kept.popitem(last=False)

    def take_output(self, reply: OutputWritten) -> None:
        """Accept the generated text that follows the maps."""
        for wish, traced in self._kept.items():
            if traced.number == reply.number:
                self._kept[wish] = replace(traced, comparison=reply.comparison)

    def drop(self, folder: str) -> None:
        """Drop the pictures of a checkpoint that was rewritten."""
        for wish in [wish for wish in self._kept if wish.model == folder]:
            del self._kept[wish]

    def clear(self) -> None:
        """Drop every picture: another run begins."""
        self._kept.clear()


class Replay:
    """The checkpoints at which a sentence can be viewed, and their slider; `place` None: live.

    `tell` is called when something has changed, `look` after it when the slider was moved.
    """

    def __init__(self, pictures: KeptPictures, tell: Callable[[], None], look: Callable[[], None]) -> None:
        self._pictures, self._tell, self._look = pictures, tell, look
        self._found: tuple[Checkpoint, ...] = ()
        self._sentences: Sentences = ()
        self.sentence: tuple[str, str | None] = ("", None)
        """What is looked at: a text, with its target where it has one."""
        self.place: int | None = None
        self.is_live = False
        self.is_playing = False
        self._follows_newest = True

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Checkpoints by step at which the sentence can be viewed; an unwatched text needs the models."""
        is_kept = self.sentence in self._sentences
        return tuple(found for found in self._found if found.has_model or is_kept)

    @property
    def n_places(self) -> int:
        """Number of slider positions: the checkpoints, and the live model if there is one."""
        return len(self.checkpoints) + self.is_live

    @property
    def slider_place(self) -> int:
        """Position of the slider; the live model is the last."""
        return max(0, self.n_places - 1) if self.place is None else self.place

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint under the slider, None if the live model is shown or there is none."""
        if self.place is None or not self.checkpoints:
            return None
        return self.checkpoints[min(self.place, len(self.checkpoints) - 1)]

    def read(self, text: str, target: str | None) -> None:
        """Watch another sentence; the slider stays at the checkpoint nearest to its position."""
        here = self.checkpoint
        self.sentence = (text, target)
        if here is not None:
            self.place = self._place_of(here.step)

    def go_to(self, place: int) -> None:
        """Move the slider: to a checkpoint, or the live model at its last position."""
        self.is_playing = False
        self._go_to(place)

    def go_to_step(self, step: float) -> None:
        """Move the slider to the checkpoint nearest to a step; no effect without one."""
        place = self._place_of(step)
        if place is not None:
            self.go_to(place)

    def play(self) -> None:
        """Play the checkpoints from the beginning (or from the slider), or pause."""
        self.is_playing = not self.is_playing and bool(self.checkpoints)
        if self.is_playing and self.slider_place >= len(self.checkpoints) - 1:
            self._go_to(0)
        self._tell()

    def go_on(self) -> None:
        """Play the next checkpoint; after the last one pause."""
        following = (self.place or 0) + 1
        if self.place is None or following >= len(self.checkpoints):
            self.is_playing = False
            self._tell()
        else:
            self._go_to(following)

    def keep(self, sentences: Sentences) -> None:
        """Set the sentences that the run watches: attention at steps without a model exists for these."""
        self._sentences = sentences

    def set_live(self, is_live: bool) -> None:
        """Set whether there is a model in training; when one appears it is shown."""
        if is_live and not self.is_live:
            self.place, self.is_playing = None, False
        self.is_live = is_live
        if not is_live and self.place is None and self.checkpoints:
            self.place = len(self.checkpoints) - 1
        self._tell()

    def add_checkpoint(self, step: int, folder: str, *, has_model: bool = True) -> None:
        """Add a saved checkpoint; one of the same step is replaced, unless it alone has a model.

        The slider stays where the user put it, and otherwise goes on to the newest.
        """
        self._add_checkpoint(step, folder, has_model=has_model)
        self._tell()

    def add_told(self, told: RunOpened | RunNews) -> None:
        """Add the run folder's checkpoints, and the records kept between them."""
        for step, folder in told.checkpoints:
            self._add_checkpoint(step, folder)
        for step, file in told.probes:
            self._add_checkpoint(step, file, has_model=False)
        self._tell()

    def forget_after(self, step: int) -> None:
        """Drop checkpoints after `step`, which a new attempt supersedes."""
        self._found = tuple(c for c in self._found if c.step <= step)
        if self.place is not None:
            self.place = min(self.place, len(self.checkpoints) - 1) if self.checkpoints else None
        self._tell()

    def clear(self) -> None:
        """Drop the previous run, with its pictures."""
        self._found, self._sentences, self.place, self.is_playing = (), (), None, False
        self._follows_newest = True
        self._pictures.clear()

    def _add_checkpoint(self, step: int, folder: str, *, has_model: bool = True) -> None:
        here = self.checkpoint
        if not has_model and any(c.step == step and c.has_model for c in self._found):
            return
        kept = [c for c in self._found if c.step != step and c.folder != folder]
        self._pictures.drop(folder)
        added = Checkpoint(step=step, folder=folder, has_model=has_model)
        self._found = tuple(sorted([*kept, added], key=lambda c: c.step))
        if here is not None and self._follows_newest and not self.is_live:
            self.place = len(self.checkpoints) - 1
        elif here is not None:
            self.place = next((i for i, c in enumerate(self.checkpoints) if c.step == here.step), None)

    def _go_to(self, place: int) -> None:
        place = max(0, min(place, self.n_places - 1))
        self._follows_newest = place >= self.n_places - 1
        self.place = place if place < len(self.checkpoints) else None
        self._tell()
        self._look()

    def _place_of(self, step: float) -> int | None:
        """Index of the checkpoint nearest to a step; None if there is none."""
        steps = [checkpoint.step for checkpoint in self.checkpoints]
        return min(range(len(steps)), key=lambda place: abs(steps[place] - step), default=None)


def _grids_of(traced: Traced | None, stack: Stack | None) -> tuple[SiteGrid, ...]:
    return tuple(grid for grid in traced.grids if grid.site.stack == stack) if traced else ()


def telling_stack(grids: Sequence[SiteGrid]) -> Stack | None:
    """The stack shown first: from decoder to encoder, else the first whose queries have a choice.

    A query that may see one key alone tells nothing: its weight is 1. None without grids.
    """
    stacks = [grid.site.stack for grid in grids]
    if "cross" in stacks:
        return "cross"
    chosen = (grid.site.stack for grid in grids if (np.count_nonzero(grid.levels, axis=-1) > 1).any())
    return next(chosen, stacks[0] if stacks else None)


def telling_head(grids: Sequence[SiteGrid]) -> HeadRef | None:
    """The head whose weights depend most on the query. None without heads.

    That is the mutual information of query and key, I = H(mean of the rows) − mean of H(row), every query as
    likely (Shannon 1948), of the thumbnails. Of heads that tell as much, the first of the latest layer.
    """
    told = [
        (grid.site.heads[k], _information(levels))
        for grid in reversed(grids)
        for k, levels in enumerate(grid.levels)
    ]
    most = max((bits for _, bits in told), default=0.0)
    return next((head for head, bits in told if bits >= _AS_TELLING * most), None)


def _information(levels: NDArray[np.uint8]) -> float:
    weights = np.maximum(levels.astype(np.float64) - 1.0, 0.0)
    sums = weights.sum(axis=1)
    rows = weights[sums > 0] / sums[sums > 0, None]
    return float(_entropy(rows.mean(axis=0)) - _entropy(rows).mean()) if len(rows) else 0.0


def _entropy(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    logs = np.log2(rows, out=np.zeros_like(rows), where=rows > 0)
    return np.asarray(-(rows * logs).sum(axis=-1))


class WatchState:
    """The sentence to watch, where (live or at a checkpoint), and its newest picture.

    At most one request is running; the live model is looked at when there is news, and no more often than
    every `LIVE_INTERVAL_S`. `replay` is where: the checkpoints and the slider over them.
    """

    changed = Signal()

    def __init__(
        self,
        requests: Requests,
        clock: Callable[[], float],
    ) -> None:
        self._requests = requests
        self._clock = clock
        self.head: HeadRef | None = None
        self.is_watched = True
        self.traced: Traced | None = None
        self.note = ""
        self._has_own_text = False
        self._suggested: Sentences = ()
        self._is_model_known = False
        self._is_opening = True
        self._first_head = ""
        self._freshness = 0
        self._shown = self._answered = NO_PICTURE
        self._answered_at = 0.0
        self._pending = _Asked()
        self._posted_at = -LIVE_INTERVAL_S
        self._pictures = KeptPictures()
        self.replay = Replay(self._pictures, self.changed.emit, self.pump)

    @property
    def text(self) -> str:
        """The sentence watched."""
        return self.replay.sentence[0]

    @property
    def target(self) -> str | None:
        """The second text, if there is one."""
        return self.replay.sentence[1]

    @property
    def stack(self) -> Stack | None:
        """The stack that is shown: the chosen head's."""
        return self.head.stack if self.head else None

    @property
    def is_stale(self) -> bool:
        """Whether the picture shown is not the one requested now."""
        wish = self._wish()
        return not wish.model or wish.subject != self._shown.subject

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks of the model shown, in its order."""
        sites = (grid.site for grid in self.traced.grids) if self.traced else ()
        return tuple(dict.fromkeys(site.stack for site in sites))

    @property
    def grids(self) -> tuple[SiteGrid, ...]:
        """The thumbnails of the chosen stack."""
        return _grids_of(self.traced, self.stack)

    @property
    def head_map(self) -> HeadMap | None:
        """The chosen head in full, None until received."""
        maps = self.traced.maps if self.traced else ()
        return next((labelled(m, PLAIN.rows) for m in maps if m.head == self.head), None)

    def suggest_text(self, sentences: Sentences) -> None:
        """Use the first sentence of a recipe, unless the user has typed one.

        A model that is looked at keeps the sentence of its own recipe until another run begins.
        """
        self._suggested = sentences[:1] or (("", None),)
        if not self.replay.is_live and not self.replay.checkpoints:
            self.take_suggestion()

    def open_on(self, head: str) -> None:
        """Select this head first, named as `cross:L1H0`, if the model of the run has it."""
        self._first_head = head

    def take_suggestion(self) -> None:
        """Watch the last suggestion, unless the user has typed a sentence: a run is about to begin."""
        if self._suggested and not self._has_own_text:
            self._set_texts(*self._suggested[0])

    def set_text(self, text: str) -> None:
        """Watch another sentence."""
        self._has_own_text = bool(text.strip())
        self._set_texts(text, self.target)

    def set_target(self, target: str | None) -> None:
        """Fix the second text; None or an empty one lets the model generate its own."""
        self._set_texts(self.text, target if target and target.strip() else None)

    def choose_stack(self, stack: Stack) -> None:
        """Show another stack, with its counterpart of the chosen head."""
        if stack == self.stack or stack not in self.stacks:
            return
        sites = [grid.site for grid in _grids_of(self.traced, stack)]
        layer = min(self.head.layer if self.head else 0, len(sites) - 1)
        head = min(self.head.head if self.head else 0, sites[layer].n_heads - 1)
        self.choose_head(HeadRef(stack=stack, layer=sites[layer].layer, head=head))

    def choose_head(self, head: HeadRef) -> None:
        """Show another head in full."""
        self.head, self._is_opening = head, False
        self.changed.emit()
        self.pump()

    def tick(self) -> None:
        """Continue the replay and request what is missing; called several times a second."""
        if self.replay.is_playing and not self._pending.number and self._wish() == self._answered:
            if self._clock() - self._answered_at >= PLAY_INTERVAL_S:
                self.replay.go_on()
        self.pump()

    def pump(self) -> None:
        """Request the picture wanted now, unless it is there, pending or too soon."""
        wish = self._wish()
        now = self._clock()
        if not wish.model or wish == self._answered or not self.is_watched:
            return
        kept = self._pictures.find(wish)
        if kept is not None:
            self._show(kept, wish)
            return
        if now - self._pending.at < _LOST_AFTER_S:
            return
        if wish.subject == self._answered.subject and now - self._posted_at < LIVE_INTERVAL_S:
            return
        heads = (wish.head,) if wish.head else ()
        number = self._requests.send(
            TraceText(text=wish.text, target=wish.target, heads=heads, model=wish.model)
        )
        self._pending, self._posted_at = _Asked(number=number, wish=wish, at=now), now

    def handle(self, reply: Reply) -> None:
        """Handle the reply to the pending request; ignore everything else."""
        if isinstance(reply, OutputWritten):
            self._take_output(reply)
        if not isinstance(reply, Traced | Failed) or not self._pending.number:
            return
        if reply.number != self._pending.number:
            return
        wish, self._pending = self._pending.wish, _Asked()
        if isinstance(reply, Failed):
            self._answered, self._answered_at, self.note = wish, self._clock(), reply.message
            self.changed.emit()
        else:
            self._pictures.keep(wish, reply)
            self._show(reply, wish)
        self.pump()

    def begin_run(self, *, is_live: bool) -> None:
        """Drop the previous run; the picture stays until a new one has come."""
        self.replay.clear()
        self._pending, self._shown, self._answered = _Asked(), NO_PICTURE, NO_PICTURE
        self.note, self._is_model_known, self._is_opening, self._first_head = "", False, True, ""
        self.replay.set_live(is_live)
        self.take_suggestion()

    def set_watched(self, is_watched: bool) -> None:
        """Set whether it is visible: nothing is requested while hidden."""
        self.is_watched = is_watched
        self.pump()

    def note_news(self) -> None:
        """Note that the live model has changed."""
        self._freshness += 1

    def _set_texts(self, text: str, target: str | None) -> None:
        if (text, target) != (self.text, self.target):
            self.replay.read(text, target)
            self.changed.emit()
            self.pump()

    def _wish(self) -> PictureWish:
        checkpoint = self.replay.checkpoint
        if not self.text.strip() or (checkpoint is None and not self.replay.is_live):
            return NO_PICTURE
        return PictureWish(
            model=checkpoint.folder if checkpoint is not None else TRAINING_MODEL,
            text=self.text,
            target=self.target,
            head=self.head if self._is_model_known else None,
            freshness=self._freshness if checkpoint is None else 0,
        )

    def _take_output(self, reply: OutputWritten) -> None:
        """Accept the generated text that follows the maps."""
        self._pictures.take_output(reply)
        if self.traced is not None and self.traced.number == reply.number:
            self.traced = replace(self.traced, comparison=reply.comparison)
            self.changed.emit()

    def _show(self, traced: Traced, wish: PictureWish) -> None:
        self.traced, self.note, self._is_model_known = traced, "", True
        self._shown = self._answered = wish
        self._answered_at = self._clock()
        known = {head for grid in traced.grids for head in grid.site.heads}
        is_kept = self._is_opening and wish.model != TRAINING_MODEL
        first = labelled_head(self._first_head, [grid.site for grid in traced.grids])
        if self._is_opening and first is not None:
            self.head = first
        elif is_kept or self.head not in known:
            grids = _grids_of(traced, telling_stack(traced.grids))
            last = next((grid.site.heads[0] for grid in reversed(grids)), None)
            self.head = telling_head(grids) if is_kept else last
        self._is_opening = False
        self.changed.emit()
