"""The proof that nothing but linear steps stands between some sources and a number, by name of each step.

A step that multiplies is linear when the sources flow into one of its factors alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

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
    """The first step between the sources and `result` that is not linear, by name; empty when all are."""
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
    """The steps that a source flows into."""
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
