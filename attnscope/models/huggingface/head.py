"""The output of one pass, made of as many positions as are asked for.

A vocabulary of 50,000 pieces costs more than many layers, and a table of all positions more memory than the
model. So the pass itself hands the output head one position only and keeps the last hidden stream; when
positions are asked for, the model is called once more with its body replaced by that stream. Whatever the
library does after the head (a soft-cap, a scale, a bias) is thereby done. `has_detachable_head` proves of
a pass that was watched that this gives the same numbers; models for which it does not compute everything at
once.

| symbol | meaning                              | shape                              |
|--------|--------------------------------------|------------------------------------|
| stream | the last hidden stream               | [n_copies, n_tokens, d_model]      |
| logits | one number per answer                | [n_copies, n_positions, n_answers] |
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnscope.models.huggingface.proof import RUN_ERRORS

_TOLERANCE = 1e-4


class DetachedPass:
    """A pass of a model whose head is applied when it is asked for."""

    def __init__(self, model: Any, arguments: Mapping[str, Any], output: Any) -> None:
        self._model, self._arguments, self._output = model, arguments, output

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        stream: Tensor = self._output["last_hidden_state"][copy]
        chosen = stream if positions is None else stream[list(positions)]
        if not len(chosen):
            return stream.new_zeros((0, 1))
        with (
            torch.no_grad(),
            body_giving(self._model.base_model, with_last_stream(self._output, chosen[None])),
        ):
            arguments = {
                name: value[:1] if isinstance(value, Tensor) else value
                for name, value in self._arguments.items()
            }
            found: Tensor = self._model(**arguments).logits[0].float()  # [n_positions, n_answers]
        return found


class WholePass:
    """A pass whose logits are all there: [n_copies, n_tokens, n_answers], or of the whole text in one row."""

    def __init__(self, logits: Tensor, *, n_tokens: int, pooled_at: int | None = None) -> None:
        self._logits, self._n_tokens, self._pooled_at = logits, n_tokens, pooled_at

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        """See `models.network.Pass`; a label of the whole text stands at one position, NaN elsewhere."""
        table = self._logits[copy].float()
        if self._pooled_at is not None:
            whole = table.new_full((self._n_tokens, table.shape[-1]), torch.nan)
            whole[self._pooled_at] = table
            table = whole
        return table if positions is None else table[list(positions)]


class NoPass:
    """A pass of a model without an output head."""

    def __init__(self, n_tokens: int) -> None:
        self._n_tokens = n_tokens

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        return torch.zeros((self._n_tokens if positions is None else len(positions), 0))


def said(output: Any) -> Tensor:
    """What an output of the library says: its logits, or its last stream when it has no head; float32."""
    logits = getattr(output, "logits", None)
    found: Tensor = output[0] if logits is None else logits
    return found.float()


def run_detached(model: Any, arguments: Mapping[str, Any]) -> DetachedPass:
    """One pass in which the head sees a single position."""
    kept: list[Any] = []

    def keep(_: Any, __: Any, output: Any) -> Any:
        kept.append(output)
        return with_last_stream(output, output["last_hidden_state"][:, :1])

    handle = model.base_model.register_forward_hook(keep)
    try:
        model(**arguments)
    finally:
        handle.remove()
    return DetachedPass(model, arguments, kept[0])


@dataclass(slots=True, kw_only=True)
class WatchedPass:
    """The last pass of a model that was watched: its arguments, its output, and that of its body."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    output: Any = None
    body: Any = None


@contextmanager
def watching_passes(model: Any) -> Iterator[WatchedPass]:
    """What the last whole pass in the block was, of a model with an output head."""
    last = WatchedPass()
    bodies: list[Any] = []

    def enter(*_: Any) -> None:
        bodies.clear()

    def leave_body(_: Any, __: Any, output: Any) -> None:
        bodies.append(output)

    def leave(_: Any, __: Any, arguments: Mapping[str, Any], output: Any) -> None:
        last.arguments, last.output, last.body = arguments, output, bodies[0] if bodies else None

    handles = [
        model.register_forward_pre_hook(enter),
        model.register_forward_hook(leave, with_kwargs=True),
    ]
    if model.base_model is not model:
        handles.append(model.base_model.register_forward_hook(leave_body))
    try:
        yield last
    finally:
        for handle in handles:
            handle.remove()


def has_detachable_head(model: Any, seen: WatchedPass) -> bool:
    """Whether `run_detached` gives this model's own logits, tried on what a pass of it gave."""
    if seen.body is None:
        return False
    whole = said(seen.output)
    last = whole.shape[1] - 1
    with torch.no_grad():
        try:
            one = with_last_stream(seen.body, seen.body["last_hidden_state"][:, :1])
            with body_giving(model.base_model, one):
                first = said(model(**seen.arguments))
            done = DetachedPass(model, seen.arguments, seen.body)
            ends = done.logits([last, 0])
            pairs = [(first, whole[:, :1]), (done.logits(), whole[-1]), (ends, whole[-1, [last, 0]])]
        except RUN_ERRORS:
            return False
    scale = float(whole.abs().max().clamp(min=1e-6))
    return all(a.shape == b.shape and _difference(a, b.float()) <= _TOLERANCE * scale for a, b in pairs)


def _difference(a: Tensor, b: Tensor) -> float:
    both = torch.isfinite(a) & torch.isfinite(b)
    if not torch.equal(torch.isfinite(a), torch.isfinite(b)):
        return float("inf")
    return float((a - b)[both].abs().max()) if bool(both.any()) else 0.0


def with_last_stream(output: Any, stream: Tensor) -> Any:
    """The output of a body with another last hidden stream."""
    changed = copy.copy(output)
    changed["last_hidden_state"] = stream
    return changed


@contextmanager
def body_giving(body: Any, output: Any) -> Iterator[None]:
    """A model while this part of it computes nothing and gives `output`."""
    body.forward = lambda *_, **__: output
    try:
        yield
    finally:
        del body.forward
