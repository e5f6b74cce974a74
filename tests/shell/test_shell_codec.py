"""One codec for every document: records come back from what annotations say, and what is wrong is named."""

import json
import math
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

from attnscope.codec import AllowedNames, At, AtMost, Between, Caps, Codec, Fault, Once, Through, keys_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: Annotated[int, Between(0, 99)]
    y: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    shape: ClassVar[str] = "circle"
    radius: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    shape: ClassVar[str] = "square"
    side: float = 1.0

    def __post_init__(self) -> None:
        if self.side < 0.0:
            raise ValueError("a side below 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    title: Annotated[str, AtMost(5)] = ""
    width: Annotated[float, At("size.width")] = 160.0
    height: Annotated[float, At("size.height")] = 90.0
    mode: Literal["plain", "dark"] = "plain"
    unit: Annotated[str, AllowedNames(("mm", "pt"))] = "mm"
    way: Annotated[str, Once("old")] = "new"
    at: Annotated[Point, At("")] = field(default_factory=lambda: Point(x=1))
    shapes: tuple[Circle | Square, ...] = ()
    words: dict[str, bool | int | str] = field(default_factory=dict)
    inner: "Page | None" = None
    session: Annotated[str, At(None)] = ""


ROWS = {Point: "a point: [x, y]", tuple[Point, float]: "a span: [x, y, length]"}
PLAIN, SPANS = Codec(tag="shape"), Codec(rows=ROWS)
FULL = Page(
    title="one",
    width=3.5,
    mode="dark",
    unit="pt",
    way="other",
    at=Point(x=7, y=8),
    shapes=(Circle(radius=2.0), Square(side=0.5)),
    words={"a": 1, "b": "c", "d": True},
    inner=Page(title="two"),
)


def test_that_a_record_comes_back_whole_and_stands_where_its_fields_say() -> None:
    written = PLAIN.write(FULL)
    assert written["size"] == {"width": 3.5, "height": 90.0}
    assert (written["x"], written["y"]) == (7, 8)
    assert written["shapes"] == [{"shape": "circle", "radius": 2.0}, {"shape": "square", "side": 0.5}]
    assert "session" not in written
    assert PLAIN.read(Page, json.loads(json.dumps(written))) == FULL
    assert keys_of(Circle) == ("radius",)


def test_that_a_field_that_is_missing_has_its_default_or_what_it_once_was() -> None:
    assert PLAIN.read(Page, {"x": 1}) == Page(way="old")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    spans: tuple[tuple[Point, float], ...] = ()


def test_that_a_row_within_a_row_stands_without_brackets() -> None:
    spans = Spans(spans=((Point(x=1, y=2), 0.5),))
    assert SPANS.write(spans) == {"spans": [[1, 2, 0.5]]}
    assert SPANS.read(Spans, {"spans": [[1, 2, 0.5]]}) == spans
    for wrong in ([1, 2], [1, 2, "x"], [-1, 2, 0.5], "x", [1, 2, 0.5, 4]):
        with pytest.raises(Fault, match=r"is not a span: \[x, y, length\]$"):
            SPANS.read(Spans, {"spans": [wrong]})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"title": "longer"}, "the key 'title': it has 6 characters, at most 5 are read"),
        ({"title": 1}, "the key 'title': 1 is not a text"),
        ({"title": "a\0"}, "zero byte"),
        ({"size": []}, r"the key 'size': \[\] is not an object"),
        ({"size": {"width": "1"}}, "the key 'size.width': '1' is not a finite number"),
        ({"size": {"width": math.nan}}, "finite number"),
        ({"size": {"width": True}}, "finite number"),
        ({"mode": "blue"}, "the key 'mode': 'blue' is not one of plain, dark"),
        ({"unit": "px"}, "the key 'unit': 'px' is not one of mm, pt"),
        ({"x": 100}, "the key 'x': 100 is above 99"),
        ({"x": 1.0}, "the key 'x': 1.0 is not a whole number"),
        ({"x": 10**5000}, "a number of thousands of digits is above 99"),
        ({"y": 2**41}, "is above"),
        ({"shapes": {}}, r"the key 'shapes': \{\} is not a list"),
        ({"shapes": [{"shape": "star"}]}, "the key 'shapes.shape': 'star' is not one of circle, square"),
        ({"shapes": [{"shape": "square", "side": -1}]}, "the key 'shapes': a side below 0"),
        ({"words": {"a": []}}, r"the key 'words.a': \[\] is not true or false or"),
        ({"inner": {}}, "the key 'inner.x': it is missing"),
        ([], "is not an object"),
    ],
    ids=range(19),
)
def test_that_a_fault_names_where_it_is_what_was_found_and_what_was_expected(change: Any, said: str) -> None:
    values = {"x": 1, **change} if isinstance(change, dict) else change
    with pytest.raises(Fault, match=said):
        PLAIN.read(Page, values)


