"""`attnscope.record()`: the attention of any PyTorch module.

    with attnscope.record(model) as recording:
        model(x)
    trace = recording.trace(["I", "am", "Sam"])

What a call attended with (queries, keys, mask, scale) is kept, never its weights: texts may be long. Each
call is proved on the spot against what the module's own function gave.
"""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any, SupportsIndex

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from attnscope.counting import plural
from attnscope.errors import UserError, of_wrong_kind
from attnscope.models.recording.arguments import (
    PRODUCT,
    Masks,
    check_numbers,
    check_softmax,
    n_rows_of,
    record_seen,
    row_of_weights,
    see_layer,
    see_product,
)
from attnscope.models.recording.arrays import pieces_of, record_of_weights, texts_of_calls
from attnscope.models.recording.joining import SharedKeys, join_calls, without_unwritten
from attnscope.models.recording.placing import (
    MAX_ROWS,
    Entered,
    Fold,
    QueryAxes,
    RecordedCall,
    choose_row,
    find_fold,
    find_head_axes,
    find_lengths,
    groups_of,
    has_queries_first,
    named_sites,
    place_calls,
    tensor_shapes,
)
from attnscope.records.models import Recorded
from attnscope.records.sites import NO_GATES
from attnscope.trace import SiteRecord, TextRecord, Trace

# Seeing every attention call of one thread while a block lasts, and the module that each is made in.

_SOFTMAXES = (torch.softmax, F.softmax, Tensor.softmax)
_ATTENTION = "attention", "attn"
Told = Callable[[str, tuple[Any, ...], dict[str, Any], Any], None]
"""Takes the kind of a call (`product`, `layer`, `softmax` or `flex`), its arguments and what it gave."""


class Calls(TorchFunctionMode):
    """Reports every attention call, and every softmax; before that `note` gets every function."""

    def __init__(self, tell: Told, note: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]) -> None:
        super().__init__()
        self._tell, self._note = tell, note

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make the call, then report it."""
        named = kwargs or {}
        found = func(*args, **named)
        self._note(func, args, named, found)
        if func is F.scaled_dot_product_attention:
            self._tell("product", args, named, found)
        elif func is F.multi_head_attention_forward:
            self._tell("layer", args, named, found)
        elif func in _SOFTMAXES:
            self._tell("softmax", args, named, found)
        elif type(func).__name__ == "FlexAttentionHOP":
            self._tell("flex", args, named, found)
        return found


class ModuleStack:
    """Modules of this thread now running, outermost first; names are paths in `root`.

    Without a root the outermost module that is called is taken for it.
    """

    def __init__(self, root: nn.Module | None) -> None:
        self._root, self._names = root, _paths(root)
        self._stack: list[Entered] = []
        self._thread = threading.get_ident()
        self._handles: list[Any] = []
        self._seen: dict[str, nn.Module] = {}
        self._told: set[int] = set()

    def start(self) -> None:
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def stop(self) -> None:
        """Stop following them."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @property
    def is_inside(self) -> bool:
        """Whether a module of the root is running, or there is no root; outside of all modules counts too."""
        if self._root is None or not self._stack:
            return True
        return any(id(entered.module) in self._names for entered in self._stack)

    @property
    def name(self) -> str:
        """The innermost module's path; its class if it has none, and empty outside of every module."""
        for entered in reversed(self._stack):
            path = self._names.get(id(entered.module))
            if path is not None:
                return path or type(entered.module).__name__
        return type(self._stack[-1].module).__name__ if self._stack else ""

    @property
    def innermost(self) -> nn.Module | None:
        """The innermost running module."""
        return self._stack[-1].module if self._stack else None

    @property
    def around(self) -> tuple[Entered, ...]:
        """The running modules, outermost first."""
        return tuple(self._stack)

    @property
    def is_attention(self) -> bool:
        """Whether the innermost module is named after attention, or its class is."""
        module = self.innermost
        return module is not None and _tells_attention(f"{self.name} {type(module).__name__}")

    @property
    def is_training(self) -> bool:
        """Whether the innermost module is in training mode."""
        return bool(self._stack) and self._stack[-1].module.training

    @property
    def unseen(self) -> tuple[str, ...]:
        """Modules that were called, may attend, and in which no attention call was reported."""
        return tuple(name for name, module in self._seen.items() if id(module) not in self._told)

    def tell(self) -> None:
        """Note that the running modules made an attention call."""
        self._told |= {id(entered.module) for entered in self._stack}

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread:
            return
        if is_compiled(module):
            raise compiled(type(module).__name__)
        if self._root is None and not self._stack:
            self._names = _paths(module)
        self._stack.append(Entered(module=module, shapes=tensor_shapes(args)))
        kind = type(module).__name__
        if _is_scripted_attention(module):
            self._seen[f"{self.name} ({module.original_name}, scripted)"] = module
        elif _tells_attention(kind):
            self._seen[f"{self.name} ({kind})"] = module

    def _leave(self, module: nn.Module, _: Any, __: Any) -> None:
        if threading.get_ident() == self._thread and any(module is inside.module for inside in self._stack):
            while self._stack.pop().module is not module:
                pass


