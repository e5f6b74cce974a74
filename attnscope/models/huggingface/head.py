"""The output of one pass, computed for as many positions as are requested.

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

What every layer of a model of the library leaves behind, and the model's own head for it.

The library's own hidden states are the streams, but for the last one, which comes with the last norm done
already: that stream is what the norm was about to read. Which norm it is its family says
(`Family.last_norm`): a norm that was missed would make every layer but the last say something else, and no
proof on the last layer could tell. Models for which it is unknown are rejected with an explanation. Of the
others two things are proven on each text: the norm of the last stream is what the library gives, and the head
makes the model's own logits of it.

| symbol | meaning                                                   | shape                   |
|--------|-----------------------------------------------------------|-------------------------|
| stream | what a layer reads; one more after the last layer         | [n_tokens, d_model]     |
| rows   | streams after the last norm                               | [n_rows, d_model]       |
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.families import last_norms
from attnscope.models.huggingface.proof import RUN_ERRORS, TOLERANCES
from attnscope.models.passes import hooked

_TOLERANCE = 1e-4


class DetachedPass:
    """A pass of a model whose head is applied on request."""

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
    """A pass with all logits: [n_copies, n_tokens, n_answers]."""

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        """See `models.network.Pass`."""
        table = self._table(copy)
        return table if positions is None else table[list(positions)]

    def _table(self, copy: int) -> Tensor:
        return self._logits[copy].float()


class PooledPass(WholePass):
    """A pass whose logits, [n_copies, n_answers], are for the whole text: at one position, NaN at the
    others.
    """

    def __init__(self, logits: Tensor, *, n_tokens: int, pooled_at: int) -> None:
        super().__init__(logits)
        self._n_tokens, self._pooled_at = n_tokens, pooled_at

    def _table(self, copy: int) -> Tensor:
        row = super()._table(copy)
        whole = row.new_full((self._n_tokens, row.shape[-1]), torch.nan)
        whole[self._pooled_at] = row
        return whole


class NoPass:
    """A pass of a model without an output head."""

    def __init__(self, n_tokens: int) -> None:
        self._n_tokens = n_tokens

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        return torch.zeros((self._n_tokens if positions is None else len(positions), 0))


def said(output: Any) -> Tensor:
    """Output of a library model: its logits, or its last stream if it has no head; float32."""
    logits = getattr(output, "logits", None)
    found: Tensor = output[0] if logits is None else logits
    return found.float()


def run_detached(model: Any, arguments: Mapping[str, Any]) -> DetachedPass:
    """Run one pass in which the head sees a single position."""
    kept: list[Any] = []

    def keep(_: Any, __: Any, output: Any) -> Any:
        kept.append(output)
        return with_last_stream(output, output["last_hidden_state"][:, :1])

    with model.base_model.register_forward_hook(keep):
        model(**arguments)
    return DetachedPass(model, arguments, kept[0])


@dataclass(slots=True, kw_only=True)
class WatchedPass:
    """The last watched pass of a model: its arguments, its output, and that of its body."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    output: Any = None
    body: Any = None


@contextmanager
def watching_passes(model: Any) -> Iterator[WatchedPass]:
    """Record the last whole pass in the block, for a model with an output head."""
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
    with hooked(handles):
        yield last


def has_detachable_head(model: Any, seen: WatchedPass) -> bool:
    """Whether `run_detached` gives this model's own logits, checked on one of its passes."""
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
    """Replace this part of a model by its `output` in the block; it computes nothing."""
    body.forward = lambda *_, **__: output
    try:
        yield
    finally:
        del body.forward


_HIDDEN = ("decoder_hidden_states", "hidden_states")


@dataclass(frozen=True, slots=True, eq=False)
class LayerStreams:
    """The streams of the predicting stack on one text, [n_tokens, d_model] each, and the modules that read
    them.
    """

    streams: tuple[Tensor, ...]
    logits: Callable[[Tensor], Tensor]
    """Output for streams [n_rows, d_model]: float32 [n_rows, n_answers]."""


