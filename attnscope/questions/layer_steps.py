"""One layer, step by step, for one token: its parts' inputs and outputs, and the stream.

| symbol | meaning                                                | shape     |
|--------|--------------------------------------------------------|-----------|
| x      | the stream that enters the layer                       | [d]       |
| r      | what a part reads: norm(x) in pre-norm layers          | [d]       |
| z      | the outputs of all heads side by side, what W_O reads  | [H·d_v]   |
| u      | the units of the feed-forward part, what W_2 reads     | [d_ff]    |
| Δ      | what a part gives                                      | [d]       |
| s      | the stream with what was given added                   | [d]       |

Pre-norm adds f(norm(x)), post-norm takes norm(x + f(x)) (Xiong et al. 2020, figure 1), a sandwich adds
norm(f(norm(x))) (Ding et al. 2021, section 2.4); parallel parts read the stream that entered (Wang and
Komatsuzaki 2021). Behind the last layer come its norm and the unembedding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attnscope.counting import fixed, format_number
from attnscope.errors import UserError
from attnscope.fields import number
from attnscope.questions.question import Numbers, PartPath, Passage, Question, Reading, Said, stack_option
from attnscope.questions.residual_stream import cosine
from attnscope.records.charts import Answer, Cell, Chart, NumberTable, Series

_N_FIRST = 4
_NOTES = {
    "in turn": "",
    "parallel": "The parts of this layer are parallel: all read the stream that entered, and one sum adds "
    "what each gives.",
    "reversible": "A reversible layer keeps two streams: each part reads one and is added to the other. The "
    "stream shown is their sum, which the model reads in the end; a part reads one of the two alone.",
}
_NO_SUMS = (
    "This layer changes what its parts give (by a factor) before it adds it: the sums between are not known, "
    "and left out."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The stack, the layer and the token."""

    layer: int = number(
        0,
        range(97),
        title="layer",
        tip="Which layer is walked through, from 0; one after the last is the unembedding",
        is_walked=True,
    )
    token: int = number(
        1, range(4096), title="token", tip="Which token, from 0; the last one at most", is_walked=True
    )
    stack: str = stack_option()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerVector:
    """One vector on the way through a layer; `is_stream` if it is the stream itself."""

    name: str
    vector: Numbers
    is_stream: bool = False


class LayerSteps(Question):
    """The vectors of one token on its way through one layer, and after the last one."""

    name, title, order = "layer-steps", "Layer step by step", 12
    words = (
        "one token on its way through a layer: norm, heads, residual, feed-forward; at last the unembedding"
    )
    source = "Vaswani et al. 2017; Xiong et al. 2020"
    needs = "a Transformer with residual connections"
    formula = "pre-norm: x + f(norm(x)),   post-norm: norm(x + f(x))"
    search = (
        *("block", "residual connection", "add & norm", "add and norm", "layer norm", "feed-forward", "W_O"),
        *("pre-norm", "post-norm", "parallel", "concatenation", "concatenate", "concat"),
        *("unembedding", "logits"),
    )
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.passage(options.layer, options.stack)
        token = min(options.token, len(found.tokens) - 1)
        limits = (("layer", found.n_layers), ("token", len(found.tokens) - 1))
        if options.layer < found.n_layers:
            return _through(found, token, limits)
        return _behind(reading, found, token, limits)


Limits = tuple[tuple[str, float], ...]


def _through(found: Passage, token: int, limits: Limits) -> Answer:
    steps = tuple(steps_of(found, token))
    x, after = found.x[token], found.after[token]
    units = next((part.inside for part in found.parts if part.name == "feed-forward"), None)
    inside = "" if units is None else f" {units_words(units[token])}"
    sentence = (
        f"Layer {found.layer} of 0–{found.n_layers - 1}, token {token} ({found.tokens[token].piece}): "
        f"the norm of the stream goes from {format_number(float(np.linalg.norm(x)))} to "
        f"{format_number(float(np.linalg.norm(after)))}, cosine {fixed(float(cosine(x, after)))}.{inside}"
    )
    return Answer(
        sentence=sentence,
        charts=(_chart(steps),),
        tables=(_table(steps, x),),
        note=" ".join(filter(None, (_NOTES[found.order], "" if found.adds_up else _NO_SUMS))),
        limits=limits,
    )


def steps_of(found: Passage, token: int) -> Iterator[LayerVector]:
    """The vectors in the order of the layer, without sums that are not the model's."""
    x = found.x[token]
    is_apart = found.order == "parallel"
    yield LayerVector(name="stream in, x", vector=x, is_stream=True)
    stream = x
    for part in found.parts:
        yield from _steps_of_part(part, token, is_reversible=found.order == "reversible")
        stream = stream + part.added[token]
        if found.adds_up and not is_apart:
            yield LayerVector(name="plus residual", vector=stream, is_stream=True)
        if part.after is not None:
            stream = part.after[token]
            yield LayerVector(name="norm of the sum", vector=stream, is_stream=True)
    if found.adds_up and is_apart:
        yield LayerVector(name="x plus all parts", vector=stream, is_stream=True)
    yield LayerVector(name="stream out", vector=found.after[token], is_stream=True)


