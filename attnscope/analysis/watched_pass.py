"""Watches one pass: inputs and outputs of modules (`models/passes.py`), as float64.

What is watched is what the model itself computed, in its own precision.

How the parts of one layer join its stream, told by what the layer computed rather than by its kind.

Every norm inside a layer is known by what it read and gave. The norm that gave what a part reads is its norm;
one that reads what a part gave stands behind it (a sandwich, Gemma 2); one that reads the stream with that
added makes the layer post-norm. Which way is right is seen at the end: it leads to what left the layer.

| symbol | meaning                                   | shape         |
|--------|-------------------------------------------|---------------|
| x      | the stream that enters                    | [n_tokens, d] |
| s      | the stream with what was given added      | [n_tokens, d] |

Of a text that is read with something watching:

| symbol | meaning                                            | shape                          |
|--------|----------------------------------------------------|--------------------------------|
| stream | what a block reads; one more after the last block  | [n_blocks + 1, n_tokens, d]    |
| joined | head outputs side by side, of one site             | [n_tokens, n_heads · d_head]   |

Hooks live only while a `with` block lasts; no weight is touched.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnscope.analysis.batches import NOT_SCORED
from attnscope.analysis.model_adapter import OwnSubject, TensorGates, TokenBatch
from attnscope.errors import NotFiniteError, UserError
from attnscope.models import Inputs, Model
from attnscope.models.passes import CallPlace, hooked
from attnscope.nn import Call, Edits, Transformer, exact, scores_of
from attnscope.nn.block import one_stream
from attnscope.questions.question import Numbers, Order, PartPath
from attnscope.records.sites import SiteKey, Stack
from attnscope.records.tokens import Token


def read_text(model: Model, text: str, target: str | None = None) -> tuple[Inputs, TokenBatch]:
    """One text as tokens and as a batch of one in which nothing is scored."""
    inputs = model.encode(text, target)
    return inputs, batch_of(inputs, model.device)


def batch_of(inputs: Inputs, device: torch.device, n_copies: int = 1) -> TokenBatch:
    """Some copies of one text as a batch in which nothing is scored."""
    source = torch.tensor([inputs.patches or inputs.source.ids], device=device)
    ids = source.expand(n_copies, *source.shape[1:])
    target = None
    if inputs.target is not None:
        target = torch.tensor([inputs.target.ids], device=device).expand(n_copies, -1)
    segments = None
    if any(inputs.segments):
        segments = torch.tensor([inputs.segments], device=device).expand(n_copies, -1)
    n_told = len(predicting_tokens(inputs))
    labels = torch.full((n_copies, n_told), NOT_SCORED, device=device)
    return TokenBatch(ids=ids, labels=labels, target_ids=target, segments=segments)


def predicting_tokens(inputs: Inputs) -> tuple[Token, ...]:
    return inputs.source.tokens if inputs.target is None else inputs.target.tokens


def tokens_of_stack(inputs: Inputs, stack: Stack) -> tuple[Token, ...]:
    return (inputs.source if stack != "decoder" or inputs.target is None else inputs.target).tokens


@contextmanager
def watched_streams(subject: OwnSubject, stack: Stack) -> Iterator[list[Tensor]]:
    """A list that fills with the streams of a stack, [batch, n_tokens, d], as a pass goes on."""
    blocks = subject.blocks(stack)
    streams: list[Tensor] = []

    def before(block: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        streams.append(one_stream(block, arguments[0]).detach())

    def after(block: nn.Module, arguments: object, result: object) -> None:
        streams.append(one_stream(block, first_tensor(result)).detach())

    handles = [block.register_forward_pre_hook(before) for block in blocks]
    handles += [block.register_forward_hook(after) for block in blocks[-1:]]
    with hooked(handles):
        yield streams


@contextmanager
def watched_heads(subject: OwnSubject, sites: Iterable[SiteKey]) -> Iterator[dict[SiteKey, Tensor]]:
    """A table that fills with the joined head outputs of sites, [batch, n_tokens, H · D]."""
    joined: dict[SiteKey, Tensor] = {}

    def watch(site: SiteKey) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def before(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            joined[site] = arguments[0].detach()

        return before

    handles = [subject.projection(site).register_forward_pre_hook(watch(site)) for site in sites]
    with hooked(handles):
        yield joined


def first_tensor(result: object) -> Tensor:
    """The stream in a block's return value."""
    found = result[0] if isinstance(result, Sequence) else result
    if not isinstance(found, Tensor):
        raise TypeError(f"a block returned {type(found).__name__}")
    return found


