"""Linear probes: what a linear classifier can read off each layer's stream, word by word.

| symbol | meaning                                                       | shape                       |
|--------|---------------------------------------------------------------|-----------------------------|
| x      | a word's row of the stream, each number standardised          | [n_words, d]                |
| W, b   | the probe                                                     | [n_labels, d], [n_labels]   |
| y      | the number of each word's label, −1: one never trained on     | [n_words]                   |

    p(y | x) = softmax(W x + b)_y
    L(W, b) = −mean log p(y | x) + λ/2 ‖W‖²      (Alain and Bengio 2016, section 3; Hewitt and Liang 2019)

L is convex and, by its second part, has one smallest place, which L-BFGS finds from 0 with all words at once:
the same data give the same probe. The control task gives every word type a random label, drawn as often as
the labels occur among the words; what a probe can learn of it, it has memorised (Hewitt and Liang 2019,
section 2.1). Both tasks are learned with the same λ and told of the same held-out sentences.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.bootstrap import RatioBootstrap
from attnscope.analysis.model_reading import ModelReading
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.nn.long_work import as_news, stop_if_unwanted
from attnscope.records.experiments import ProbeLayer, WordPiece
from attnscope.records.measures import Share
from attnscope.records.tokens import Token
from attnscope.text.corpora import TaggedText, first_pieces

MOST_STEPS, STEPS_A_PIECE = 300, 10
_FLAT = 1e-4
"""L-BFGS ends where no number of the gradient is larger."""
_LEAST_READ = 0.25
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbedWords:
    """The labelled words of some texts: `x` [n_layers + 1, n_words, d] float32, the rest [n_words].

    `x[0]` enters the first layer. `text` is the number of a word's text. `n_unread` words were cut off,
    are unknown or share their pieces with others; of `n_pieces` pieces `n_unknown` are in no vocabulary.
    """

    x: NDArray[np.float32]
    words: tuple[str, ...]
    labels: tuple[str, ...]
    text: NDArray[np.int64]
    n_unread: int
    n_pieces: int
    n_unknown: int


def read_words(
    model: Model, texts: Sequence[TaggedText], piece: WordPiece
) -> Generator[tuple[int, int], None, ProbedWords]:
    """Read the texts one by one; yields the number read, and the number of rows of the stream.

    A word's row is that of its last or first piece, or the mean of all. Of a translator the encoder is read.
    """
    rows: list[NDArray[np.float32]] = []
    words: list[str] = []
    labels: list[str] = []
    numbers: list[int] = []
    n_unread = n_pieces = n_unknown = 0
    is_translating = model.info.form == "encoder-decoder"
    for number, text in enumerate(texts):
        stop_if_unwanted()
        reading = ModelReading(model, text.text, "" if is_translating else None)
        x = reading.stream("encoder") if is_translating else reading.stream()
        source = reading.source
        n_pieces, n_unknown = n_pieces + len(source), n_unknown + source.n_unknown
        for k, found in enumerate(pieces_of_words(source.tokens, text.starts)):
            label = text.labels[k]
            if label is None:
                continue
            if found is None:
                n_unread += 1
                continue
            own = x[:, found]  # [n_layers + 1, n, d]
            row = own.mean(axis=1) if piece == "mean" else own[:, -1 if piece == "last" else 0]
            rows.append(row.astype(np.float32))
            words.append(_word(text, k))
            labels.append(label)
            numbers.append(number)
        yield number + 1, len(x)
    n_labelled = len(rows) + n_unread
    if len(rows) <= _LEAST_READ * n_labelled:
        raise UserError(
            f"{model.info.name} reads {len(rows):,} of {plural(n_labelled, 'labelled word')}: its tokenizer "
            "does not know the others.",
            expected="sentences in its own words",
            action="Open another model, or choose a file of such sentences.",
        )
    return ProbedWords(
        x=np.stack(rows, axis=1),
        words=tuple(words),
        labels=tuple(labels),
        text=np.array(numbers, np.int64),
        n_unread=n_unread,
        n_pieces=n_pieces,
        n_unknown=n_unknown,
    )


def pieces_of_words(tokens: Sequence[Token], starts: Sequence[int]) -> list[range | None]:
    """The tokens of each word; None for one that was cut off, is unknown, or shares a token with another."""
    firsts = first_pieces(tokens, starts)
    end = 1 + max((i for i, token in enumerate(tokens) if token.end), default=-1)
    found: list[range | None] = []
    for k, first in enumerate(firsts):
        after = firsts[k + 1] if k + 1 < len(firsts) else end
        is_shared = first is not None and first in (after, firsts[k - 1] if k else None)
        own = range(first or 0, end if after is None else after)
        is_unknown = any(tokens[i].is_special for i in own)
        found.append(None if first is None or is_shared or is_unknown else own)
    return found


def _word(text: TaggedText, k: int) -> str:
    """A word in lower case: its type."""
    end = text.starts[k + 1] if k + 1 < len(text.starts) else len(text.text)
    return text.text[text.starts[k] : end].strip().lower()


def control_labels(words: Sequence[str], labels: Sequence[str], seed: int) -> dict[str, str]:
    """A random label for each word type, drawn from all `labels` and so as frequent as they are."""
    draw = np.random.default_rng(seed)
    types = sorted(set(words))
    return dict(zip(types, (labels[int(i)] for i in draw.integers(0, len(labels), len(types))), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probe:
    """A trained probe: its standardisation [d], and W [n_labels, d], b [n_labels] after it."""

    mean: Tensor
    spread: Tensor
    weight: Tensor
    bias: Tensor
    loss: float
    n_steps: int

    def told(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """The most probable label of each row."""
        logits = _standard(torch.from_numpy(x), self.mean, self.spread) @ self.weight.T + self.bias
        found: NDArray[np.int64] = logits.argmax(dim=1).numpy()
        return found


def train_probe(
    x: NDArray[np.float32], y: NDArray[np.int64], n_labels: int, strength: float
) -> Generator[None, None, Probe]:
    """Train the probe on these words; yields every few steps."""
    rows, labels = torch.from_numpy(x).double(), torch.from_numpy(y)
    mean, spread = rows.mean(dim=0), rows.std(dim=0, correction=0)
    rows = _standard(rows, mean, spread)
    weight = torch.zeros(n_labels, x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(n_labels, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.LBFGS(
        [weight, bias],
        max_iter=STEPS_A_PIECE,
        history_size=20,
        tolerance_grad=_FLAT,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        descent.zero_grad()
        found = probe_loss(rows, labels, weight, bias, strength)
        torch.autograd.backward(found)
        return found

    n_steps, value = 0, float("nan")
    while n_steps < MOST_STEPS:
        stop_if_unwanted()
        before, value = value, float(descent.step(loss).detach())  # type: ignore[no-untyped-call]
        n_steps += STEPS_A_PIECE
        grads = [one.grad for one in (weight, bias) if one.grad is not None]
        if value == before or max(float(one.abs().max()) for one in grads) <= _FLAT:
            break
        yield
    return Probe(
        mean=mean,
        spread=spread,
        weight=weight.detach(),
        bias=bias.detach(),
        loss=float(probe_loss(rows, labels, weight, bias, strength).detach()),
        n_steps=n_steps,
    )


def probe_loss(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, strength: float) -> Tensor:
    """L of the module's legend, of standardised rows."""
    fit = torch.nn.functional.cross_entropy(x @ weight.T + bias, y)
    return fit + strength / 2 * weight.square().sum()


