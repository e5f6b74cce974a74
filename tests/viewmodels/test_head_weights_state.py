"""What is said of the weights of a head: dimensions, sameness, token pairs; and late replies."""

import numpy as np
import pytest
from session_samples import Desk, ref, state_of

from attnscope.records import (
    CircuitKind,
    HeadCircuit,
    HeadWeightsFound,
    Request,
    ShowWeights,
    Site,
    SiteSpectrum,
    Stack,
    Token,
    TokenPair,
    WeightPart,
    WeightsShown,
)
from attnscope.viewmodels.heads import n_dimensions, sameness_words

SITE = Site(stack="encoder", layer=0, n_heads=2, n_kv_heads=2)


def pair(first: str, second: str, value: float) -> TokenPair:
    return TokenPair(first=Token(id=1, piece=first), second=Token(id=2, piece=second), value=value)


def circuit(kind: CircuitKind, value: float, *largest: TokenPair, stack: Stack = "encoder") -> HeadCircuit:
    least = (pair("\x01", "b", -3.0), pair("c", "d", -2.0))
    return HeadCircuit(head=ref(0, 0, stack), kind=kind, largest=largest, smallest=least, sameness=value)


@pytest.mark.parametrize(
    ("values", "n"), [((1, 0, 0), 1), ((3, 1, 0), 1), ((2, 1, 1), 3), ((9, 3, 3), 2), ((0, 0, 0), 0)]
)
def test_that_as_many_dimensions_are_named_as_hold_nine_tenths(values: tuple[int, ...], n: int) -> None:
    squares = np.array(values, np.float64) ** 2
    slow = next((k for k in range(1, 4) if squares[:k].sum() >= 0.9 * squares.sum() > 0), 0)
    spectrum = SiteSpectrum(site=SITE, single=np.array([values] * 2), stacked=np.array(values))
    assert n_dimensions(spectrum.stacked_energy()) == n == slow


def test_that_sameness_is_said_by_its_sign_and_translations_by_their_words() -> None:
    alike, other = pair("the", " The", 2.0), pair("the", "le", 1.0)
    assert sameness_words(circuit("ov", 0.5, alike)) == "Σ Re λ / Σ |λ| = +0.50: mixed"
    assert sameness_words(circuit("ov", 0.51, alike)) == "Σ Re λ / Σ |λ| = +0.51: it copies"
    assert sameness_words(circuit("ov", -0.9, alike)).endswith("= −0.90: it suppresses what it reads")
    assert sameness_words(circuit("qk", 0.9, alike)).endswith("it looks for tokens like itself")
    assert sameness_words(circuit("qk", -0.51, alike)).endswith("it avoids tokens like itself")
    assert sameness_words(circuit("qk", -0.5, alike)).endswith("= −0.50: mixed")
    crossing = circuit("ov", 0.9, other, other, alike, stack="cross")
    assert sameness_words(crossing).endswith("it writes a translation of what it looks at")
    assert sameness_words(circuit("ov", 0.9, other, alike, stack="cross")).endswith("it copies")
    assert sameness_words(circuit("ov", 0.9, other, other, alike)).endswith("it copies")


def test_that_the_head_asked_for_last_is_shown_with_readable_pairs_first() -> None:
    desk, posted = Desk().open(), list[Request]()
    state = state_of("weights", posted.append, session=desk.session)
    state.watch(True)
    (asked,) = [request for request in posted if isinstance(request, ShowWeights)]
    assert asked.head == state.head == desk.session.primary
    spectrum = SiteSpectrum(site=SITE, single=np.array([[3, 1, 0], [2, 1, 1]]), stacked=np.array([2, 1, 1]))
    part = WeightPart(kind="ov", circuit=circuit("ov", 0.9, pair("\x01", "a", 3.0), pair("c", "d", 2.0)))
    found = HeadWeightsFound(head=asked.head, parts=(WeightPart(kind="qk", spectrum=spectrum), part))
    state.handle(WeightsShown(number=asked.number + 1, found=found))
    assert state.found is None
    state.handle(WeightsShown(number=asked.number, found=found))
    assert state.found == found
    assert [one.value for one in state.pairs("ov")] == [2.0, 3.0]
    state.show_end("weakest")
    assert [one.value for one in state.pairs("ov")] == [-2.0, -3.0]
    state.show_end("no such end")
    assert state.end == "weakest"
    alone = (1, 3)[asked.head.head]
    assert state.statement() == (
        f"QK: 90 % of Σσ² in {alone} of 3 dimensions (the layer's heads one by one 4, together 3)"
    )