def read_layer_streams(model: Any, arguments: Mapping[str, Any]) -> LayerStreams:
    """Run one pass over one text, and give its streams; raises UserError for an unsupported model."""
    kind, known = model.config.model_type, last_norms()
    if kind not in known:
        raise UserError(
            f"It is not known where the layers of a {kind} model end: the location of its last norm has "
            f"not been checked.",
            expected=f"one of {len(known)} kinds, such as bert, gpt2, llama, qwen3, roberta, t5",
            action="Look at its maps, or open another model for this.",
        )
    with _kept(model) as kept:
        said = model(**{**arguments, "output_hidden_states": True}).logits[-1].float()
    body = next((found for found in _bodies(model) if found in kept.outputs), None)
    if body is None:
        raise _not_so(model, "its head reads no stream that could be found")
    output = kept.outputs[body]
    hidden = next((output[name] for name in _HIDDEN if output.get(name) is not None), ())
    ends = _ends_of(model, body)
    if not hidden or not torch.equal(hidden[-1], output["last_hidden_state"]):
        raise _not_so(model, "it gives no hidden states that end with its last one")
    if not all(end in kept.inputs for end in ends):
        raise _not_so(model, "its last norm was not used")
    last = kept.inputs[ends[0]] if ends else hidden[-1]
    if last.shape != hidden[0].shape:
        raise _not_so(model, "its last stream is of another width than the others")

    def logits(rows: Tensor) -> Tensor:
        for end in ends:
            rows = end(rows)
        return _head(model, kept, body, arguments, rows)

    layers = LayerStreams(tuple(stream[-1] for stream in (*hidden[:-1], last)), logits)
    _prove(model, layers, said)
    return layers


def _head(model: Any, kept: "_Kept", body: nn.Module, arguments: Mapping[str, Any], rows: Tensor) -> Tensor:
    """Apply the model's own head to any rows: the model is called with its body replaced by them."""
    one = {name: value[:1] if isinstance(value, Tensor) else value for name, value in arguments.items()}
    encoder = getattr(model.base_model, "encoder", None)
    with ExitStack() as stack:
        if encoder in kept.outputs and body is not model.base_model:  # it need not read the source again
            stack.enter_context(body_giving(encoder, kept.outputs[encoder]))
        stack.enter_context(body_giving(body, with_last_stream(kept.outputs[body], rows[None])))
        found: Tensor = model(**one).logits[0].float()  # [n_rows, n_answers]
    return found


def _prove(model: Any, layers: LayerStreams, said: Tensor) -> None:
    """Raise UserError unless the last layer gives the model's own output."""
    places = sorted({0, len(said) - 1})
    try:
        found, wanted = layers.logits(layers.streams[-1][places]), said[places]
    except RUN_ERRORS as error:
        raise _not_so(model, "its head does not read the last stream") from error
    both = torch.isfinite(found) & torch.isfinite(wanted) if found.shape == wanted.shape else None
    if both is None or not bool(both.any()):
        raise _not_so(model, "its head gives output of another shape")
    scale = float(wanted[both].abs().max().clamp(min=1e-6))
    difference = float((found - wanted)[both].abs().max())
    if difference > TOLERANCES.get(next(model.parameters()).dtype, 1e-4) * scale:
        raise _not_so(model, f"the last layer differs from the model's output by {difference:.3g}")


class _Kept:
    """Inputs and outputs of a model's parts in one pass, by module."""

    def __init__(self) -> None:
        self.outputs: dict[nn.Module, Any] = {}
        self.inputs: dict[nn.Module, Tensor] = {}

    def output(self, module: nn.Module, _: Any, output: Any) -> None:
        """Keep a body's output."""
        if hasattr(output, "get") and output.get("last_hidden_state") is not None:
            self.outputs[module] = output

    def input(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        """Keep a norm's input."""
        if arguments and isinstance(arguments[0], Tensor):
            self.inputs[module] = arguments[0].detach()


@contextmanager
def _kept(model: Any) -> Iterator[_Kept]:
    kept = _Kept()
    bodies = _bodies(model)
    encoder = getattr(model.base_model, "encoder", None)
    watched = [*bodies, *([encoder] if isinstance(encoder, nn.Module) else [])]
    handles = [module.register_forward_hook(kept.output) for module in watched]
    ends = {end for body in bodies for end in _ends_of(model, body)}
    handles += [end.register_forward_pre_hook(kept.input) for end in ends]
    with hooked(handles):
        yield kept


def _bodies(model: Any) -> tuple[nn.Module, ...]:
    """The parts that may give the head its stream, outermost first."""
    base = model.base_model
    found = (None if base is model else base, getattr(base, "decoder", None))
    return tuple(body for body in found if isinstance(body, nn.Module))


def _ends_of(model: Any, body: nn.Module) -> list[nn.Module]:
    """Modules between the last layer of a body and its output: its last norm, OPT's `project_out`."""
    name = last_norms()[model.config.model_type]
    decoder = getattr(body, "decoder", None)
    stack = decoder if isinstance(decoder, nn.Module) else body
    if name and not hasattr(stack, name):
        raise _not_so(model, f"it has no norm named {name}")
    found = (getattr(stack, one, None) for one in (name, "project_out") if one)
    return [one for one in found if isinstance(one, nn.Module)]


def _not_so(model: Any, what: str) -> UserError:
    return UserError(
        f"The layers of {type(model).__name__} cannot be read: {what}.",
        expected="a model whose last layer, its last norm and its head give the model's own output",
        action="Look at its maps, or open another model for this.",
    )
