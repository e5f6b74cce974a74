"""The six steps inside a head, each as a formula with the numbers of one key. Must not import Qt."""

import math
from typing import Literal, get_args

import numpy as np

from attnscope.counting import number_text, plural, short_words
from attnscope.records.maps import HeadInside, within
from attnscope.records.sites import gate_note

Step = Literal["product", "scale", "mask", "softmax", "values", "output"]
STEPS: tuple[Step, ...] = get_args(Step)
STEP_TIPS: dict[Step, str] = {
    "product": "The query and a key, compared dimension by dimension; their sum",
    "scale": "The sum times the scale; capped and with a bias where the model does so",
    "mask": "Keys the query may not see get the score −∞",
    "softmax": "exp(score), divided so that the row sums to 1",
    "values": "Each key's value times its weight",
    "output": "The sum of the weighted values: what the head gives for this query",
}


def step_words(
    inside: HeadInside, step: Step, row: int | None, dimension: int | None = None
) -> tuple[str, str]:
    """The formula of a step with the numbers of the key in `row`, and what else there is to say.

    `dimension` is the one under the cursor: of q and k, or of the values in the last two steps.
    """
    if inside.is_blind:
        return ("The mask hides every key from this query.", "Its output is 0.")
    if step == "output":
        return _output_words(inside, dimension)
    if row is None:
        return ("", "")
    match step:
        case "product":
            return _product_words(inside, row, dimension)
        case "scale":
            return _scale_words(inside, row)
        case "mask":
            return _mask_words(inside, row)
        case "softmax":
            return _softmax_words(inside, row)
        case "values":
            return _value_words(inside, row, dimension)


def rest_words(inside: HeadInside) -> str:
    """What takes weight and is not shown: the other keys, and the sink."""
    parts = []
    if inside.n_rest:
        more = plural(inside.n_rest, "more key")
        parts.append(f"{more}: weight {number_text(inside.rest_weight)}")
    if inside.sink is not None:
        parts.append(f"sink: weight {number_text(inside.sink_weight)}")
    return " · ".join(parts)


def check_words(inside: HeadInside) -> str:
    """Whether the numbers can be believed: how far the recomputed output is from the model's own."""
    worst = max(inside.output_error, inside.row_sum_error)
    return f"✓ exact{within(inside.output_error)}" if inside.is_exact else f"⚠ off by {worst:.0e}"


def column_words(inside: HeadInside) -> dict[str, str]:
    """The heading of every column that this head has, from left to right."""
    heads = {"k": "k"}
    heads["products"] = {"product": "q ∘ k", "additive": "w tanh(q+k)", "kernel": "q ∘ k"}[inside.comparison]
    heads["dot"] = "sum" if inside.comparison == "additive" else "q · k"
    heads["scaled"] = f"× {inside.scale:.3g}"
    if inside.logged is not None:
        heads["logged"] = "ln"
    if inside.capped is not None:
        heads["capped"] = f"cap {inside.softcap:g}"
    if inside.bias is not None:
        heads["bias"] = "bias"
    return {**heads, "score": "score", "weight": "weight", "weighted": "weight · v"}


def title_words(inside: HeadInside) -> str:
    """Stack and query, for the line beside the head's name."""
    return f"{inside.head.stack}{gate_note(inside.gate)} · query {inside.query}"


def _product_words(inside: HeadInside, row: int, dimension: int | None) -> tuple[str, str]:
    left = {"product": "q · k", "additive": "Σ w tanh(q + k)", "kernel": "φ(q) · φ(k)"}[inside.comparison]
    products = inside.products[row]
    largest = np.argsort(-np.abs(products), kind="stable")
    terms = [short_words(products[d]) for d in largest[:3]]
    terms = terms[:1] + [f"({term})" if term.startswith("−") else term for term in terms[1:]]
    more = " + …" if len(products) > len(terms) else ""
    formula = f"{left} = {' + '.join(terms)}{more} = {number_text(inside.dot[row])}"
    if dimension is not None and dimension < len(products):
        return (formula, f"dimension {dimension}: {_term_words(inside, row, dimension)}")
    first = int(largest[0]) if len(products) else 0
    words = _term_words(inside, row, first) if len(products) else ""
    return (formula, f"{len(products)} terms, the largest in dimension {first}: {words}")