class PlainCalls:
    """Switches off PyTorch's inference fast path and compiled functions, and restores them.

    Compiled functions are left alone where nothing that compiles has been imported, which takes seconds.
    """

    def start(self) -> None:
        """Switch them off."""
        self._was = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        is_compiling = not _COMPILERS.isdisjoint(sys.modules)
        self._stance = torch.compiler.set_stance("force_eager") if is_compiling else nullcontext()
        self._stance.__enter__()

    def stop(self) -> None:
        """Restore them."""
        self._stance.__exit__(None, None, None)
        torch.backends.mha.set_fastpath_enabled(self._was)


_COMPILERS = frozenset({"torch._dynamo", "torch.nn.attention.flex_attention"})


def _tells_attention(name: str) -> bool:
    return any(word in name.lower() for word in _ATTENTION)


def _is_scripted_attention(module: nn.Module) -> bool:
    """Whether a module of TorchScript attends: its calls cannot be seen."""
    if not isinstance(module, torch.jit.ScriptModule):
        return False
    graph = str(module.inlined_graph)
    return any(f"aten::{name}" in graph for name in _SCRIPTED)


_SCRIPTED = "scaled_dot_product_attention", "softmax", "_native_multi_head_attention"


def is_compiled(module: nn.Module) -> bool:
    """Whether a module was made by torch.compile, or compiles itself when called."""
    is_wrapped = type(module).__name__ == "OptimizedModule" and hasattr(module, "_orig_mod")
    return is_wrapped or getattr(module, "_compiled_call_impl", None) is not None


def compiled(name: str) -> UserError:
    """The error for a module whose attention calls cannot be seen."""
    return UserError(
        f"{name} is compiled: its attention calls are fused into compiled code.",
        expected="the module before torch.compile",
        action="Record the module itself: before `.compile()`, or the one that torch.compile keeps as "
        "`_orig_mod`. Its weights are the same.",
    )


def _paths(root: nn.Module | None) -> dict[int, str]:
    return {} if root is None else {id(module): name for name, module in root.named_modules()}


BY_HAND = "a softmax written by hand, which attnscope.record(module, softmax=True) records"
MAX_CALLS = 4096
"""One recording takes so many calls; a training loop left inside the block would fill the memory."""
LOOKED_FOR = "torch's scaled_dot_product_attention, nn.MultiheadAttention and nn.Transformer"
Pieces = Sequence[object] | Tensor
"""Pieces or ids of one text: a list, an array or a tensor, [T] or [1, T]."""
Chosen = str | Iterable[int] | Callable[[RecordedCall], bool] | None
"""Calls by a part of their module's name, by their numbers, or by a test; None: all of them."""
_MAX_TOLD = 6


