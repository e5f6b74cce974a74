"""Which texts a head is shown in, and which edges of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from attnscope.analysis import SHORT, TellingTexts, show_texts
from attnscope.records import N_TELLING, HeadRef, Token, Tokens
from attnscope.schemes.measures import MEASURES


@pytest.mark.parametrize("n_at_once", [1, 4, 40])
@pytest.mark.parametrize("shortest", [1, SHORT, SHORT + 1])
def test_that_the_largest_values_are_kept_and_short_texts_come_last(n_at_once: int, shortest: int) -> None:
    random = np.random.default_rng(3)
    values = random.random((40, 3)).astype(np.float32)
    values[random.random((40, 3)) < 0.1] = np.nan
    values[:, 2] = np.nan
    values[[7, 9, 11], 2] = 0.001, 0.003, 0.002
    lengths = [shortest if k % 3 else 9 for k in range(40)] if shortest != SHORT + 1 else [2] * 40
    texts = TellingTexts(3)
    for start in range(0, 40, n_at_once):
        part = range(start, min(start + n_at_once, 40))
        texts.add(part, [lengths[k] for k in part], values[part.start : part.stop])
    for column in range(3):
        known = [k for k in range(40) if not np.isnan(values[k, column])]
        known.sort(key=lambda k: (lengths[k] < SHORT, -values[k, column]))
        wanted = (known + [-1] * N_TELLING)[:N_TELLING]
        assert texts.texts[:, column].tolist() == wanted


HEAD = HeadRef(stack="cross", layer=0, head=1)


@pytest.mark.parametrize("measure", ["", "entropy", "first", "separator", "of a new file"])
def test_that_a_text_is_shown_with_its_strongest_edges(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, "of a new file", SimpleNamespace(rests=True))
    random = np.random.default_rng(5)
    weights = random.random((6, 9)).astype(np.float32) ** 6
    weights[2, 3] = np.nan
    weights[3, 2] = weights[4, 5] = 0.25
    rows, columns = ([Token(id=k, piece=f"{k}", is_special=k in (0, 4)) for k in range(n)] for n in (6, 9))
    trace = SimpleNamespace(
        target=None, tokens=lambda key: (rows, columns), weights=lambda key, head: weights
    )
    asked = []
    model = SimpleNamespace(trace=lambda *texts: asked.append(texts) or trace)
    shown = show_texts(model, HEAD, ["a", ("b", "c")], [1, 0], measure)  # type: ignore[arg-type]
    assert asked == [("b", "c"), ("a", None)]
    assert [(one.number, one.source, one.target) for one in shown] == [(1, "b", "c"), (0, "a", None)]
    rests = measure in ("first", "separator", "of a new file")
    cells = [
        (-float(weights[i, j]), i, j)
        for i in range(6)
        for j in range(9)
        if weights[i, j] >= 0.01 and (rests or not (j == 0 or j == 4 or i in (0, 4)))
    ]
    assert list(shown[0].edges) == [(i, j, -weight) for weight, i, j in sorted(cells)[:24]]
    assert shown[0].queries == tuple("012345")
    assert shown[0].keys == tuple("012345678")


def test_that_edges_of_rows_that_write_begin_at_the_word_that_is_written() -> None:
    rows = tuple(Token(id=k, piece=piece, is_special=k == 0) for k, piece in enumerate(("<s>", "zone", "la")))
    keys = tuple(Token(id=k, piece=piece) for k, piece in enumerate(("the", "area")))
    end = Token(id=9, piece="</s>", is_special=True)
    target = Tokens(text="zone la", tokens=rows, following=end)
    weights = np.array([[0.2, 0.8], [0.4, 0.6], [0.1, 0.9]], dtype=np.float32)
    trace = SimpleNamespace(target=target, tokens=lambda key: (rows, keys), weights=lambda key, head: weights)
    (shown,) = show_texts(SimpleNamespace(trace=lambda *texts: trace), HEAD, [("a", "b")], [0])  # type: ignore[arg-type]
    named = [(shown.queries[i], shown.keys[j]) for i, j, _ in shown.edges]
    assert named == [("zone", "area"), ("la", "area")]