class WatchedPass:
    """Inputs and outputs of modules in one pass, for the last text of the batch; float64 [n_tokens, n]."""

    def __init__(self) -> None:
        self.read_at: dict[CallPlace, Tensor] = {}
        self.given_at: dict[CallPlace, Tensor] = {}

    def read(self, place: CallPlace) -> Numbers:
        """Input of a module; raises UserError if the pass never reached it."""
        return self._of(self.read_at, place)

    def given(self, place: CallPlace) -> Numbers:
        return self._of(self.given_at, place)

    def is_read(self, place: CallPlace, x: Numbers) -> bool:
        """Whether a module read exactly this stream."""
        return place in self.read_at and np.array_equal(self.read(place), x)

    def _of(self, found: Mapping[CallPlace, Tensor], place: CallPlace) -> Numbers:
        if place not in found:
            raise UserError(
                f"A part of the model ({type(place.module).__name__}) was not used on this text.",
                expected="a model that uses each of its layers",
            )
        numbers: Numbers = exact(known_finite(found[place])).cpu().numpy()
        return numbers.reshape(-1, numbers.shape[-1])


@contextmanager
def watched(*, reads: Sequence[CallPlace] = (), gives: Sequence[CallPlace] = ()) -> Iterator[WatchedPass]:
    """Record the inputs and outputs of modules during the next pass."""
    seen = WatchedPass()
    with ExitStack() as stack:
        for module in dict.fromkeys(place.module for place in (*reads, *gives)):
            read = {place.call: place for place in reads if place.module is module}
            given = {place.call: place for place in gives if place.module is module}
            before, after = _hooks(seen, read, given)
            stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(after).remove)
        yield seen