def _standard(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """Each number minus its mean, divided by its spread; constants become 0."""
    return torch.where(spread > 0, (x.double() - mean) / torch.where(spread > 0, spread, 1.0), 0.0)


class ProbeTasks:
    """The task and its control, over words some of whose texts are held out."""

    def __init__(self, found: ProbedWords, held_out: NDArray[np.bool_], seed: int) -> None:
        """`held_out` [n_words]; raises UserError if too little is left for training or testing."""
        self._found, self._held_out = found, held_out
        trained = [label for label, is_out in zip(found.labels, held_out, strict=True) if not is_out]
        self.labels = tuple(sorted(set(trained)))
        if len(self.labels) < 2 or not held_out.any():
            raise UserError(
                f"{len(trained):,} words to learn from have {plural(len(self.labels), 'label')}, and "
                f"{int(held_out.sum()):,} are held out.",
                expected="2 labels or more, and sentences on both sides",
                action="Read more sentences.",
            )
        self._usual = Counter(trained).most_common(1)[0][0]
        control = control_labels(found.words, trained, seed)
        number = {label: k for k, label in enumerate(self.labels)}
        self.y = np.array([number.get(label, -1) for label in found.labels], np.int64)
        self.y_control = np.array([number[control[word]] for word in found.words], np.int64)

    @property
    def majority(self) -> float:
        """The share of held-out words that have the most frequent label of the others."""
        return self._share([self._usual] * len(self._found.words))

    @property
    def word_alone(self) -> float:
        """Accuracy of giving each word type its most frequent label among the other words."""
        seen: dict[str, Counter[str]] = {}
        for word, label, is_out in zip(self._found.words, self._found.labels, self._held_out, strict=True):
            if not is_out:
                seen.setdefault(word, Counter())[label] += 1
        usual = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
        return self._share([usual.get(word, self._usual) for word in self._found.words])

    def layer(self, layer: int, strength: float) -> Generator[int, None, ProbeLayer]:
        """Train both probes of a layer; yields 1, 2, 3 … every few steps."""
        x, held_out = self._found.x[layer], self._held_out
        right, n_told = [], count(1)
        for y in (self.y, self.y_control):
            steps = train_probe(x[~held_out], y[~held_out], len(self.labels), strength)
            probe = yield from as_news(steps, lambda _: next(n_told))
            right.append(probe.told(x[held_out]) == y[held_out])
        found, y = right[0], self.y[held_out]
        shares = [found[y == k].mean() if (y == k).any() else np.nan for k in range(len(self.labels))]
        task, control, selectivity = self._intervals(np.stack(right))
        return ProbeLayer(
            task=task, control=control, selectivity=selectivity, by_label=tuple(map(float, shares))
        )

    def _intervals(self, right: NDArray[np.bool_]) -> Iterator[Share]:
        """The shares of right answers of both tasks and their difference, over the held-out sentences."""
        texts = self._found.text[self._held_out]
        bootstrap = RatioBootstrap(3)
        for number, text in enumerate(np.unique(texts).tolist()):
            of_task, of_control = right[:, texts == text].sum(axis=1)
            counts = np.array([[of_task, of_control, of_task - of_control]], np.float32)
            bootstrap.add([number], counts, np.full((1, 3), (texts == text).sum()))
        found = bootstrap.intervals(limits=(np.array([0.0, 0.0, -1.0]), np.array([1.0, 1.0, 1.0])))
        rows = zip(found.values.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
        return (Share(value=value, low=low, high=high) for value, low, high in rows)

    def _share(self, told: Sequence[str]) -> float:
        rows = zip(told, self._found.labels, self._held_out, strict=True)
        return float(np.mean([one == label for one, label, is_out in rows if is_out]))
