"""Finding by a few letters."""

import time

from attnscope.viewmodels.palette import Item, find

ITEMS = (
    Item(key="a", kind="action", title="Prune all but selected", keys="Ctrl+P"),
    Item(key="b", kind="action", title="Copy as Python"),
    Item(key="c", kind="page", title="Positions"),
    Item(key="d", kind="choice", title="Colour map: cividis"),
    Item(key="e", kind="model", title="english-french", detail="demo model"),
    *(Item(key=f"h{i}", kind="head", title=f"L{i}H{j} cross") for i in range(12) for j in range(12)),
)


def first(query: str, **options: object) -> str:
    return find(ITEMS, query, **options)[0].item.title


def test_that_beginnings_of_words_find_a_command():
    assert first("pab") == "Prune all but selected"
    assert first("copy py") == "Copy as Python"
    assert first("civ") == "Colour map: cividis"
    assert first("pos") == "Positions"


def test_that_a_head_is_found_by_its_name_in_any_case():
    assert first("L3H5") == "L3H5 cross"
    assert first("l11h2") == "L11H2 cross"


def test_that_words_may_stand_in_any_order_and_in_the_detail():
    assert first("python copy") == "Copy as Python"
    assert first("demo french") == "english-french"


def test_that_nothing_is_found_for_letters_that_are_not_there():
    assert find(ITEMS, "qqq") == ()


def test_that_the_letters_found_are_marked():
    match = find(ITEMS, "pab")[0]
    assert "".join(match.item.title[i] for i in match.places) == "Pab"


def test_that_without_a_query_what_was_used_comes_first_and_heads_stay_away():
    shown = find(ITEMS, "", used={"c": 1})
    assert shown[0].item.title == "Positions"
    assert not any(match.item.kind == "head" for match in shown)


def test_that_thousands_of_items_are_searched_at_once():
    many = [Item(key=f"{i}", kind="head", title=f"L{i // 64}H{i % 64} encoder") for i in range(4096)]
    begin = time.process_time()
    assert find(many, "L31H7")[0].item.title == "L31H7 encoder"
    assert time.process_time() - begin < 0.5


def test_that_words_that_are_not_shown_find_an_item_after_those_whose_title_has_them():
    items = (
        Item(key="a", kind="page", title="Lab: Regression", search="After Nadaraya–Watson, 1964."),
        Item(key="b", kind="page", title="Help: Watson"),
        Item(key="c", kind="page", title="Other", search="swatsons"),
    )
    assert [match.item.key for match in find(items, "watson")] == ["b", "a"]
    assert [match.item.key for match in find(items, "nadaraya-watson")] == ["a"]
    assert find(items, "af 19") == ()  # two letters find nothing in words that are not seen


def test_that_a_word_that_stands_somewhere_comes_before_its_letters_scattered_over_a_title():
    items = (
        Item(key="a", kind="page", title="Lab: A shift is one matrix"),
        Item(key="b", kind="help", title="Optimisers", search="adamw, lamb"),
        Item(key="c", kind="help", title="RNN or attention", search="gated, as the LSTM is"),
        Item(key="d", kind="page", title="Lab: Norms before or after"),
    )
    assert find(items, "lstm")[0].item.key == "c"
    assert find(items, "LAMB")[0].item.key == "b"
    assert [match.item.key for match in find(items, "mtrx")] == ["a"]


def test_that_a_short_word_among_longer_ones_must_stand_whole_in_the_words_not_shown():
    items = (Item(key="a", kind="help", title="Waves", search="the similarity of positions"),)
    assert find(items, "similarity of positions")
    assert not find(items, "similarity po")


def test_that_what_cannot_be_done_now_comes_after_what_can_unless_its_name_is_typed():
    items = (
        Item(key="a", kind="page", title="Train: Updates", detail="DeepNet", is_enabled=False),
        Item(key="b", kind="page", title="Topic: Norms", search="and DeepNet"),
    )
    assert [match.item.key for match in find(items, "deepnet")] == ["b", "a"]
    assert find(items, "updates")[0].item.key == "a"
