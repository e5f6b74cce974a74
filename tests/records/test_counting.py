"""Numbers of things in words."""

from attnscope.counting import listed, plural, there_are


def test_that_one_thing_is_one_and_all_else_is_many():
    assert [plural(n, "token") for n in (0, 1, 2, 2000)] == [
        "0 tokens",
        "1 token",
        "2 tokens",
        "2,000 tokens",
    ]
    assert plural(1, "query", "queries") == "1 query"
    assert plural(3, "query", "queries") == "3 queries"


def test_that_the_verb_goes_with_the_number():
    assert there_are(1, "head") == "There is 1 head"
    assert there_are(0, "head") == "There are 0 heads"
    assert there_are(2, "entry", "entries") == "There are 2 entries"


def test_that_names_are_listed_as_in_a_sentence() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b"], "or") == "a or b"
    assert listed(("a", "b", "c")) == "a, b and c"
    assert listed(()) == ""
