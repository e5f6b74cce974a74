"""One pass in which everything between a model's parts and its output is linear, with a proof.

What attention and feed-forward parts give is taken as given, each norm keeps the scale that it had, and so
does an activation in the head: what is left between these sources and a difference of two logits is linear,
so that each source adds its gradient times itself and all of them add up (Elhage et al. 2021; the frozen norm
is that of the direct logit attribution of Wang et al. 2022, the frozen activation the rule of Ali et al. 2022
for products with a factor). `bent_step` proves that nothing else bends the way: a step that multiplies is
linear when the sources flow into one of its factors alone.

| symbol | meaning                                                    | shape                     |
|--------|------------------------------------------------------------|---------------------------|
| source | what a part gives, or a bias                               | any                       |
| scale  | 1/σ of a norm, or output / input of an activation          | [1, n_tokens, 1 or d]     |
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnscope.models.huggingface.anatomy import Anatomy, is_norm, is_product, norm_form
from attnscope.models.passes import CallPlace, hooked
from attnscope.records.sites import SiteKey

Hook = Callable[..., Any]
SourceKind = Literal["embedding", "heads", "feed-forward", "bias"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """One tensor that contributes to the output; `site` is that of heads, or the stack and layer of a
    part.
    """

    kind: SourceKind
    value: Tensor
    label: str
    site: SiteKey | None = None


class FrozenPass:
    """The sources of one pass in the order of the model, and what was frozen in the head.

    With `has_one_embedding` what enters the first layer is one source: patches and their places alike.
    """

    def __init__(self, model: Any, anatomy: Anatomy, *, has_one_embedding: bool = False) -> None:
        self.sources: list[Source] = []
        self.frozen: list[str] = []
        self.strange: list[str] = []
        """Norms of an unknown form, by name: when one stands on the way, the proof fails there."""
        self._model, self._anatomy = model, anatomy
        self._has_one_embedding = has_one_embedding
        self._names: dict[nn.Module, str] = {part: name for name, part in model.named_modules()}
        self._n_calls: Counter[nn.Module] = Counter()
        self._layer: SiteKey | None = None
        self._has_begun = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Freeze the model's next pass, and keep its sources."""
        before, after = self._hooks()
        with ExitStack() as stack:
            for part, hook in before:
                stack.callback(part.register_forward_pre_hook(hook).remove)
            for part, change in after:
                stack.callback(part.register_forward_hook(change).remove)
            for part in self._model.modules():  # heads like RoBERTa's, whose activation is no module
                if all(hasattr(part, name) for name in ("dense", "layer_norm", "decoder")):
                    stack.enter_context(self._between(part.dense, part.layer_norm))
            yield

    def _hooks(self) -> tuple[list[tuple[nn.Module, Hook]], list[tuple[nn.Module, Hook]]]:
        """Run hooks before and after each part; within a list, the first runs first."""
        anatomy = self._anatomy
        blocks = _modules(anatomy.blocks)
        inside = {module for block in blocks for module in block.modules()}
        before: list[tuple[nn.Module, Hook]] = [(part, self._enter) for part in blocks]
        before += [(part, self._heads) for part in _modules(anatomy.projections)]
        feed_forwards = _modules(anatomy.feed_forwards)
        after: list[tuple[nn.Module, Hook]] = []
        for part in self._model.modules():
            if isinstance(part, nn.Embedding):
                after.append((part, self._embedding))
            elif is_norm(part):
                after.append((part, self._norm))
            elif part in feed_forwards:
                after.append((part, self._feed_forward))
            elif is_product(part) and getattr(part, "bias", None) is not None:
                after.append((part, self._bias))
            elif part not in inside and "activation" in type(part).__module__:
                after.append((part, self._activation))
        return before, after + [(part, self._leave) for part in blocks]

    def _enter(self, part: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        self._layer = _key_of(self._anatomy.blocks, part, self._n_calls[part])
        self._n_calls[part] += 1
        is_first = not self._has_begun
        self._has_begun |= self._layer is not None and self._layer[0] == self._anatomy.predicting_stack
        if not (self._has_one_embedding and is_first and self._has_begun and arguments):
            return None
        return (self._keep("embedding", arguments[0], "embedding"), *arguments[1:])

    def _leave(self, *_: Any) -> None:
        self._layer = None

    def _keep(self, kind: SourceKind, value: Tensor, label: str, site: SiteKey | None = None) -> Tensor:
        leaf = value.detach().requires_grad_()
        self.sources.append(Source(kind=kind, value=leaf, label=label, site=site))
        return leaf

    def _embedding(self, part: nn.Module, _: Any, output: Tensor) -> Tensor:
        name = self._names[part].rpartition(".")[2]
        is_place = "pos" in name or name == "wpe"
        return self._keep(
            "embedding", output, "position" if is_place else "segment" * ("type" in name) or "token"
        )

    def _heads(self, part: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        site = _key_of(self._anatomy.projections, part, self._n_calls[part])
        self._n_calls[part] += 1
        return (self._keep("heads", arguments[0], "", site), *arguments[1:])

    def _feed_forward(self, part: nn.Module, _: Any, output: Any) -> Any:
        label = "feed-forward" if self._layer is None else f"L{self._layer[1]} feed-forward"
        if isinstance(output, tuple):
            return (self._keep("feed-forward", output[0], label, self._layer), *output[1:])
        return self._keep("feed-forward", output, label, self._layer)

    def _bias(self, part: Any, _: Any, output: Tensor) -> Tensor:
        leaf = self._keep("bias", part.bias, self._bias_label(part), self._layer)
        return output + (leaf - leaf.detach())

    def _norm(self, part: Any, arguments: tuple[Any, ...], output: Any) -> Any:
        if not arguments or not isinstance(output, Tensor):
            return None
        form = norm_form(part, arguments[0], output.detach())
        if form is None:
            self.strange.append(self._names[part])
            return None
        linear = form.apply(arguments[0])
        bias = getattr(part, "bias", None)
        if bias is not None:
            linear = linear + self._keep("bias", bias, self._bias_label(part), self._layer).float()
        return output.detach() + (linear - linear.detach()).to(output)

    def _activation(self, part: nn.Module, arguments: tuple[Any, ...], output: Any) -> Any:
        if not arguments or not isinstance(output, Tensor):
            return None
        one = output[..., :1].detach()
        rounding = _ROUNDING * float(output.detach().abs().max())  # of its own: kernels differ by the width
        if not torch.allclose(part.forward(arguments[0][..., :1]), one, atol=rounding):
            return None  # such as a softmax, which works on all together
        self.frozen.append(type(part).__name__)
        return _frozen_factor(arguments[0], output)

    def _bias_label(self, part: nn.Module) -> str:
        what = "norm" if is_norm(part) else "layer"
        if self._layer is not None:
            site = next((k for k, p in self._anatomy.projections.items() if p.module is part), None)
            return f"L{self._layer[1]} {what if site is None else site[0]} bias"
        if part is self._model.get_output_embeddings():
            return "output bias"
        if not self._has_begun:
            return f"embedding {what} bias"
        is_body = self._names[part].startswith(f"{self._model.base_model_prefix}.")
        return f"last {what} bias" if is_body else f"output {what} bias"

    @contextmanager
    def _between(self, first: nn.Module, second: nn.Module) -> Iterator[None]:
        kept: list[Tensor] = []

        def after(_: nn.Module, __: Any, output: Tensor) -> None:
            kept[:] = [output]

        def before(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
            if not kept or kept[0].shape != arguments[0].shape:
                return None
            self.frozen.append("activation")
            return (_frozen_factor(kept.pop(), arguments[0]), *arguments[1:])

        handles = [
            first.register_forward_hook(after),
            second.register_forward_pre_hook(before, prepend=True),
        ]
        with hooked(handles):
            yield


_ROUNDING = 1e-5


def _modules(places: Mapping[SiteKey, CallPlace]) -> dict[nn.Module, None]:
    """The modules at some places, each once, in order."""
    return dict.fromkeys(place.module for place in places.values())


def _key_of(places: Mapping[SiteKey, CallPlace], part: nn.Module, call: int) -> SiteKey | None:
    return next((key for key, place in places.items() if place.module is part and place.call == call), None)


def _frozen_factor(x: Tensor, output: Tensor) -> Tensor:
    factor = torch.where(x == 0, 0.0, output / torch.where(x == 0, 1.0, x)).detach()
    linear = x * factor
    return output.detach() + (linear - linear.detach())


_LINEAR = frozenset(
    f"{name}Backward{number}"
    for number in (0, 1)
    for name in (
        "Add Sub Neg Mul Div Mm Bmm Mv Dot Addmm View UnsafeView ReshapeAlias T Transpose Permute Unsqueeze"
        " Squeeze Expand Slice Select Index Clone ToCopy Alias Mean Sum Cat Split SplitWithSizes Unbind"
    ).split()
)
_PRODUCTS = ("Mul", "Mm", "Bmm", "Mv", "Dot", "Addmm")


def bent_step(result: Tensor, sources: Iterable[Tensor]) -> str:
    """The first nonlinear step between the sources and `result`, by name; empty if there is none."""
    leaves = {id(source) for source in sources}
    first: Any = result.grad_fn
    order, children = list[Any](), dict[Any, list[Any]]()
    waiting, seen = [first], {first}
    while waiting:
        node = waiting.pop()
        order.append(node)
        children[node] = [child for child, _ in node.next_functions]
        for child in children[node]:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)
    live = _leading_to(leaves, order, children)
    for node in order:
        factors = [child in live for child in children[node]]
        if node not in live or not children[node]:
            continue
        name: str = node.name()
        if name not in _LINEAR:
            return name
        if name.startswith("Div") and len(factors) > 1 and factors[1]:
            return name
        is_product = name.startswith(_PRODUCTS)
        if is_product and sum(factors[-2:]) > 1:
            return name
    return ""


def _leading_to(leaves: set[int], order: list[Any], children: Mapping[Any, list[Any]]) -> set[Any]:
    """The steps that a source contributes to."""
    parents: dict[Any, list[Any]] = {}
    for node in order:
        for child in children[node]:
            if child is not None:
                parents.setdefault(child, []).append(node)
    live = {node for node in order if id(getattr(node, "variable", None)) in leaves}
    waiting = list(live)
    while waiting:
        for parent in parents.get(waiting.pop(), ()):
            if parent not in live:
                live.add(parent)
                waiting.append(parent)
    return live
