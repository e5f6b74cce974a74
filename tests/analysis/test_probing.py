"""Linear probes: the classifier against a slow one, the control task, words, who is right by chance."""

import numpy as np
import pytest
import torch
from tiny_models import tiny_model

from attnscope.analysis import (
    ProbedWords,
    ProbeTasks,
    control_labels,
    pieces_of_words,
    probe_loss,
    read_words,
    train_probe,
)
from attnscope.errors import UserError
from attnscope.records import Token
from attnscope.text import tagged


def last_of(steps):
    """What a generator returns, and how often it yielded."""
    n = 0
    while True:
        try:
            next(steps)
        except StopIteration as last:
            return last.value, n
        n += 1


def some_words(n: int = 40, d: int = 5, n_labels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows from a ramp, one number of which never changes, and labels that follow them in part."""
    x = np.sin(np.arange(n * d, dtype=np.float64) ** 1.7).reshape(n, d) * [1, 10, 0.1, 1, 1]
    x[:, 3] = 7.0
    y = (np.floor(3 * (x[:, 0] + x[:, 1] / 10 + 2) / 4 * 1.3).astype(np.int64)) % n_labels
    return x.astype(np.float32), y


def newton(x: np.ndarray, y: np.ndarray, n_labels: int, strength: float) -> np.ndarray:
    """W and b of the same loss in loops over the words, by Newton's method with the whole Hessian."""
    n, d = x.shape
    w = np.zeros((n_labels, d + 1))
    for _ in range(60):
        gradient, hessian = np.zeros(w.size), np.zeros((w.size, w.size))
        for row, label in zip(np.c_[x, np.ones(n)], y, strict=True):
            z = w @ row
            p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
            gradient += np.outer(p - np.eye(n_labels)[label], row).ravel() / n
            hessian += np.kron(np.diag(p) - np.outer(p, p), np.outer(row, row)) / n
        penalised = np.tile(np.r_[np.full(d, strength), 0.0], n_labels)
        gradient += penalised * w.ravel()
        hessian += np.diag(penalised)
        w -= (np.linalg.pinv(hessian, rcond=1e-12) @ gradient).reshape(w.shape)
    return w


@pytest.mark.parametrize("strength", [0.01, 0.1, 1.0])
def test_that_the_probe_is_the_one_that_newton_finds(strength: float) -> None:
    x, y = some_words()
    probe, _ = last_of(train_probe(x, y, 3, strength))
    mean, spread = x.astype(np.float64).mean(0), x.astype(np.float64).std(0)
    rows = np.where(spread > 1e-9, (x - mean) / np.where(spread > 1e-9, spread, 1), 0.0)
    by_hand = newton(rows, y, 3, strength)
    # the gradient is below 1e-4, and the loss curves by at least λ: so near is the weight
    np.testing.assert_allclose(probe.weight.numpy(), by_hand[:, :-1], atol=4e-4 / strength)
    loss = probe_loss(
        torch.from_numpy(rows),
        torch.from_numpy(y),
        torch.from_numpy(by_hand[:, :-1]),
        torch.from_numpy(by_hand[:, -1]),
        strength,
    )
    assert probe.loss == pytest.approx(float(loss), abs=1e-6)
    assert probe.told(x).tolist() == (np.c_[rows, np.ones(len(rows))] @ by_hand.T).argmax(1).tolist()


def test_that_the_gradient_is_that_of_small_steps() -> None:
    x, y = (torch.from_numpy(one) for one in some_words(n=11))
    weight = torch.sin(torch.arange(15, dtype=torch.float64)).view(3, 5).requires_grad_()
    bias = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64, requires_grad=True)
    probe_loss(x.double(), y, weight, bias, 0.3).backward()
    for parameter in (weight, bias):
        for place in np.ndindex(tuple(parameter.shape)):
            told = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter[place] += sign * 1e-5
                    told.append(float(probe_loss(x.double(), y, weight, bias, 0.3)))
                    parameter[place] -= sign * 1e-5
            assert float(parameter.grad[place]) == pytest.approx((told[0] - told[1]) / 2e-5, abs=1e-7)


def test_that_the_same_words_give_the_same_probe_whatever_their_order() -> None:
    x, y = some_words()
    first, _ = last_of(train_probe(x, y, 3, 0.1))
    again, _ = last_of(train_probe(x, y, 3, 0.1))
    assert torch.equal(first.weight, again.weight)
    order = np.argsort(np.cos(np.arange(len(y))))
    other, _ = last_of(train_probe(x[order], y[order], 3, 0.1))
    torch.testing.assert_close(other.weight, first.weight, atol=2e-3, rtol=0)


def token(start: int, end: int, *, is_special: bool = False) -> Token:
    return Token(id=0, piece="x", start=start, end=end, is_special=is_special)


def test_that_a_word_has_its_own_pieces_alone_and_none_that_two_words_share() -> None:
    special = token(0, 0, is_special=True)
    pieces = [special, token(0, 2), token(2, 3), token(3, 9), token(9, 10), special]
    assert pieces_of_words(pieces, (0, 4, 9)) == [range(1, 3), range(3, 4), range(4, 5)]
    assert pieces_of_words(pieces, (0, 4, 6, 9)) == [range(1, 3), None, None, range(4, 5)]
    assert pieces_of_words(pieces[:3], (0, 4)) == [range(1, 3), None], "the second was cut off"
    assert pieces_of_words([special], (0,)) == [None]


