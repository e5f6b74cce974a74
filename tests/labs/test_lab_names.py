"""Labs are found by what a person can type."""

import pytest

from attnscope.errors import UserError
from attnscope.labs import LABS, lab_named


@pytest.mark.parametrize("name", LABS)
def test_that_every_lab_is_found_by_its_name_however_it_is_spelled(name: str) -> None:
    for spelled in (name, name.upper(), f"  {name.lower()} ", name.replace(" ", "-"), name.replace(" ", "_")):
        assert lab_named(spelled).name == name


@pytest.mark.parametrize(
    ("typed", "name"),
    [("scaling by sqrt d", "Scaling by √d"), ("scaling", "Scaling by √d"), ("why-warm-up", "Why warm-up")],
)
def test_that_signs_and_endings_need_not_be_typed(typed: str, name: str) -> None:
    assert lab_named(typed).name == name


@pytest.mark.parametrize("typed", ["", " ", "√", "a", "norms", "sca", "scalinh by d", "x" * 5000])
def test_that_what_is_none_or_several_is_refused_with_the_names(typed: str) -> None:
    with pytest.raises(UserError, match="Kernel regression"):
        lab_named(typed)
