"""Settings as data: what each may be, what it says of what it may not be, and a choice made of them."""

from dataclasses import dataclass

import numpy as np
import pytest

from attnscope.errors import UserError
from attnscope.fields import (
    fields_of,
    help_rows,
    line,
    number,
    one_of,
    redraw,
    switch,
    values_of,
    with_texts,
    with_values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    d_k: int = number(16, (1, 4, 16, 64), title="d", tip="Width of queries and keys")
    n_keys: int = number(
        3, range(2, 9), title="keys", tip="How many keys", shown=lambda c: min(c.n_keys, c.d_k)
    )
    sigma: float = number(
        0.5, (0.05, 0.5, 3.0), title="σ", tip="Width of the kernel", text=lambda v: f"{v:.2f}"
    )
    score: str = one_of(
        "dot", {"dot": "dot product", "cosine": "cosine"}, title="score", tip="How keys are met"
    )
    is_causal: bool = switch(False, title="causal", tip="No later keys", is_used=lambda c: c.score == "dot")
    words: str = line(
        "a b", title="words", tip="A sentence", most=5, is_text=str.islower, form="small letters"
    )
    seed: int = redraw(title="Other vectors", tip="Draw others")
    finding: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.n_keys > self.d_k:
            raise ValueError(f"{self.n_keys} keys are more than {self.d_k} dimensions")


NAMES = ("d_k", "n_keys", "sigma", "score", "is_causal", "words", "seed")


def test_that_a_choice_is_its_settings_in_order_and_what_else_it_holds_is_none() -> None:
    assert tuple(field.name for field in fields_of(Choice)) == NAMES
    assert fields_of(Choice()) is fields_of(Choice)
    assert values_of(Choice(finding=(1,))) == dict(
        zip(NAMES, (16, 3, 0.5, "dot", False, "a b", 0), strict=True)
    )
    assert [field.default for field in fields_of(Choice)] == list(values_of(Choice()).values())
    assert fields_of(Choice)[0].title == "d"


@pytest.mark.parametrize(
    ("typed", "name", "value"),
    [
        ("d_k=64", "d_k", 64),
        ("d_k = 64.0", "d_k", 64),
        ("n_keys=8", "n_keys", 8),
        ("sigma=3", "sigma", 3.0),
        ("sigma=0.123", "sigma", 0.123),
        ("score=cosine", "score", "cosine"),
        ("score=Dot product", "score", "dot"),
        ("is_causal=ON", "is_causal", True),
        ("is_causal=0", "is_causal", False),
        ("words=x=y", "words", "x=y"),
        ("words=", "words", None),
        ("seed=7", "seed", 7),
    ],
)
def test_that_what_is_typed_is_read_in_its_own_type(typed: str, name: str, value: object) -> None:
    if value is None:
        with pytest.raises(UserError, match="words is ''"):
            with_texts(Choice(), (typed,))
        return
    found = getattr(with_texts(Choice(), (typed,)), name)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("d_k=65", "d_k is 65. Expected: one of 1, 4, 16, 64."),
        ("d_k=16.5", "d_k is 16.5. Expected: one of"),
        ("d_k=many", "d_k is 'many'. Expected: one of"),
        ("n_keys=9", "n_keys is 9. Expected: a whole number from 2 to 8."),
        ("n_keys=inf", "n_keys is inf."),
        ("sigma=0.01", "sigma is 0.01. Expected: a number from 0.05 to 3."),
        ("sigma=nan", "sigma is nan."),
        ("sigma=0,5", "sigma is '0,5'."),
        ("score=product", "score is 'product'. Expected: one of dot, cosine."),
        ("is_causal=perhaps", "is_causal is 'perhaps'. Expected: on or off."),
        ("words=a b c d", "words is 'a b c d'. Expected: small letters of at most 5 characters."),
        ("words=ABC", "words is 'ABC'."),
        ("seed=-1", "seed is -1. Expected: a whole number from 0 to 1,000,000."),
        ("seed=1.5", "seed is '1.5'."),
        (
            "dk=4",
            "There is no setting 'dk'. Expected: d_k, n_keys, sigma, score, is_causal, words, seed. Did you",
        ),
        ("finding=4", "There is no setting 'finding'."),
        ("d_k", "'d_k' has no value. Expected: NAME=VALUE."),
        ("d_k=1", "3 keys are more than 1 dimensions."),
    ],
)
def test_that_a_wrong_setting_is_told_with_what_was_expected(typed: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        with_texts(Choice(), (typed,))
    assert told in str(error.value)


def test_that_values_of_python_are_checked_and_numbers_of_numpy_are_numbers() -> None:
    made = with_values(Choice(), {"d_k": np.int64(64), "sigma": np.float32(1), "n_keys": 2})
    assert (made.d_k, type(made.d_k), made.sigma, type(made.sigma)) == (64, int, 1.0, float)
    for name, value in (("d_k", True), ("d_k", "64"), ("sigma", None), ("is_causal", 1), ("words", b"a")):
        with pytest.raises(UserError, match=f"{name} is"):
            with_values(Choice(), {name: value})


def test_that_a_field_says_what_holds_and_where_it_matters() -> None:
    fields = {field.name: field for field in fields_of(Choice)}
    narrow = Choice(d_k=4, n_keys=4)
    assert fields["n_keys"].of(fields["d_k"].put(narrow, 64)) == 4
    assert fields["n_keys"].put(Choice(), 5) == Choice(n_keys=5)
    assert [fields["is_causal"].is_used(Choice(score=score)) for score in ("dot", "cosine")] == [True, False]
    words = [fields[name].words(values_of(Choice())[name]) for name in NAMES]
    assert words == ["16", "3", "0.50", "dot product", "off", "a b", "0"]
    assert help_rows(Choice)[0] == ("d_k", "Width of queries and keys", "one of 1, 4, 16, 64", "16")
