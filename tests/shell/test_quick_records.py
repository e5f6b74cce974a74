"""Records made while the window is imported behave as `dataclasses` itself makes them."""

import dataclasses
import operator
import pickle
import sys
from collections.abc import Callable
from functools import partial

import pytest

from attnscope.boot import quick_records

_SOURCE = """
from dataclasses import dataclass, field

@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    pass

@dataclass(frozen=True, slots=True, kw_only=True)
class One:
    value: object

@dataclass(frozen=True, slots=True, kw_only=True)
class Two(One):
    other: tuple = ()
    unseen: int = field(default=3, repr=False, compare=False)

@dataclass(order=True)
class Open:
    a: int
    _b: str = "b"

@dataclass(frozen=True)
class Loose:
    a: int

class Below(Loose):
    pass

@dataclass(frozen=True, eq=False)
class ByIdentity:
    a: int = 0
"""


def _made() -> dict[str, type]:
    found: dict[str, object] = {"__name__": __name__}
    exec(_SOURCE, found)
    return {name: kind for name, kind in found.items() if isinstance(kind, type)}


SLOW = _made()
with quick_records():
    QUICK = _made()
Two = QUICK["Two"]  # pickled by its name


def _attempt(change: Callable[..., object], *given: object) -> tuple[str, str]:
    try:
        return "done", repr(change(*given))
    except (AttributeError, TypeError) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    ("name", "values", "others"),
    [
        ("Nothing", {}, {}),
        ("One", {"value": 1}, {"value": 2}),
        ("One", {"value": 1}, {"value": 1}),
        ("One", {"value": []}, {"value": []}),
        ("Two", {"value": 1, "other": (2,)}, {"value": 1, "other": (2,), "unseen": 4}),
        ("Two", {"value": "x"}, {"value": "x", "other": (0,)}),
        ("Open", {"a": 1}, {"a": 1, "_b": "c"}),
        ("Loose", {"a": 1}, {"a": 1}),
        ("Below", {"a": 1}, {"a": 2}),
        ("ByIdentity", {"a": 1}, {"a": 1}),
    ],
)
def test_that_a_quick_record_says_does_and_refuses_what_any_record_does(
    name: str, values: dict[str, object], others: dict[str, object]
) -> None:
    seen = []
    for kinds in (SLOW, QUICK):
        kind = kinds[name]
        one, other = kind(**values), kind(**others)
        field = next(iter(values), "absent")
        functions = [function for function in sorted(vars(kind)) if function.startswith("__")]
        seen.append(
            [
                repr(one),
                [one == another for another in (other, kinds["Nothing"](), 1, dataclasses.replace(one))],
                _attempt(operator.lt, one, other),
                "its place" if name == "ByIdentity" else _attempt(hash, one),
                _attempt(setattr, one, field, 5),
                _attempt(delattr, one, field),
                [
                    _attempt(partial(kind, **{wrong: 1}), *given)
                    for given in ((), (1, 2, 3))
                    for wrong in "xa"
                ],
                functions,
                [getattr(kind, function).__qualname__ for function in ("__repr__", "__eq__", "__init__")],
            ]
        )
    assert seen[0] == seen[1]


def test_that_a_quick_record_that_holds_itself_can_be_said_and_any_can_be_sent() -> None:
    inner: list[object] = []
    one = QUICK["One"](value=inner)
    inner.append(one)
    assert repr(one) == "One(value=[...])"
    two = Two(value=1, other=(2,))
    assert pickle.loads(pickle.dumps(two)) == two


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="later versions compile a class at once")
def test_that_a_quick_record_compiles_one_function_when_it_is_first_made_and_later_ones_all() -> None:
    def n_compiled(kind: type) -> int:
        functions = (getattr(kind, name) for name in ("__init__", "__eq__", "__hash__", "__setattr__"))
        return sum(function.__code__.co_filename == "<string>" for function in functions)

    with quick_records():
        loose = _made()["Loose"]
    assert n_compiled(loose) == 0
    assert (loose(1), n_compiled(loose)) == (loose(a=1), 1)
    assert n_compiled(_made()["Loose"]) == n_compiled(SLOW["Loose"]) == 4


def test_that_a_constructor_is_compiled_in_its_own_class_when_one_below_is_made_first() -> None:
    with quick_records():
        kinds = _made()
    below = type("Deeper", (kinds["Below"],), {})(3)
    assert (repr(below), repr(kinds["Loose"](4))) == ("Deeper(a=3)", "Loose(a=4)")
    assert "__init__" not in vars(kinds["Below"])


def test_that_two_threads_may_make_the_first_of_a_kind_at_once() -> None:
    with quick_records():
        kind = _made()["Open"]
    found_by_both = vars(kind)["__init__"]
    first = kind(1)
    second: object = object.__new__(kind)
    found_by_both(second, 1)
    assert first == second


def test_that_what_is_imported_after_a_fault_is_made_as_ever() -> None:
    before = dict(vars(dataclasses))
    with pytest.raises(ValueError, match="no window"), quick_records():
        raise ValueError("no window")
    assert dict(vars(dataclasses)) == before