def test_that_a_strict_document_has_no_unknown_keys_but_those_of_other_kinds() -> None:
    strict = Codec(tag="shape", is_strict=True, of_others=frozenset({"side"}))
    kinds = {"circle": Circle, "square": Square}
    with pytest.raises(Fault, match="'colour' is not known"):
        strict.read(Point, {"x": 1, "colour": 2})
    assert strict.read_one_of(kinds, {"shape": "circle", "radius": 2, "side": 3}) == Circle(radius=2.0)
    with pytest.raises(Fault, match="'depth' is not known"):
        strict.read_one_of(kinds, {"shape": "circle", "depth": 3})
    assert PLAIN.read(Point, {"x": 1, "colour": 2}) == Point(x=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbers:
    value: float = 0.0
    values: NDArray[np.float64]
    note: str | None = None


def test_that_odd_numbers_stand_as_texts_or_as_null_and_arrays_come_back_to_the_last_bit() -> None:
    one = Numbers(value=-math.inf, values=np.array([[math.nan, 1e-30], [math.inf, -0.0]]))
    texts, null = Codec(odd="texts", is_sparse=True), Codec(odd="null")
    assert texts.write(one)["value"] == "-Infinity"
    assert "note" not in texts.write(one)
    assert null.write(one)["value"] is None
    assert math.isnan(null.read(Numbers, json.loads(json.dumps(null.write(one)))).value)
    back = texts.read(Numbers, json.loads(json.dumps(texts.write(one))))
    assert back.value == -math.inf
    assert back.values.tobytes() == one.values.tobytes()
    assert not back.values.flags.writeable
    with pytest.raises(Fault, match="a number is over 1"):
        Codec(caps=Caps(number=1.0)).read(Numbers, texts.write(Numbers(values=np.array([2.0]))))


def test_that_an_array_may_be_named_by_an_alias_as_numpy_does_from_2_5_on() -> None:
    scalar = TypeVar("scalar", bound=np.generic)
    named = TypeAliasType("named", np.ndarray[Any, np.dtype[scalar]], type_params=(scalar,))  # type: ignore
    aliased, plain = (
        make_dataclass("Values", [("values", kind)], kw_only=True, eq=False)
        for kind in (named[np.float32], NDArray[np.float32])
    )
    values = np.array([[0.1, -np.inf], [np.pi, 1e-40]], np.float32)
    kept = json.loads(json.dumps(PLAIN.write(aliased(values=values))))
    assert kept == PLAIN.write(plain(values=values))
    assert PLAIN.read(aliased, kept).values.tobytes() == values.tobytes()
    with pytest.raises(Fault, match="not an array"):
        PLAIN.read(aliased, {"values": "none"})


def test_that_a_type_that_cannot_be_kept_is_named_each_time_it_is_asked_for() -> None:
    odd = make_dataclass("Odd", [("values", set[int])])
    for _ in range(2):
        with pytest.raises(TypeError, match=r"set.* cannot be stored in a file"):
            PLAIN.write(odd({1}))


def test_that_a_type_may_stand_as_another_one() -> None:
    upper = Codec(forms={"upper": Through(str, str.lower, str.upper)})
    hint: Any = Annotated[str, "upper"]
    assert upper.form(hint).write("ABC") == "abc"
    assert upper.read(hint, "abc") == "ABC"
    assert PLAIN.expected(Annotated[int, Between(1, 1_000)]) == "a whole number without quotes"
    assert Codec(quote='"').expected(Literal["a", "b"]) == 'one of "a", "b"'
