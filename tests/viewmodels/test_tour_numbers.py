"""The numbers a tour's text may name, against slow sums over the map they are read from."""

from types import SimpleNamespace

import numpy as np
import pytest
from session_samples import Desk, measures, ref

from attnscope.records import HeadMap, Token
from attnscope.viewmodels.tours import Spot, number_named

PIECES = ("<s>", "the", "cat", "the", "dog", "the", "cat")
IDS = (0, 1, 2, 1, 3, 1, 2)
TOKENS = tuple(Token(id=i, piece=piece) for i, piece in zip(IDS, PIECES, strict=True))


def spot(weights: np.ndarray, query: str | None = "dog", key: str | None = "cat") -> Spot:
    shown = HeadMap(head=ref(0, 1), queries=TOKENS, keys=TOKENS, weights=weights.astype(np.float32))
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    states = SimpleNamespace(
        session=desk.session,
        inside=SimpleNamespace(inside=None, row=None, asking=SimpleNamespace(is_busy=False)),
        view=SimpleNamespace(view="head", position=0),
        shown_map=shown,
    )
    return Spot(states=states, query=query, key=key)  # type: ignore[arg-type]


def causal() -> np.ndarray:
    n = len(PIECES)
    weights = np.where(np.tri(n, dtype=bool), 1.0 + np.arange(n * n).reshape(n, n) * 5 % 7, np.nan)
    return weights / np.nansum(weights, axis=1, keepdims=True)


@pytest.mark.parametrize("is_first_left_out", [False, True])
def test_that_a_row_is_read_as_it_is_shown(is_first_left_out: bool) -> None:
    weights = causal()
    if is_first_left_out:
        weights[:, 0] = np.inf
    at = spot(weights)
    row = [float(w) for w in weights[4, :5]]
    seen = row[1:] if is_first_left_out else row
    best = row.index(max(seen))
    assert number_named("query", at) == "dog"
    assert number_named("weight", at) == f"{row[2]:.3f}"
    assert number_named("strongest", at) == PIECES[best]
    assert number_named("strongest_weight", at) == f"{row[best]:.3f}"
    assert number_named("row_weights", at) == " + ".join(f"{w:.3f}" for w in seen)
    assert number_named("row_sum", at) == f"{sum(seen):.3f}"
    assert number_named("n_seen", at) == str(len(seen))
    assert number_named("n_hidden", at) == "21"
    assert number_named("n_weights", at) == "49"
    if is_first_left_out:
        assert number_named("weight", spot(weights, key="<s>")) == "left out"
    assert number_named("weight", spot(weights, key="cat#2")) == "not allowed"
    later = spot(weights, key="no such token")
    assert number_named("weight", later) is None


def test_that_the_stripe_is_the_mean_weight_after_earlier_equal_tokens() -> None:
    weights = causal()
    slow = [
        weights[i, j + 1]
        for i in range(7)
        for j in range(i)
        if IDS[i] == IDS[j] and j + 1 < i
    ]  # fmt: skip
    assert len(slow) == 4
    assert number_named("stripe", spot(weights)) == f"{np.mean(slow):.3f}"
    distinct = HeadMap(
        head=ref(0, 1), queries=TOKENS[:2], keys=TOKENS[:2], weights=np.eye(2, dtype=np.float32)
    )
    at = spot(weights)
    at.states.shown_map = distinct  # type: ignore[misc]
    assert number_named("stripe", at) is None


def test_that_measures_are_those_of_the_head_that_is_shown() -> None:
    at = spot(causal())
    session = at.states.session
    own = next(one for one in measures(session.model) if one.head == ref(0, 1))
    assert not session.tracing.is_stale
    assert number_named("confidence", at) == f"{own.confidence:.2f}"
    assert number_named("n_heads", at) == "2"
    assert number_named("last_head", at) == "1"
    assert number_named("n_all_heads", at) == "12"
    assert number_named("parameters", at) == "1,234"
