"""Public numbers are what they were: those of the command line and of Python, on models that stay.

A number that changes on purpose is written anew with `--update-numbers`; the change then shows in the file's
lines, one for each door.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from public_doors import COMMANDS, DOORS, differences, found_at, n_numbers

PATH = Path(__file__).parents[1] / "public_numbers.json"
MAX_BYTES = 300_000
SHOWN = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doors")


@pytest.fixture(scope="module")
def kept(request: pytest.FixtureRequest) -> Iterator[dict[str, object]]:
    """The file's numbers, door by door; with --update-numbers it is written with what the tests put there."""
    found = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    yield found
    found = {door: found[door] for door in DOORS if door in found}
    if request.config.getoption("--update-numbers"):
        lines = (f"{json.dumps(door)}:{_dumped(value)}" for door, value in found.items())
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS, ids=str)
def test_that_public_numbers_are_what_they_were(
    door: str, folder: Path, kept: dict[str, object], request: pytest.FixtureRequest
) -> None:
    found = found_at(door, folder)
    if request.config.getoption("--update-numbers"):
        kept[door] = found
    apart = list(differences(kept[door], found))
    name = f"attnscope {door}" if door in COMMANDS else f"Python, {door}"
    assert not apart, f"{name}: {len(apart)} apart\n" + "\n".join(apart[:SHOWN])


def test_that_every_door_is_kept_and_no_other(kept: dict[str, object]) -> None:
    assert list(kept) == list(DOORS)


def test_that_there_are_thousands_of_numbers_in_a_small_file(kept: dict[str, object]) -> None:
    assert n_numbers(kept) > 10_000
    assert PATH.stat().st_size <= MAX_BYTES


@pytest.mark.parametrize(
    ("expected", "found", "told"),
    [
        ({"a": [1.0, 2.0]}, {"a": [1.0, 2.001]}, ".a[1]: expected 2.0, found 2.001"),
        ({"a": {"each": {"b": [3, 4]}}}, {"a": {"each": {"b": [3, 5]}}}, ".a.each.b[1]: expected 4, found 5"),
        ({"a": 1.0}, {"a": "nan"}, ".a: expected 1.0, found 'nan'"),
        ({"a": 1.0}, {}, ".a: is missing"),
        ({}, {"a": 1.0}, ".a: is new"),
        ({"a": [1.0]}, {"a": [1.0, 1.0]}, ".a: expected a list of 1, found a list of 2"),
        ({"a": ["cat"]}, {"a": ["dog"]}, ".a[0]: expected 'cat', found 'dog'"),
        ({"a": True}, {"a": 1}, ".a: expected True, found 1"),
        ({"a": {"times": 3, "value": 0.0}}, {"a": [0.0, 0.5, 0.0]}, ".a[1]: expected 0.0, found 0.5"),
        ({"a": {"times": [2, 1], "values": [1, 2]}}, {"a": [1, 1, 3]}, ".a[2]: expected 2, found 3"),
        ({"a": [[0.5], [0.1]]}, {"a": [[0.5], [0.101]]}, ".a[1][0]: expected 0.1, found 0.101"),
    ],
)
def test_that_a_difference_names_place_expected_and_found(expected: object, found: object, told: str) -> None:
    assert list(differences(expected, found)) == [told]


def test_that_the_noise_of_another_matrix_library_is_no_difference() -> None:
    expected = {"weights": [[0.9, 0.1], [1e-6, 0.999999]], "kl": 0.25}
    assert not list(
        differences(expected, {"weights": [[0.900001, 0.099999], [2e-6, 0.999999]], "kl": 0.250001})
    )