def _hooks(
    seen: WatchedPass, read: Mapping[int, CallPlace], given: Mapping[int, CallPlace]
) -> tuple[Callable[..., None], Callable[..., None]]:
    calls: Counter[str] = Counter()

    def before(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        place = read.get(calls["read"])
        calls["read"] += 1
        if place is not None:
            stream = arguments[0] if arguments else named["hidden_states"]
            seen.read_at[place] = _last_text(one_stream(module, stream))

    def after(module: nn.Module, __: object, result: object) -> None:
        place = given.get(calls["given"])
        calls["given"] += 1
        if place is not None:
            seen.given_at[place] = _last_text(one_stream(module, first_tensor(result)))

    return before, after


def _last_text(x: Tensor) -> Tensor:
    """The last text of a batch; layers that flatten one text give its tokens row by row."""
    return (x if x.ndim < 3 else x[-1]).detach()


def row_by_row(seen: WatchedPass, place: CallPlace | None, n_tokens: int) -> Numbers | None:
    """Input of a module, if it has a row for each token."""
    found = None if place is None else seen.read(place)
    return found if found is not None and len(found) == n_tokens else None


@contextmanager
def norms_behind(
    seen: WatchedPass, places: Sequence[CallPlace], norms: Iterable[nn.Module]
) -> Iterator[dict[CallPlace, Tensor]]:
    """Table of the outputs of norms whose inputs are outputs of the given modules."""
    found: dict[CallPlace, Tensor] = {}

    def after(_: nn.Module, arguments: tuple[Any, ...], result: Tensor) -> None:
        for place in places:
            given = seen.given_at.get(place)
            if arguments and given is not None and given.data_ptr() == arguments[0].data_ptr():
                found[place] = _last_text(result)

    with ExitStack() as stack:
        for norm in norms:
            stack.callback(norm.register_forward_hook(after).remove)
        yield found


def is_norm_of(x: Numbers, read: Numbers, given: Numbers) -> bool:
    """Whether a norm is over rows such as those of x, and changes them."""
    return read.shape == given.shape == x.shape and not np.array_equal(read, given)


@contextmanager
def last_read(module: nn.Module | None) -> Iterator[list[Numbers]]:
    """List that receives a module's input, row by row."""
    kept: list[Numbers] = []

    def before(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        if arguments:
            kept.append(numbers_in(arguments[0].reshape(-1, arguments[0].shape[-1])))

    with nullcontext() if module is None else module.register_forward_pre_hook(before):
        yield kept


@contextmanager
def found_weights(module: Transformer) -> Iterator[list[Tensor]]:
    """List that receives the weights by which the next pass copies, [B, H, T, S]; empty without heads."""
    kept: list[Tensor] = []

    def after(_: nn.Module, __: object, choices: dict[str, Any], ___: object) -> None:
        kept.extend(choices["found"])

    with module.decoder[-1].get_submodule("cross").register_forward_hook(after, with_kwargs=True):
        yield kept


def numbers_of_text(tensor: Tensor) -> Numbers:
    """Values computed for one text, float64, without the batch axis."""
    numbers: Numbers = exact(known_finite(tensor.detach()))[0].cpu().numpy()
    return numbers


def numbers_in(tensor: Tensor) -> Numbers:
    """Learned or computed values, float64; −inf where a mask forbids a score."""
    numbers: Numbers = exact(tensor.detach()).cpu().numpy()
    return numbers


def known_finite(found: Tensor) -> Tensor:
    """Values computed by part of the model; raises NotFiniteError if any is NaN or infinite."""
    if bool(torch.isfinite(found).all()):
        return found
    raise NotFiniteError(
        "What the model computes on this text is not finite: parts of it are NaN or infinite.",
        expected="finite numbers",
        action="Its weights are damaged, or too large: attnscope info says which. Open it from an "
        "undamaged copy.",
    )


def routes_of(result: Any, n_tokens: int) -> tuple[Numbers, Numbers]:
    """Expert weights and p, both [n_tokens, n_experts], from the output of a library router.

    Most give logits, the weights of the k best and their numbers; Switch gives one-hot rows, of which those
    beyond an expert's capacity are 0, the weight, and logits.
    """
    first, second, third = result
    if third.is_floating_point():
        logits, weights = third, first.to(second.dtype) * second
    else:
        logits = first
        weights = torch.zeros_like(logits, dtype=second.dtype).scatter(-1, third, second)
    rows = [exact(one).reshape(-1, one.shape[-1])[-n_tokens:].cpu() for one in (weights, logits)]
    return known_finite(rows[0]).numpy(), known_finite(rows[1].softmax(dim=-1)).numpy()


@contextmanager
def routed(routers: Mapping[int, nn.Module]) -> Iterator[dict[int, Any]]:
    """Record the output of each router during the next pass; raises UserError for an unknown router."""
    seen: dict[int, Any] = {}

    def note(layer: int, module: nn.Module, result: Any) -> None:
        is_known = isinstance(result, tuple) and len(result) == 3
        if not is_known or not all(isinstance(one, Tensor) for one in result):
            raise UserError(
                f"How {type(module).__name__} chooses experts is not known.",
                expected="a router that gives its logits, weights and the chosen experts",
            )
        seen[layer] = tuple(one.detach() for one in result)

    with ExitStack() as stack:
        for layer, module in routers.items():
            hook = module.register_forward_hook(lambda part, _, out, at=layer: note(at, part, out))
            stack.callback(hook.remove)
        yield seen


Norm = tuple[Numbers, Numbers]
"""Input and output of a norm."""


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
    """One layer's stream, its norms, and the tolerance for equality."""

    def __init__(self, x: Numbers, norms: Sequence[Norm], tolerance: float) -> None:
        self._x, self._norms, self._tolerance = x, norms, tolerance
        self._sizes = np.linalg.norm(x, axis=-1)

    def apart(self, a: Numbers, b: Numbers) -> float:
        """Distance of two streams at the worst token, relative to the longer or to x."""
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


@dataclass(frozen=True, slots=True, eq=False)
class WatchedCall:
    """One attention call, for a batch of one; `out` is part of the graph."""

    call: Call
    lse: Tensor
    out: Tensor

    def weights(self) -> Tensor:
        """The weights, float64; raises NotFiniteError if they are not numbers."""
        call = self.call
        with torch.no_grad():
            s = scores_of(call.q.detach(), call.k.detach(), rule=call.rule, score=call.score)
            is_blind = self.lse[0, ..., None] == -torch.inf  # a row that sees no key
            return known_finite(exact((s - self.lse[..., None]).exp()[0].masked_fill(is_blind, 0.0)))

    def values(self) -> Tensor:
        """The values as each head reads them, float64."""
        v = self.call.v.detach()[0]
        return exact(v.repeat_interleave(self.out.shape[1] // len(v), dim=0))


class WatchedCalls(TensorGates):
    """Keeps every attention call, graph and all."""

    def __init__(self, gates: Mapping[SiteKey, Tensor], edits: Mapping[SiteKey, Edits] | None = None) -> None:
        super().__init__(gates, edits)
        self.seen: dict[SiteKey, WatchedCall] = {}

    def wants(self, site: SiteKey) -> bool:
        return True

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        # Where the model's weights are frozen, the graph begins here.
        self.seen[site] = WatchedCall(call, lse, out if out.requires_grad else out.requires_grad_())
