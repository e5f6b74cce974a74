"""How the parts of one layer join its stream, told by what the layer computed rather than by its kind.

Every norm inside a layer is known by what it read and gave. The norm that gave what a part reads is its norm;
one that reads what a part gave stands behind it (a sandwich, Gemma 2); one that reads the stream with that
added makes the layer post-norm. Which way is right is seen at the end: it leads to what left the layer.

| symbol | meaning                                   | shape         |
|--------|-------------------------------------------|---------------|
| x      | the stream that enters                    | [n_tokens, d] |
| s      | the stream with what was given added      | [n_tokens, d] |
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnscope.questions.question import Numbers, Order, PartPath

Norm = tuple[Numbers, Numbers]
"""What a norm read and what it gave."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined:
    """The parts of a layer with their norms, and how they follow each other; see `Passage`."""

    parts: tuple[PartPath, ...]
    order: Order
    adds_up: bool


def joined_parts(
    x: Numbers, after: Numbers, parts: Sequence[PartPath], norms: Sequence[Norm], tolerance: float
) -> Joined:
    """The parts of a layer in their order; sums may lie `tolerance` apart, as a share of their length."""
    way = _Way(x, norms, tolerance)
    before = way.with_norms_before(parts)
    if way.is_same(before.end, after):
        return Joined(parts=before.parts, order=before.order, adds_up=True)
    behind = way.with_norms_behind(parts)
    if behind is not None and way.is_same(behind.end, after):
        return Joined(parts=behind.parts, order=behind.order, adds_up=True)
    return Joined(parts=before.parts, order=before.order, adds_up=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Walked:
    parts: tuple[PartPath, ...]
    order: Order
    end: Numbers


class _Way:
    """One layer's stream, its norms, and what counts as the same."""

    def __init__(self, x: Numbers, norms: Sequence[Norm], tolerance: float) -> None:
        self._x, self._norms, self._tolerance = x, norms, tolerance
        self._sizes = np.linalg.norm(x, axis=-1)

    def apart(self, a: Numbers, b: Numbers) -> float:
        """How far two streams lie apart at the worst token, as a share of the longer or of x."""
        if a.shape != b.shape:
            return np.inf
        sizes = np.maximum(np.linalg.norm(a, axis=-1), np.linalg.norm(b, axis=-1))
        sizes = np.maximum(np.maximum(sizes, self._sizes), np.finfo(float).tiny)
        return float((np.linalg.norm(a - b, axis=-1) / sizes).max(initial=0.0))

    def is_same(self, a: Numbers, b: Numbers) -> bool:
        """Whether two streams are one, but for the rounding of the model's own precision."""
        return self.apart(a, b) <= self._tolerance

    def with_norms_before(self, parts: Sequence[PartPath]) -> _Walked:
        """Each part is added to the stream, and reads it, or the one that entered, through a norm or not."""
        stream, found, of_entered = self._x, list[PartPath](), list[bool]()
        for part in parts:
            known = self._with_own_norms(part)
            base = self._base(known)
            apart = [np.inf if base is None else self.apart(base, one) for one in (self._x, stream)]
            of_entered.append(apart[0] < apart[1] and apart[0] <= self._tolerance)
            found.append(known)
            stream = stream + known.added
        is_parallel = len(parts) > 1 and all(of_entered[1:])
        return _Walked(parts=tuple(found), order="parallel" if is_parallel else "in turn", end=stream)

    def with_norms_behind(self, parts: Sequence[PartPath]) -> _Walked | None:
        """Each part reads the stream itself, and a norm follows each sum; None where there is none."""
        stream, found = self._x, list[PartPath]()
        for part in parts:
            total = stream + part.gives
            norm = self._norm_that_read(total)
            if norm is None or part.reads is None or not self.is_same(part.reads, stream):
                return None
            stream = norm[1]
            found.append(replace(part, after=stream))
        return _Walked(parts=tuple(found), order="in turn", end=stream)

    def _with_own_norms(self, part: PartPath) -> PartPath:
        """A part with the norm in front of it and the one behind it, where there are some."""
        is_normed = part.reads is not None and self._norm_that_gave(part.reads) is not None
        behind = self._norm_that_read(part.gives)
        return replace(part, is_normed=is_normed, end=None if behind is None else behind[1])

    def _base(self, part: PartPath) -> Numbers | None:
        """The stream that a part reads, or that its norm reads."""
        if part.reads is None or not part.is_normed:
            return part.reads
        norm = self._norm_that_gave(part.reads)
        return None if norm is None else norm[0]

    def _norm_that_gave(self, given: Numbers) -> Norm | None:
        return self._nearest([self.apart(norm[1], given) for norm in self._norms])

    def _norm_that_read(self, read: Numbers) -> Norm | None:
        return self._nearest([self.apart(norm[0], read) for norm in self._norms])

    def _nearest(self, apart: list[float]) -> Norm | None:
        if not apart or min(apart) > self._tolerance:
            return None
        return self._norms[apart.index(min(apart))]
