"""Finds the site of a recorded call, its stack and layer, from its queries and keys.

Recorded calls are of one text, or of two. Queries on keys of the same text are self-attention, of the encoder
or, where causal or of the second text, of the decoder; of the second text on the first they are cross
attention. Layers count the calls of a stack.

Heads that stand where rows or queries do, read off the modules around a call.

Heads folded into the batch axis: attention on [batch · n_heads, n_queries, n_keys], as diffusers, fairseq and
einops' `(b h) n d` write it. Three axes may as well be a batch of one head, so that the number of heads is
read off the module, and off the batch of what the modules around the call were given. Where these disagree,
or neither says anything, a user has to tell it: nothing is guessed. Heads stand innermost: row b, head h is
at b · n_heads + h.

Heads that share keys and values (Ainslie et al. 2023), as modules of the transformers library call them: they
say so as `num_key_value_groups`, repeat the keys for each head, and for one query lay the heads of a group
where queries stand (`pack_gqa`, transformers 5.23, `integrations/sdpa_attention.py`).

Heads elsewhere than just before the queries: a softmax over [batch, n_queries, n_heads, n_keys] (einsum's
`bqhk`), and five axes or more, among them heads in groups ([batch, n_kv_heads, n_groups, n_queries, n_keys])
and windows ([batch, n_heads, n_windows, …]), which are rows of the batch.

| symbol | meaning                          | shape                                          |
|--------|----------------------------------|------------------------------------------------|
| packed | one query of all heads           | [batch, n_heads / n_groups, n_groups, d_head]  |
| k      | keys, maybe repeated by groups   | [1, n_heads, n_keys, d_head]                   |
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.records.sites import Site, SiteKey, Stack
from attnscope.trace.record import SiteRecord

_NAMES = ("heads", "num_heads", "n_heads", "n_head", "nhead", "nheads", "num_attention_heads")
_PRODUCT_ARGUMENTS = ("query", "key", "value", "attn_mask")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A running module, the shape of each tensor argument, and whether it holds integers."""

    module: nn.Module
    shapes: tuple[tuple[torch.Size, bool], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """`n_rows` texts of `n_heads` heads each share one axis."""

    n_rows: int
    n_heads: int

    @property
    def note(self) -> str:
        """Note on how the axis was read; empty if there is only one way."""
        if self.n_rows == 1 or self.n_heads == 1:
            return ""
        return (
            f"An axis of {self.n_rows * self.n_heads} was read as {self.n_rows} batch rows of "
            f"{self.n_heads} heads each, row by row."
        )

    def unfolded(self, tensor: Tensor) -> Tensor:
        """[n_rows, n_heads, …] of [n_rows · n_heads, …]; one for all rows, or for all heads, is kept."""
        if tensor.ndim != 3:
            return tensor
        if tensor.shape[0] == self.n_rows * self.n_heads:
            return tensor.reshape(self.n_rows, self.n_heads, *tensor.shape[1:])
        return tensor.unsqueeze(1)

    def product(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `scaled_dot_product_attention` with an axis of heads."""
        return _changed(args, named, lambda _, tensor: self.unfolded(tensor))


def _changed(
    args: Sequence[Any], named: Mapping[str, Any], change: Callable[[str, Tensor], Tensor]
) -> dict[str, Any]:
    """The arguments of `scaled_dot_product_attention` by name, with each tensor changed."""
    given = {**dict(zip((*_PRODUCT_ARGUMENTS, "dropout_p", "is_causal"), args, strict=False)), **named}
    tensors = {name: given[name] for name in _PRODUCT_ARGUMENTS if isinstance(given.get(name), Tensor)}
    return {**given, **{name: change(name, tensor) for name, tensor in tensors.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadAxes:
    """Of axes before the last two, the heads are those from `first` to before `end`; the others are rows."""

    first: int
    end: int

    def arranged(self, tensor: Tensor, lead: Sequence[int], *, is_mask: bool = False) -> Tensor:
        """A tensor with its heads on one axis, just before the last two; `lead` are the axes of the call.

        Keys that the heads of a group share stay one for the group.
        """
        if tensor.ndim <= 2:
            return tensor
        whole = tensor[(None,) * (len(lead) + 2 - tensor.ndim)]
        inner = whole.shape[self.first : self.end]
        n_own = max((place for place, size in enumerate(inner, 1) if size > 1), default=0)
        if inner[:n_own] != tuple(lead[self.first : self.first + n_own]) or (is_mask and n_own):
            sizes = [-1] * whole.ndim
            sizes[self.first : self.end] = lead[self.first : self.end]
            whole = whole.expand(sizes)
        n_axes = self.end - self.first
        places = tuple(range(self.first, self.end)), tuple(range(-2 - n_axes, -2))
        return whole.movedim(*places).flatten(-2 - n_axes, -3)

    def product(self, args: Sequence[Any], named: Mapping[str, Any], lead: Sequence[int]) -> dict[str, Any]:
        """The arguments of `scaled_dot_product_attention` with heads on one axis."""
        return _changed(args, named, lambda name, x: self.arranged(x, lead, is_mask=name == "attn_mask"))


def find_head_axes(shape: Sequence[int], told: int | None, around: Sequence[Entered]) -> HeadAxes | None:
    """The head axes in [batch, …, n_queries, n_keys] of five axes or more; None: the third from last.

    Raises UserError where that contradicts what the modules around the call were given.
    """
    lead = tuple(shape[:-2])
    runs = {(i, j): math.prod(lead[i:j]) for i in range(1, len(lead)) for j in range(i + 1, len(lead) + 1)}
    asked = [told] if told is not None else []
    asked += [n for entered in reversed(around) for n in _own_heads(entered.module, math.prod(lead))]
    for n_heads in asked:
        fitting = [run for run, n in runs.items() if n == n_heads]
        if fitting:
            first, end = max(fitting, key=lambda run: (run[1], run[0]))
            return None if (first, end) == (len(lead) - 1, len(lead)) else HeadAxes(first=first, end=end)
    n_rows = math.prod(lead[:-1])
    batches = [_batches(entered, {*shape[-2:]}) for entered in around]
    found: set[int] = next((batch for batch in batches if batch), set())
    if n_rows == 1 or not found or n_rows in found:
        return None
    raise UserError(
        f"An attention call has {len(shape)} axes, {_sizes(shape)}: neither the module nor what it was given "
        "says which of them are heads.",
        expected="the number of heads",
        action="State it: attnscope.record(module, heads=4). Other axes, such as windows, are then read as "
        "batch rows.",
    )


def has_queries_first(
    shape: Sequence[int], told: int | None, around: Sequence[Entered], query_axis: int | None = None
) -> bool:
    """Whether a softmax of four axes is [batch, n_queries, n_heads, n_keys].

    `query_axis` is where its queries stand, as far as its scores tell. Raises UserError where it may be so
    and nothing says which.
    """
    second, third, n_keys = shape[1:]
    lengths = {size for entered in around for given, _ in entered.shapes for size in given}
    if second == third == 1 or (second != n_keys and second not in lengths):
        return False
    asked = [told] if told is not None else []
    asked += [n for entered in reversed(around) for n in _own_heads(entered.module, second * third)]
    for n_heads in asked:
        if second != third and n_heads in (second, third):
            return n_heads == third
    if query_axis is not None:
        return query_axis == 1
    if second == third:
        raise UserError(
            f"A softmax over {_sizes(shape)} has as many heads as queries, and its scores do not show which "
            "axis is which.",
            expected="another number of queries, or scores that are a product of queries and keys",
            action="Record another text, with more tokens or fewer.",
        )
    if lengths and (third in lengths or second not in lengths):
        return False
    raise UserError(
        f"A softmax over {_sizes(shape)} is of {plural(second, 'head')} and "
        f"{plural(third, 'query', 'queries')}, or the other way round, and the module does not say which.",
        expected="the number of heads",
        action=f"State it: attnscope.record(module, heads={third}), or heads={second}.",
    )


_PRODUCTS = frozenset({"matmul", "__matmul__", "bmm", "baddbmm"})
_SPLITS, _JOINS = frozenset({"view", "reshape", "unflatten", "flatten"}), "cat"


class QueryAxes:
    """The query axes in scores: known from the product that made them, and followed to the softmax.

    Of each axis it keeps whether it comes from one factor alone, as queries and keys do, or from both, as
    rows and heads do; None where one factor is repeated along it, as keys that heads share.
    """

    def __init__(self) -> None:
        self._kept = WeakTensorKeyDictionary()

    def note(self, func: Any, args: Sequence[Any], named: Mapping[str, Any], found: Any) -> None:
        """Record the result `found` of a torch function; ignores tensors without strides or storage."""
        try:
            if isinstance(found, Tensor) and found.ndim >= 3:
                axes = self._axes_of(getattr(func, "__name__", ""), args, named, found)
                if axes is not None:
                    self._kept[found] = axes
        except RuntimeError:
            return

    def _axes_of(
        self, name: str, args: Sequence[Any], named: Mapping[str, Any], found: Tensor
    ) -> "_Axes | None":
        if name in _PRODUCTS:
            return _axes_of_product(args[-2:], found)
        if name == "einsum":
            return _axes_of_sum(args, found)
        if not self._kept:
            return None
        parts = args[0] if name == _JOINS and args else args
        given = [x for x in (*parts, *named.values()) if isinstance(x, Tensor) and x in self._kept]
        axes = {_carried_axes(name, x, self._kept[x], found) for x in given}
        return axes.pop() if len(axes) == 1 else None

    def query_axis(self, scores: object) -> int | None:
        """1 or 2, for scores of four axes; None if unknown."""
        axes = self._kept[scores] if isinstance(scores, Tensor) and scores in self._kept else None
        known = {(True, False): 1, (False, True): 2}
        return known.get(axes[1:3]) if axes is not None and len(axes) == 4 else None


_Axes = tuple[bool | None, ...]


def _carried_axes(name: str, x: Tensor, axes: _Axes, found: Tensor) -> _Axes | None:
    """The axes of a function's result: element by element, or another view of its tensor."""
    if name in _SPLITS and found.ndim != x.ndim:
        is_split = (x.ndim, found.ndim) == (3, 4)  # rows and heads, on one axis and on two
        is_known = found.shape[-2:] == x.shape[-2:] and (is_split or axes[0] == axes[1])
        lead = (axes[0], axes[0]) if is_split else axes[:1]
        return (*lead, *axes[-2:]) if is_known and {x.ndim, found.ndim} == {3, 4} else None
    if found.untyped_storage()._cdata != x.untyped_storage()._cdata:
        return axes if found.shape == x.shape or name == _JOINS else None
    if found.ndim != x.ndim:
        return None
    places = [(i, x.stride(i)) for i in range(x.ndim) if x.shape[i] > 1]
    if len({stride for _, stride in places}) < len(places):
        return None
    whose = {stride: axes[i] for i, stride in places}
    return tuple(whose.get(found.stride(i)) if found.shape[i] > 1 else None for i in range(found.ndim))


def _axes_of_product(factors: Sequence[Any], found: Tensor) -> _Axes | None:
    if len(factors) < 2 or not all(isinstance(x, Tensor) and x.ndim == found.ndim for x in factors):
        return None
    return (*(_is_own(factors, (i, i)) for i in range(found.ndim - 2)), True, True)


def _axes_of_sum(args: Sequence[Any], found: Tensor) -> _Axes | None:
    """The axes of an einsum of two tensors, by its letters."""
    terms, _, given = str(args[0]).replace(" ", "").partition("->")
    words = terms.split(",")
    factors = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
    if len(words) != 2 or len(factors) != 2 or len(given) != found.ndim or "." in terms:
        return None
    return tuple(_is_own(factors, tuple(word.find(letter) for word in words)) for letter in given)


def _is_own(factors: Sequence[Tensor], places: Sequence[int]) -> bool | None:
    """Whether an axis belongs to one factor alone; `places` are its positions in each, -1 if absent."""
    if min(places) < 0:
        return True
    both = list(zip(factors, places, strict=True))
    is_repeated = [x.shape[i] == 1 or x.stride(i) == 0 for x, i in both]
    return None if any(is_repeated) and max(x.shape[i] for x, i in both) > 1 else False


def _sizes(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def find_fold(n: int, n_queries: int, n_keys: int, told: int | None, around: Sequence[Entered]) -> Fold:
    """Find how the first axis of `n` maps is composed; `around` are the active modules.

    Raises UserError where it does not say so.
    """
    if told is not None:
        if n % told:
            raise UserError(
                f"There are {n} maps of {n_queries} × {n_keys}, which are not batch rows of {told} heads.",
                expected=f"a number of heads that divides {n}",
                action="Give another number: attnscope.record(module, heads=…).",
            )
        return Fold(n_rows=n // told, n_heads=told)
    by_module = next((heads for entered in reversed(around) for heads in _own_heads(entered.module, n)), None)
    batches = (_batches(entered, {n_queries, n_keys}) for entered in around)
    found = next((fitting for batch in batches if (fitting := {b for b in batch if n % b == 0})), set())
    by_input = n // next(iter(found)) if len(found) == 1 else None
    if by_module is None and by_input is None and n == 1:
        return Fold(n_rows=1, n_heads=1)
    if by_module is not None and found and n // by_module in found:
        by_input = by_module  # one of two readings of the input, and the module says which
    sure = {heads for heads in (by_module, by_input) if heads is not None}
    if len(sure) != 1:
        raise _untold(n, n_queries, n_keys)
    n_heads = sure.pop()
    if n_heads == 1:
        _check_queries(n_queries, around)
    return Fold(n_rows=n // n_heads, n_heads=n_heads)


def _check_queries(n_queries: int, around: Sequence[Entered]) -> None:
    """Raise UserError if a module's heads are among its queries, where they cannot be told apart."""
    lengths = {size for entered in around for shape, _ in entered.shapes for size in shape}
    stated = next((n for entered in reversed(around) for n in _own_heads(entered.module, n_queries)), 1)
    if stated > 1 and n_queries not in lengths and n_queries // stated in lengths:
        raise UserError(
            f"An attention call has {n_queries} queries for a text of {n_queries // stated}: the {stated} "
            "heads of the module stand among them, and in which order is not known.",
            expected="heads on an axis of their own, or on that of the batch",
            action="Give the softmax, or scaled_dot_product_attention, [batch, heads, queries, keys].",
        )


def _own_heads(module: nn.Module, n: int) -> Iterable[int]:
    """A module's own number of heads, if it fits `n` maps."""
    for place in (module, getattr(module, "config", None)):
        for name in _NAMES:
            heads = getattr(place, name, None)
            if isinstance(heads, int) and not isinstance(heads, bool) and heads > 0 and n % heads == 0:
                yield heads


def _batches(entered: Entered, lengths: set[int]) -> set[int]:
    """Possible batch sizes of a module: axes beside one of that many tokens."""
    found: set[int] = set()
    for shape, is_ids in entered.shapes:
        if len(shape) == 4 and shape[2] * shape[3] in lengths:  # an image, whose pixels are tokens
            found.add(shape[0])
        if len(shape) == 3 or (len(shape) == 2 and is_ids):
            found |= {shape[1 - axis] for axis in (0, 1) if shape[axis] in lengths}
        if len(shape) == (1 if is_ids else 2) and shape[0] in lengths:
            found.add(1)
    return {batch for batch in found if batch > 0}


def tensor_shapes(args: Sequence[Any]) -> tuple[tuple[torch.Size, bool], ...]:
    """The shapes of the tensor arguments of a module, and whether each holds integers."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    return tuple((tensor.shape, not tensor.is_floating_point()) for tensor in tensors)


def _untold(n: int, n_queries: int, n_keys: int) -> UserError:
    return UserError(
        f"There are {plural(n, 'map')} of {n_queries} × {n_keys}: batch rows, heads, or both, and neither "
        "the module nor what it was given says which.",
        expected="the number of heads",
        action="State it: attnscope.record(module, heads=4), or heads=1 where each map is of another text.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Each `n_groups` of `n_heads` heads share their keys and values."""

    n_heads: int
    n_groups: int

    def is_packed(self, query: Tensor) -> bool:
        """Whether the heads of each group are placed among the queries."""
        return query.ndim == 4 and query.shape[1:3] == (self.n_heads // self.n_groups, self.n_groups)

    def unpacked(self, tensor: Tensor) -> Tensor:
        """One query, or output, of every head: [batch, n_heads, 1, d_head]."""
        return tensor.reshape(tensor.shape[0], self.n_heads, 1, tensor.shape[3])

    def unpacked_mask(self, mask: Tensor) -> Tensor:
        """The mask of every head, if it has one for each."""
        is_packed = mask.ndim == 4 and mask.shape[2] == self.n_groups
        return mask.reshape(mask.shape[0], -1, 1, mask.shape[3]) if is_packed else mask

    def without_copies(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values once for each group, if they were repeated for each head."""
        if k.shape[1] != self.n_heads or v.shape[1] != self.n_heads:
            return k, v
        own = [x[:, :: self.n_groups] for x in (k, v)]
        again = [x.repeat_interleave(self.n_groups, dim=1) for x in own]
        is_repeated = torch.equal(again[0], k) and torch.equal(again[1], v)
        return (own[0], own[1]) if is_repeated else (k, v)


def groups_of(module: nn.Module | None) -> Groups | None:
    """A module's groups of heads that share keys; None if it has no such attribute, or none do."""
    n_groups = getattr(module, "num_key_value_groups", 1)
    n_heads = getattr(getattr(module, "config", None), "num_attention_heads", None)
    is_told = isinstance(n_groups, int) and isinstance(n_heads, int) and n_groups > 1
    if not is_told or n_heads is None or n_heads % n_groups:
        return None
    return Groups(n_heads=n_heads, n_groups=n_groups)


_CROSS = re.compile(r"cross|multihead_attn|encoder_attn|enc_?dec_?attn|src_attn|\battn2\b|memory", re.I)
_DECODER = re.compile(r"decoder|\bdec\b", re.I)
_NOT_JOINED = (
    " Calls that generated a text step by step are joined only if each has all keys of the previous one. "
    "Generate one text without beams or a sliding cache, or record one pass over the whole text."
)
_MAX_TOLD = 8
MAX_ROWS = 16
"""So many rows of a batch are recorded where none was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedCall:
    """One attention call: the module it was made in, its `number` from 0, and its facts.

    `is_self` says that queries and keys were made of one text for sure; `extra` names keys that are no
    tokens; `dropout` is what the module dropped of its weights, which are shown without it. Of a softmax it
    is not known, and `is_training` says that there may be one. `module` is the path of the module, empty
    where there was none. `n_steps` above 1: so many calls of it, which wrote a text, joined to one. The call
    was made with `n_rows` batch rows; `rows` are the facts of each where none was chosen. `fold` says how
    heads and rows shared an axis.
    """

    number: int
    name: str
    function: str
    record: SiteRecord
    is_self: bool = False
    extra: tuple[str, ...] = ()
    dropout: float = 0.0
    is_training: bool = False
    module: str = ""
    n_steps: int = 1
    n_rows: int = 1
    rows: tuple[SiteRecord, ...] = ()
    fold: Fold | None = None

    @property
    def is_cross(self) -> bool:
        """Whether queries and keys are of two texts, as far as known."""
        if self.n_steps > 1:
            return not self.is_self
        if self.record.n_queries != self.record.n_keys - len(self.extra) or self.extra:
            return True
        return not self.is_self and _CROSS.search(self.name) is not None

    @property
    def words(self) -> str:
        size = f"{self.record.n_queries} × {self.record.n_keys}"
        kind = ", causal" if self.record.rule.is_causal else ""
        n_heads = self.record.q.shape[0]
        heads = plural(n_heads, "head")
        rows = f", {len(self.rows)} batch rows" if self.rows else ""
        return f"{self.number}  {self.name}  {heads}, {size}{kind}{rows}"


def choose_row(calls: Sequence[RecordedCall], row: int | None) -> tuple[RecordedCall, ...]:
    """The calls with row `row` of each, and a share of rows if a call had fewer.

    Raises UserError where there is no such row, or one must be chosen.
    """
    n_rows = max((len(call.rows) for call in calls), default=0)
    if row is not None and not -max(1, n_rows) <= row < max(1, n_rows):
        raise UserError(
            f"The recorded calls have {plural(max(1, n_rows), 'batch row')}; there is no row {row}.",
            expected=f"0 to {max(1, n_rows) - 1}",
        )
    if row is None and n_rows:
        is_one_head = all(len(one.q) == 1 for call in calls for one in call.rows)
        raise UserError(
            f"The calls were made with {n_rows} batch rows at once, but a map shows one.",
            expected=f"one of the rows 0 to {n_rows - 1}",
            action="Choose one: recording.trace(tokens, row=0), or attnscope.record(module, row=0) when "
            "recording."
            + (" Where the rows are heads: attnscope.record(module, heads=...)." if is_one_head else ""),
        )
    return tuple(
        replace(call, record=call.rows[(row or 0) % n_rows * len(call.rows) // n_rows], rows=())
        if call.rows
        else call
        for call in calls
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Numbers of tokens in the texts; `target` is None if there is only one text."""

    source: int
    target: int | None


def find_lengths(calls: Sequence[RecordedCall], *, has_target: bool = False) -> Lengths:
    """The lengths of the one or two texts; raises UserError for more than two lengths.

    With `has_target` there are two texts, even where their lengths are one.
    """
    lengths = list(dict.fromkeys(n for c in calls for n in (c.record.n_keys, c.record.n_queries)))
    cross = next((call.record for call in calls if call.is_cross), None)
    source = lengths[0] if cross is None else cross.n_keys
    target = cross.n_queries if cross is not None else lengths[1] if len(lengths) > 1 else None
    if target is None and has_target:
        target = source
    if not set(lengths) <= {source, target}:
        told = "; ".join(call.words for call in calls[:_MAX_TOLD])
        raise UserError(
            f"The {len(calls)} recorded calls have texts of {len(lengths)} lengths "
            f"({', '.join(map(str, sorted(lengths)[:_MAX_TOLD]))} tokens); one trace shows at most two. "
            f"{told}{' …' if len(calls) > _MAX_TOLD else ''}.",
            expected="calls of one text, or of two that attend to each other",
            action="Choose some: recording.trace(tokens, calls=[0, 1, 2]) or calls='part of a module name'."
            + (_NOT_JOINED if len(calls) > len({call.module for call in calls}) else ""),
        )
    return Lengths(source=source, target=target)


def place_calls(calls: Sequence[RecordedCall], lengths: Lengths) -> tuple[Site, ...]:
    """The site of each call, in the order of the calls."""
    counts: Counter[Stack] = Counter()
    sites = []
    for call in calls:
        stack = _stack_of(call, lengths)
        record = call.record
        site = Site(stack=stack, layer=counts[stack], n_heads=record.q.shape[0], n_kv_heads=record.k.shape[0])
        counts[stack] += 1
        sites.append(site)
    return tuple(sites)


def named_sites(calls: Sequence[RecordedCall], sites: Sequence[Site]) -> tuple[tuple[SiteKey, str], ...]:
    return tuple((site.key, call.name) for call, site in zip(calls, sites, strict=True))


def _stack_of(call: RecordedCall, lengths: Lengths) -> Stack:
    record = call.record
    if call.is_cross:
        is_back = (record.n_queries, record.n_keys) == (lengths.source, lengths.target)
        return "back" if is_back and lengths.source != lengths.target else "cross"
    if call.n_steps > 1 and record.n_queries == (lengths.target or lengths.source):
        return "decoder"
    if lengths.target is None:
        return "decoder" if record.rule.is_causal else "encoder"
    if lengths.source != lengths.target:
        return "encoder" if record.n_queries == lengths.source else "decoder"
    is_second = record.rule.is_causal or _DECODER.search(call.name) is not None
    return "decoder" if is_second else "encoder"
