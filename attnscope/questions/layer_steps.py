"""One layer, step by step, for one token: what its parts read, what they give, and the stream after each.

| symbol | meaning                                                | shape |
|--------|--------------------------------------------------------|-------|
| x      | the stream that enters the layer                       | [d]   |
| r      | what a part reads: norm(x) in pre-norm layers          | [d]   |
| Δ      | what a part gives; attention is summed over its heads  | [d]   |
| s      | the stream with what was given added                   | [d]   |

Pre-norm adds f(norm(x)), post-norm takes norm(x + f(x)) (Xiong et al. 2020, figure 1); in parallel layers
both parts read the stream that entered.
"""

from dataclasses import dataclass

import numpy as np

from attnscope.counting import fixed, format_number
from attnscope.errors import UserError
from attnscope.fields import number
from attnscope.questions.question import Numbers, Question, Reading, Streams, stack_option
from attnscope.questions.residual_stream import cosine
from attnscope.records.asking import Answer, Cell, NumberTable
from attnscope.records.charts import Chart, Series

_N_FIRST = 4
_CLOSE = 1e-4
_SUM = "plus residual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which layer of which stack, and which token."""

    layer: int = number(0, range(96), title="layer", tip="Which layer is walked through, from 0")
    token: int = number(1, range(256), title="token", tip="Which token, from 0; the last one at most")
    stack: str = stack_option()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One vector on the way through a layer."""

    name: str
    vector: Numbers


class LayerSteps(Question):
    """The vectors of one token on its way through one layer."""

    name, title, order = "layer-steps", "Layer step by step", 12
    words = "one token on its way through a layer: norm, attention, residual, feed-forward"
    source = "Vaswani et al. 2017; Xiong et al. 2020"
    needs = "a Transformer with residual connections"
    formula = "pre-norm: x + f(norm(x)),   post-norm: norm(x + f(x))"
    search = ("block", "residual", "layer norm", "feed-forward", "pre-norm", "post-norm", "parallel")
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found, reads = reading.streams(options.stack), reading.part_reads(options.stack)
        if any(part.shape != found.x[1:].shape for part in found.added.values()):
            raise _not_known()
        reads = {name: part for name, part in reads.items() if part.shape == found.x[1:].shape}
        layer = min(options.layer, len(found.x) - 2)
        token = min(options.token, len(found.tokens) - 1)
        steps = steps_of(found, {name: part[layer, token] for name, part in reads.items()}, layer, token)
        try:
            units = reading.units(options.stack).activations[layer][token]
        except UserError:  # no feed-forward part, or experts
            units = None
        x, after = found.x[layer, token], found.x[layer + 1, token]
        inside = "" if units is None else f" {units_words(units)}"
        sentence = (
            f"Layer {layer}, token {token} ({found.tokens[token].piece}): the norm of the stream goes from "
            f"{format_number(float(np.linalg.norm(x)))} to {format_number(float(np.linalg.norm(after)))}, "
            f"cosine {fixed(float(cosine(x, after)))}.{inside}"
        )
        return Answer(
            sentence=sentence, charts=(_chart(steps),), tables=(_table(steps, x),), note=_note(steps)
        )


def steps_of(found: Streams, reads: dict[str, Numbers], layer: int, token: int) -> tuple[Step, ...]:
    """The vectors in the order of the layer; `reads` [d] are of this layer and token, where known.

    Where the stream is not the sum of what the parts give, the sums are left out.
    Raises UserError for post-norm layers of which a part's input is not known.
    """
    x, after = found.x[layer, token], found.x[layer + 1, token]
    names = list(found.added)
    reads = {name: read for name, read in reads.items() if read.shape == x.shape}
    first = reads.get(names[0]) if names else None
    is_post = not found.is_sum and first is not None and np.array_equal(first, x)
    if is_post and any(name not in reads for name in names[1:]):
        raise _not_known()
    steps, stream = [Step(name="stream in", vector=x)], x
    for k, name in enumerate(names):
        read, given = reads.get(name), found.added[name][layer, token]
        if read is not None and not is_post and not _is_same(read, stream):
            steps.append(Step(name=f"norm for {name}", vector=read))
        stream = stream + given
        steps += [Step(name=f"{name} gives", vector=given), Step(name=_SUM, vector=stream)]
        if is_post:
            stream = reads[names[k + 1]] if k + 1 < len(names) else after
            steps.append(Step(name="norm", vector=stream))
    whole = (*steps, Step(name="stream out", vector=after))
    if gap_of(whole) > _CLOSE:  # a part is changed before it is added: no sum of these is the model's
        return tuple(step for step in whole if step.name != _SUM)
    return whole


def _is_same(read: Numbers, stream: Numbers) -> bool:
    """Whether a part reads the stream itself, but for the rounding of the model's own precision."""
    return bool(np.linalg.norm(read - stream) <= _CLOSE * np.linalg.norm(stream))


def _not_known() -> UserError:
    return UserError(
        "Where the parts of this model's layers read and write the stream is not known.",
        expected="layers whose parts read and give a row for each token",
        action="Look at its maps, or open another model for this.",
    )


def units_words(units: Numbers) -> str:
    """How many units are on, above 0, and which gives most."""
    largest = int(np.argmax(units))
    return (
        f"Of {len(units)} feed-forward units {int((units > 0).sum())} are above 0, most of all unit "
        f"{largest} ({format_number(float(units[largest]))})."
    )


def gap_of(steps: tuple[Step, ...]) -> float:
    """How far the last step before the end lies from the stream that leaves, as a share of its norm."""
    before, after = steps[-2].vector, steps[-1].vector
    return float(np.linalg.norm(after - before) / max(np.linalg.norm(after), np.finfo(float).tiny))


def _note(steps: tuple[Step, ...]) -> str:
    if any(step.name == _SUM for step in steps):
        return ""
    return (
        "This layer changes what its parts give (by a norm or a factor) before it adds it: the sums "
        "between are not known, and left out."
    )


def _chart(steps: tuple[Step, ...]) -> Chart:
    norms = np.array([np.linalg.norm(step.vector) for step in steps])
    curve = Series(name="norm", xs=np.arange(len(steps), dtype=np.float64), ys=norms, has_points=True)
    return Chart(title="Norm at each step", x_label="step", y_label="norm", series=(curve,))


def _table(steps: tuple[Step, ...], x: Numbers) -> NumberTable:
    rows: list[tuple[Cell, ...]] = []
    for k, step in enumerate(steps):
        v = step.vector
        shown = " ".join(format_number(float(one)) for one in v[:_N_FIRST])
        rows.append((f"{k} {step.name}", float(np.linalg.norm(v)), float(cosine(x, v)), shown))
    columns = ("step", "norm", "cosine with stream in", "first numbers")
    return NumberTable(title="Steps", columns=columns, rows=tuple(rows))