def _steps_of_part(part: PartPath, token: int, *, is_reversible: bool) -> Iterator[LayerVector]:
    """Inputs of a part other than the stream, its inner values and its output."""
    is_feed_forward = part.name == "feed-forward"
    if part.reads is not None and (part.is_normed or is_reversible):
        of_one = "one stream's norm" if part.is_normed else "one stream"
        yield LayerVector(name=of_one if is_reversible else f"norm for {part.name}", vector=part.reads[token])
    if part.inside is None:
        yield LayerVector(name=f"{part.name} gives", vector=part.gives[token])
    else:
        heads = "z: heads side by side" if part.name == "attention" else f"z of {part.name}"
        inside, product = ("u: units, f(r·W_1)", "u·W_2") if is_feed_forward else (heads, "z·W_O")
        yield LayerVector(name=inside, vector=part.inside[token])
        yield LayerVector(name=f"{part.name}: {product}", vector=part.gives[token])
    if part.end is not None:
        yield LayerVector(name="norm of what it gives", vector=part.end[token])


def units_words(units: Numbers) -> str:
    """Number of active units, above 0, and the strongest one."""
    largest = int(np.argmax(units))
    return (
        f"Of {len(units)} feed-forward units {int((units > 0).sum())} are above 0, most of all unit "
        f"{largest} ({format_number(float(units[largest]))})."
    )


def _behind(reading: Reading, found: Passage, token: int, limits: Limits) -> Answer:
    """Steps after the last layer: its norm and the unembedding; none after an encoder that is read."""
    at = f"After layer {found.layer}, the last, token {token} ({found.tokens[token].piece})"
    steps = [LayerVector(name="stream in, x", vector=found.after[token], is_stream=True)]
    if found.stack == "encoder" and reading.model.form == "encoder-decoder":
        sentence = f"{at} is read by the decoder's cross-attention; nothing is told from it here."
        return Answer(sentence=sentence, tables=(_table(tuple(steps), steps[0].vector),), limits=limits)
    try:
        said = reading.said(token)
    except UserError as error:
        return Answer(sentence=error.happened, limits=limits)
    if said.normed is not None:
        steps.append(LayerVector(name="last norm", vector=said.normed))
    if said.reads is not None and not np.array_equal(said.reads, steps[-1].vector):
        steps.append(LayerVector(name="the output layer reads", vector=said.reads))
    piece, first = said.best[0]
    becomes = ", which stands for the whole input, becomes" if said.is_of_whole else " becomes"
    sentence = (
        f"{at}{becomes} {len(said.logits):,} logits; the largest, {format_number(said.logits[first])}, is "
        f"that of “{piece}”, with probability {fixed(said.p[first])}."
    )
    tables = (_table(tuple(steps), said.x), _told(said))
    return Answer(sentence=sentence, charts=(), tables=tables, limits=limits)


def _told(said: Said) -> NumberTable:
    rows = tuple((piece, float(said.logits[id]), float(said.p[id])) for piece, id in said.best)
    return NumberTable(title="Unembedding and softmax", columns=("token", "logit", "probability"), rows=rows)


def _chart(steps: tuple[LayerVector, ...]) -> Chart:
    """The norm at each step, of the stream and of everything else."""
    norms = np.array([np.linalg.norm(step.vector) for step in steps])
    at = np.arange(len(steps), dtype=np.float64)
    is_stream = np.array([step.is_stream for step in steps])
    curves = (
        Series(name="stream", xs=at[is_stream], ys=norms[is_stream], has_points=True),
        Series(name="beside it", xs=at[~is_stream], ys=norms[~is_stream], colour=1, has_points=True),
    )
    return Chart(title="Norm at each step", x_label="step", y_label="norm", series=curves)


def _table(steps: tuple[LayerVector, ...], x: Numbers) -> NumberTable:
    rows: list[tuple[Cell, ...]] = []
    for k, step in enumerate(steps):
        v = step.vector
        shown = " ".join(format_number(float(one)) for one in v[:_N_FIRST])
        angle = float(cosine(x, v)) if v.shape == x.shape else np.nan
        rows.append((f"{k} {step.name}", len(v), float(np.linalg.norm(v)), angle, shown))
    columns = ("step", "numbers", "norm", "cos(x, ·)", "first numbers")
    return NumberTable(title="Steps", columns=columns, rows=tuple(rows))
