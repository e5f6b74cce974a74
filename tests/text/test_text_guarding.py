"""Faults of the tokenizers library become one error; what ends a pass is none of them."""

import pytest

from attnscope.errors import LoadError, Stopped
from attnscope.nn.stopping import stop_if_unwanted, stoppable
from attnscope.text.guarding import library_errors


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