def _term_words(inside: HeadInside, row: int, d: int) -> str:
    q, k, product = inside.q[d], inside.k[row, d], number_text(inside.products[row, d])
    if inside.comparison == "additive":
        return f"w · tanh({number_text(q)} + {_operand(k)}) = {product}"
    return f"{number_text(q)} · {_operand(k)} = {product}"


def _scale_words(inside: HeadInside, row: int) -> tuple[str, str]:
    dot, scaled = float(inside.dot[row]), float(inside.scaled[row])
    formula = f"score = {number_text(inside.scale)} · {_operand(dot)} = {number_text(scaled)}"
    last = scaled
    if inside.logged is not None:
        formula += f", ln = {number_text(inside.logged[row])}"
        last = float(inside.logged[row])
    if inside.capped is not None and inside.softcap is not None:
        cap, capped = number_text(inside.softcap), float(inside.capped[row])
        formula += f" → {cap} · tanh({number_text(last)} / {cap}) = {number_text(capped)}"
        last = capped
    if inside.bias is not None:
        bias = float(inside.bias[row])
        words = f"{number_text(last)} + {_operand(bias)} = {number_text(last + bias)}"
        return (formula, f"then the bias: {words}")
    d = len(inside.q)
    is_root = math.isclose(inside.scale, d**-0.5, rel_tol=1e-6)
    return (formula, f"{number_text(inside.scale)} = 1 / √{d}" if is_root else "")


def _mask_words(inside: HeadInside, row: int) -> tuple[str, str]:
    seen = f"{inside.n_allowed:,} of {inside.n_keys:,} keys are allowed"
    if inside.is_allowed(row):
        return (f"allowed: the score stays {number_text(inside.score[row])}", seen)
    return ("not allowed: the score becomes −∞, the weight 0", seen)


def _softmax_words(inside: HeadInside, row: int) -> tuple[str, str]:
    over = plural(inside.n_allowed, "key") + (" and the sink" if inside.sink is not None else "")
    note = f"{number_text(inside.lse)} = ln Σ exp(score) over {over}"
    is_linear = inside.comparison == "kernel" and inside.bias is None and inside.capped is None
    if is_linear and inside.is_allowed(row):
        share = f"{number_text(inside.scaled[row])} ÷ {number_text(math.exp(inside.lse))}"
        formula = f"weight = {share} = {number_text(inside.weight[row])}"
        return (formula, f"φ(q) · φ(k) by its sum over {over}: linear attention has no exponential")
    if not inside.is_allowed(row):
        return ("weight = exp(−∞) = 0", note)
    score, weight = number_text(inside.score[row]), number_text(inside.weight[row])
    return (f"weight = exp({score} − {_operand(inside.lse)}) = {weight}", note)


def _value_words(inside: HeadInside, row: int, dimension: int | None) -> tuple[str, str]:
    if not inside.is_allowed(row):
        return ("weight · v = 0", f"not allowed; ‖v‖ = {number_text(inside.value_norms[row])}")
    weight, norm = float(inside.weight[row]), float(inside.value_norms[row])
    product = number_text(weight * norm)
    formula = f"‖weight · v‖ = {number_text(weight)} · {number_text(norm)} = {product}"
    if dimension is None or dimension >= inside.v.shape[1]:
        return (formula, "the norm of this key's contribution to the output")
    v, term = inside.v[row, dimension], inside.weighted[row, dimension]
    return (formula, f"dimension {dimension}: {number_text(weight)} · {_operand(v)} = {number_text(term)}")


def _output_words(inside: HeadInside, dimension: int | None) -> tuple[str, str]:
    length = float(np.linalg.norm(inside.output.astype(np.float64)))
    over = f"{inside.n_allowed:,} keys" if inside.n_allowed != 1 else "1 key"
    formula = f"‖output‖ = ‖Σ weight · v‖ = {number_text(length)}"
    if inside.gate != 1:
        formula += f", × gate {number_text(inside.gate)} = {number_text(inside.gate * length)}"
    if dimension is not None and dimension < len(inside.output):
        return (formula, f"dimension {dimension}: {number_text(inside.output[dimension])}")
    return (formula, f"over {over}; at most {inside.output_error:.0e} from the model's own output")


def _operand(value: float) -> str:
    """A number after an operator: a negative one in brackets."""
    words = number_text(value)
    return f"({words})" if words.startswith("−") else words