class Recording:
    """The attention calls of a block, in order; grows during the block."""

    def __init__(
        self, module: nn.Module | None, *, row: int | None, heads: int | None, softmax: bool
    ) -> None:
        self._name = "" if module is None else type(module).__name__
        self._row, self._heads = row, heads
        self._masks = Masks()
        self._keys = SharedKeys()
        self._calls: list[RecordedCall] = []
        self._refused: dict[int, tuple[str, UserError]] = {}
        self._n_of: Counter[str] = Counter()
        self._n_seen = 0
        self._modules = ModuleStack(module)
        self._has_softmax = softmax
        self._missed: dict[str, str] = {}
        self._query_axes = QueryAxes()
        self._watch = Calls(self._take, self._query_axes.note if softmax else lambda *_: None)
        self._plain = PlainCalls()

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """The recorded calls, one by one."""
        return tuple(self._calls)

    def trace(
        self,
        tokens: Pieces | None = None,
        target: Pieces | None = None,
        *,
        calls: Chosen = None,
        row: int | None = None,
        name: str = "",
    ) -> Trace:
        """The recorded calls as a trace: weights, tiles, figures, measures and `save` work as with a model's.

        `tokens` are the pieces of the text or its ids, [T] or [1, T], and `target` those of a second one,
        whose queries attend to the first in cross-attention; without them tokens are named by position.
        `calls` chooses some: `"decoder"` by part of the module's name, `[0, 1]` by number, or a function of
        a call. Calls that generated one text with cached keys and values are joined: a map has all their
        queries, and a query's later keys are not allowed. `row` chooses one of several batch rows.
        Raises UserError when nothing was recorded, when a chosen call could not be recorded, and when the
        number of tokens is not the number attended to.
        """
        tokens = None if tokens is None else pieces_of(tokens, "tokens")
        target = None if target is None else pieces_of(target, "target")
        given = tokens if target is None else target
        seen = choose_row(self._chosen(calls), row)
        chosen = join_calls(seen, None if given is None else len(given))
        lengths = find_lengths(chosen, has_target=target is not None)
        source, second = texts_of_calls(chosen, lengths, tokens, target)
        sites = place_calls(chosen, lengths)
        names = named_sites(chosen, sites)
        recorded = Recorded(
            name=name or self._name or "recording",
            site_names=names,
            notes=_notes(seen, chosen) + (self._missing() if calls is None else ()),
        )
        records = {site.key: call.record for site, call in zip(sites, chosen, strict=True)}
        return Trace(
            TextRecord(
                sites=tuple(sorted(sites, key=_stack_order(sites))),
                gates=NO_GATES,
                source=source,
                target=second,
                records=records,
                recorded=recorded,
            )
        )

    def __repr__(self) -> str:
        lines = [call.words for call in self._calls]
        lines += [f"{number}  {name}  not shown: {error}" for number, (name, error) in self._refused.items()]
        kept = plural(len(self._calls), "attention call")
        return "\n".join([f"Recording of {kept}", *lines, *self._missing()])

    # -- inside ---------------------------------------------------------------------------------

    def _start(self) -> None:
        self._plain.start()
        self._modules.start()
        self._watch.__enter__()  # type: ignore[no-untyped-call]

    def _stop(self) -> None:
        self._watch.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._modules.stop()
        self._plain.stop()
        self._masks = Masks()  # it held every mask
        self._keys = SharedKeys()

    def _take(self, kind: str, args: tuple[Any, ...], named: dict[str, Any], found: Any) -> None:
        if not self._modules.is_inside:
            return
        if kind == "softmax":
            given = named.get("dim", args[1] if len(args) > 1 else None)
            if not check_softmax(found, given, is_of_attention=self._modules.is_attention):
                return
            if not self._has_softmax:
                self._miss(BY_HAND, is_sure=found.ndim > 3 or self._modules.is_attention)
                return
        if kind == "flex":
            self._miss("flex_attention, whose weights no call gives", is_sure=True)
            return
        self._modules.tell()
        number, self._n_seen = self._n_seen, self._n_seen + 1
        name, module = self._name_of(number), self._modules.name
        try:
            call = self._recorded(number, name, kind, args, named, found)
            rows = tuple(self._shared(module, record) for record in call.rows)
            record = rows[0] if rows else self._shared(module, call.record)
            self._calls.append(replace(call, record=record, rows=rows, module=module))
        except UserError as error:  # the module's own pass must not break: it is told when it is asked for
            self._refused[number] = name, error

    def _miss(self, why: str, *, is_sure: bool) -> None:
        """Keep the reason why a call of the running module is not recorded, if it is certainly attention."""
        if is_sure:
            kind = type(self._modules.innermost).__name__
            place = f"{self._modules.name} ({kind})" if self._modules.name else "outside of every module"
            self._missed.setdefault(place, why)
            self._modules.tell()

    def _missing(self) -> tuple[str, ...]:
        """Sentence naming calls that are missing from the recording; empty if there are none."""
        told = [f"{place}: {why}" for place, why in self._missed.items()]
        told += self._modules.unseen
        if not told:
            return ()
        more = " …" if len(told) > _MAX_TOLD else ""
        return (f"Not recorded: {'; '.join(told[:_MAX_TOLD])}{more}.",)

    def _shared(self, module: str, record: SiteRecord) -> SiteRecord:
        """The record, with its keys in memory shared with former calls of the module."""
        return replace(record, k=self._keys.keep(module, record.k)) if module else record

    def _recorded(
        self, number: int, name: str, kind: str, args: tuple[Any, ...], named: dict[str, Any], found: Any
    ) -> RecordedCall:
        if torch.compiler.is_compiling():
            raise compiled(name)
        if number >= MAX_CALLS:
            raise UserError(
                f"There were more than {MAX_CALLS:,} attention calls in one block.",
                expected="one pass, or a few",
                action="Record fewer passes.",
            )
        args, named, found, fold = self._unfolded(kind, args, named, found)
        n_rows = n_rows_of(kind, found)
        rows = range(n_rows) if self._row is None and 1 < n_rows <= MAX_ROWS else (self._row,)
        found_rows = [self._of_row(number, name, kind, args, named, found, row) for row in rows]
        own = tuple(call.record for call in found_rows) if len(rows) > 1 else ()
        return replace(found_rows[0], n_rows=n_rows, rows=own, fold=fold)

    def _unfolded(
        self, kind: str, args: tuple[Any, ...], named: dict[str, Any], found: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any], Any, Fold | None]:
        """A call with its heads on an axis just before the queries, if they were elsewhere."""
        if kind == "layer" or found.ndim < 3:
            return args, named, found, None
        check_numbers([found], PRODUCT if kind == "product" else kind)
        if found.ndim > 3:
            return *self._with_heads(kind, args, named, found), None
        n_keys = found.shape[2]
        if kind == "product":
            n_keys = (named["key"] if "key" in named else args[1]).shape[-2]
        fold = find_fold(found.shape[0], found.shape[1], n_keys, self._heads, self._modules.around)
        if kind == "product":
            args, named = (), fold.product(args, named)
        return args, named, fold.unfolded(found), fold

    def _with_heads(
        self, kind: str, args: tuple[Any, ...], named: dict[str, Any], found: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """A call of four axes or more with its heads just before the queries."""
        around = self._modules.around
        if found.ndim == 4:
            if kind == "softmax":
                query_axis = self._query_axes.query_axis(args[0] if args else named.get("input"))
                if has_queries_first(found.shape, self._heads, around, query_axis):
                    found = found.transpose(1, 2)
            return args, named, found
        key = found if kind == "softmax" else named["key"] if "key" in named else args[1]
        n_keys = key.shape[-1 if kind == "softmax" else -2]
        axes = find_head_axes((*found.shape[:-1], n_keys), self._heads, around)
        if axes is None:
            return args, named, found
        lead = found.shape[:-2]
        if kind == "product":
            args, named = (), axes.product(args, named, lead)
        return args, named, axes.arranged(found, lead)

    def _of_row(
        self,
        number: int,
        name: str,
        kind: str,
        args: tuple[Any, ...],
        named: dict[str, Any],
        found: Any,
        row: int | None,
    ) -> RecordedCall:
        if kind == "softmax":
            weights = row_of_weights(found, row)
            record = record_of_weights(weights.clone(), name)
            is_training = self._modules.is_training
            return RecordedCall(
                number=number, name=name, function="softmax", record=record, is_training=is_training
            )
        if kind == "product":
            groups = groups_of(self._modules.innermost)
            seen = see_product(args, named, found, row, self._masks, groups)
        else:
            seen = see_layer(args, named, found, row, self._masks)
        return RecordedCall(
            number=number,
            name=name,
            function=seen.function,
            record=without_unwritten(record_seen(seen)),
            is_self=seen.is_self,
            extra=seen.extra,
            dropout=seen.dropout,
        )

    def _name_of(self, number: int) -> str:
        path = self._modules.name or f"call {number}"
        self._n_of[path] += 1
        return path if self._n_of[path] == 1 else f"{path} (call {self._n_of[path]})"

    def _chosen(self, calls: Chosen) -> tuple[RecordedCall, ...]:
        if not self._n_seen:
            raise self._nothing_seen()
        wanted = _test_of(calls)
        for number, (name, error) in self._refused.items():
            is_wanted = calls is None or (isinstance(calls, str) and calls in name)
            if is_wanted or (not isinstance(calls, str) and not callable(calls) and number in (calls or ())):
                raise error
        chosen = tuple(call for call in self._calls if wanted(call))
        if not chosen:
            told = "; ".join(call.words for call in self._calls[:_MAX_TOLD])
            raise UserError(
                f"No recorded call matches {calls!r}.",
                expected=f"calls such as: {told}" if told else "a call that could be recorded",
                action="Print the recording to see every call.",
            )
        return chosen

    def _nothing_seen(self) -> UserError:
        named = " ".join(self._missing())
        by_hand = (
            "Custom kernels (flash_attn, xformers, flex_attention), scripted and compiled modules cannot "
            "be recorded."
        )
        if BY_HAND not in named:
            told = (
                "Hand-written attention is recorded by its softmax: attnscope.record(module, softmax=True)."
            )
            by_hand = f"{told} {by_hand}"
        return UserError(
            f"No attention call was seen. {named}".rstrip(),
            expected=f"a call of {LOOKED_FOR} inside the block, in this thread",
            action=f"Call the module inside the block. {by_hand}",
        )


class record:
    """Record every attention call of a block; see `Recording`.

    `module` names the calls by their modules' paths and leaves out calls outside of it; without one the
    outermost module that is called is taken. `row` chooses one text of a batch. With `softmax` every softmax
    over the last axis counts as attention as well: for attention written by hand. `heads` is the number of
    heads, for attention whose heads have no axis of their own, [batch · heads, n_queries, n_keys], or stand
    elsewhere than before the queries; it is found from the module and its input where possible.

    The module's output is the same bit for bit, except that PyTorch's inference fast path of
    `nn.MultiheadAttention` and `nn.TransformerEncoder` and compiled functions are off inside the block: their
    results may differ in the last digits, and at padded positions. Raises UserError for a compiled module.
    """

    def __init__(
        self,
        module: nn.Module | None = None,
        *,
        row: int | None = None,
        heads: int | None = None,
        softmax: bool = False,
    ) -> None:
        if module is not None and not isinstance(module, nn.Module):
            raise UserError(
                f"An object of type {type(module).__name__} cannot be recorded.",
                expected="a torch.nn.Module, or nothing for whatever is called in the block",
                action="Give the module that you call inside the block.",
            )
        if row is not None and not isinstance(row, SupportsIndex):
            raise of_wrong_kind(row, "the row", "the number of a batch row, from 0")
        if heads is not None and (not isinstance(heads, int) or isinstance(heads, bool) or heads < 1):
            raise of_wrong_kind(heads, "heads", "the number of heads, from 1")
        for path, part in () if module is None else module.named_modules():
            if is_compiled(part):
                raise compiled(path or type(part).__name__)
        self._module, self._row, self._heads, self._softmax = module, row, heads, softmax
        self._under_way = ExitStack()

    def __enter__(self) -> Recording:
        recording = Recording(self._module, row=self._row, heads=self._heads, softmax=self._softmax)
        recording._start()
        self._under_way.callback(recording._stop)
        return recording

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._under_way.close()


def _test_of(calls: Chosen) -> Callable[[RecordedCall], bool]:
    if calls is None:
        return lambda call: True
    if isinstance(calls, str):
        return lambda call: calls in call.name
    if callable(calls):
        return calls
    numbers = frozenset(calls)
    return lambda call: call.number in numbers


def _notes(calls: Sequence[RecordedCall], joined: Sequence[RecordedCall]) -> tuple[str, ...]:
    dropped = sorted({call.dropout for call in calls if call.dropout})
    notes = []
    if dropped:
        shares = ", ".join(f"{share:g}" for share in dropped)
        notes.append(
            f"The module was in training mode: it dropped {shares} of the weights, which are shown whole."
        )
    if any(call.function == "softmax" for call in calls):
        notes.append("Some weights were taken directly from a softmax.")
    if any(call.is_training for call in calls):
        notes.append(
            "The module was in training mode: what it may have dropped after the softmax is not seen."
        )
    notes += dict.fromkeys(call.fold.note for call in calls if call.fold is not None and call.fold.note)
    n_steps = max(call.n_steps for call in joined)
    if n_steps > 1:
        notes.append(
            f"The text was generated in {n_steps} calls of the module, which are joined into one map."
        )
    return tuple(notes)


def _stack_order(sites: Sequence[Any]) -> Callable[[Any], tuple[int, int]]:
    order = {stack: place for place, stack in enumerate(dict.fromkeys(site.stack for site in sites))}
    return lambda site: (order[site.stack], site.layer)
