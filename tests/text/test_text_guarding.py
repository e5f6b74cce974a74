"""Faults of the tokenizers library become one error; what ends a pass is none of them."""

import os

import pytest

from attnscope.errors import LoadError, Stopped
from attnscope.nn.cancellation import stop_if_unwanted, stoppable
from attnscope.text.guarding import library_errors, without_panic_words


class Panic(BaseException):
    """As the library's own, which cannot be imported."""


def test_that_a_panic_is_a_load_error_and_a_stop_stays_a_stop() -> None:
    with pytest.raises(LoadError, match="cannot be read: the table ends") as told:
        with library_errors("It cannot be read", action="Restore it."):
            raise Panic("the  table\nends")
    assert told.value.kind == "tokenizer"
    with stoppable(lambda: True), pytest.raises(Stopped):
        with library_errors("It cannot be read", action="Restore it."):
            stop_if_unwanted()


def test_that_only_the_words_of_a_panic_are_kept_back(capfd: pytest.CaptureFixture[str]) -> None:
    panic = b"\nthread '<unnamed>' (42) panicked at src/lib.rs:1:2:\nsomething\nnote: run with it\n"
    with without_panic_words():
        os.write(2, b"before\n" + panic + b"after\n")
    assert capfd.readouterr().err == "before\nafter\n"