def test_that_random_labels_are_one_for_each_word_and_as_frequent_as_the_labels() -> None:
    words = [f"w{k}" for k in range(4000)]
    labels = ["A"] * 3 + ["B"]
    found = control_labels([*words, *words], labels, 3)
    assert set(found) == set(words)
    assert sum(label == "A" for label in found.values()) / 4000 == pytest.approx(0.75, abs=0.03)
    assert found == control_labels(words[::-1], labels, 3) != control_labels(words, labels, 4)


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("piece", ["last", "first", "mean"])
def test_that_a_word_is_read_at_its_pieces_after_every_layer(form: str, piece: str) -> None:
    model = tiny_model(form)
    texts = [
        tagged(("the", "cat", "sat"), ("DET", "NOUN", None)),
        tagged(("a", "bird"), ("DET", "NOUN")),
    ]
    found, n = last_of(read_words(model, texts, piece))
    assert n == 2
    assert (found.words, found.labels) == (("the", "cat", "a", "bird"), ("DET", "NOUN", "DET", "NOUN"))
    assert found.text.tolist() == [0, 0, 1, 1]
    assert found.x.shape == (3, 4, 16)
    module, probe_rows = model.own.module, {}
    stack = module.decoder if form == "decoder" else module.encoder
    for number, text in enumerate(texts):
        rows: list[torch.Tensor] = []
        handles = [
            block.register_forward_pre_hook(lambda _, given, r=rows: r.append(given[0])) for block in stack
        ]
        handles.append(stack[-1].register_forward_hook(lambda _, __, out, r=rows: r.append(out)))
        model.trace(text.text, "" if form == "encoder-decoder" else None)
        for handle in handles:
            handle.remove()
        probe_rows[number] = [row[0] for row in rows[:3]]
    tokens = model.encode("the cat sat", "" if form == "encoder-decoder" else None).source.tokens
    place = [token.piece for token in tokens].index("cat")
    for layer in range(3):
        np.testing.assert_allclose(found.x[layer, 1], probe_rows[0][layer][place].numpy(), atol=1e-6)


def test_that_a_model_of_other_words_is_refused() -> None:
    texts = [tagged(("zebra", "quagga", "okapi", "the", "gnu"), ("NOUN",) * 3 + ("DET", "NOUN"))]
    with pytest.raises(UserError, match="reads 1 of 5 labelled words: its tokenizer"):
        last_of(read_words(tiny_model("encoder"), texts, "last"))


def words_of(*rows: tuple[str, str, int]) -> ProbedWords:
    words, labels, texts = zip(*rows, strict=True)
    x = np.stack(
        [np.eye(4, dtype=np.float32)[[ord(w[0]) % 4 for w in words]], np.ones((len(words), 4), np.float32)]
    )
    return ProbedWords(
        x=x, words=words, labels=labels, text=np.array(texts), n_unread=0, n_pieces=len(words), n_unknown=0
    )


ROWS = (
    [("a", "X", k) for k in range(8)] + [("b", "Y", k) for k in range(8)] + [("c", "Y", k) for k in range(4)]
)
OUT = np.array([k >= 6 for _, _, k in ROWS])


def test_that_who_looks_at_no_model_is_right_as_often_as_counting_says() -> None:
    rows = [*ROWS, ("a", "Y", 6), ("d", "Z", 7)]
    tasks = ProbeTasks(words_of(*rows), np.array([k >= 6 for _, _, k in rows]), 0)
    assert tasks.labels == ("X", "Y")  # Z was never trained on
    out = [(word, label) for word, label, k in rows if k >= 6]
    assert tasks.majority == sum(label == "Y" for _, label in out) / len(out)
    assert tasks.word_alone == 4 / 6  # a is X, b is Y; one a is Y, and d is told Y
    assert tasks.y[-1] == -1


def test_that_a_layer_that_knows_the_word_tells_its_label_and_one_that_knows_nothing_the_usual() -> None:
    tasks = ProbeTasks(words_of(*ROWS), OUT, 1)
    knows, _ = last_of(tasks.layer(0, 0.001))
    blank, _ = last_of(tasks.layer(1, 0.001))
    assert knows.task.value == 1.0
    assert knows.by_label == (1.0, 1.0)
    assert knows.control.value == 1.0, "random labels of words can be learned by heart"
    assert knows.selectivity.value == 0.0
    assert blank.task.value == tasks.majority
    assert blank.by_label == (0.0, 1.0)


def test_that_intervals_are_over_sentences_and_hold_the_share() -> None:
    rows = [("abcd"[k % 3], "XYZ"[(k % 3 + (k % 7 == 0)) % 3], k // 4) for k in range(240)]
    tasks = ProbeTasks(words_of(*rows), np.array([k % 2 == 1 for _, _, k in rows]), 0)
    found, _ = last_of(tasks.layer(0, 0.1))
    assert 0 <= found.task.low < found.task.value < found.task.high <= 1
    assert (found.control.value, np.isnan(found.control.low)) == (1.0, True), "all sentences say the same"
    assert found.selectivity.value == pytest.approx(found.task.value - found.control.value)
    assert found.selectivity.low <= found.selectivity.value <= found.selectivity.high


@pytest.mark.parametrize("out", [np.zeros(20, bool), np.ones(20, bool)], ids=["none", "all"])
def test_that_too_little_to_learn_or_to_tell_is_refused(out: np.ndarray) -> None:
    with pytest.raises(UserError, match="held out"):
        ProbeTasks(words_of(*ROWS), out, 0)
