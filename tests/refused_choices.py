"""Settings of [model] that do not go together."""

from collections.abc import Mapping

import pytest

from attnscope.errors import RecipeError
from attnscope.nn import ModelConfig


def assert_refused(sizes: Mapping[str, object], choices: Mapping[str, object], key: str) -> None:
    """That `sizes` with `choices` are refused at `model.key`; a choice of None leaves its key out."""
    values = {k: v for k, v in {**sizes, **choices}.items() if v is not None}
    with pytest.raises(RecipeError, match=rf"model\.{key}"):
        ModelConfig.from_dict(values)
