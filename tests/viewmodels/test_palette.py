"""Finding by a few letters."""

import time

from attnscope.viewmodels import Item, find, match_item

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
    item = Item(key="a", kind="help", title="Waves", search="the similarity of positions")
    assert match_item(item, ["similarity", "of", "positions"])
    assert not match_item(item, ["similarity", "po"])


def test_that_what_cannot_be_done_now_comes_after_what_can_unless_its_name_is_typed():
    items = (
        Item(key="a", kind="page", title="Train: Updates", detail="DeepNet", is_enabled=False),
        Item(key="b", kind="page", title="Topic: Norms", search="and DeepNet"),
    )
    assert [match.item.key for match in find(items, "deepnet")] == ["b", "a"]
    assert find(items, "updates")[0].item.key == "a"


_LECTURE = (
    Item(
        key="a",
        kind="recipe",
        title="Recipe: reviews",
        search="words, then sentences (hierarchical, Yang 2016)",
    ),
    Item(
        key="b", kind="page", title="Lab: Norms over axes", search="layer normalisation, batch normalisation"
    ),
    Item(key="c", kind="help", title="Help: Layer normalisation", search="attention"),
    Item(key="d", kind="page", title="Lab: Masks of attention", search="network"),
    Item(key="e", kind="page", title="Lab: Heads of attention", search="network"),
    *(Item(key=f"h{i}", kind="head", title=f"L{i}H0 attention network") for i in range(20)),
)


def test_that_where_nothing_has_every_word_the_rarest_one_decides():
    assert find(_LECTURE, "hierarchical attention network")[0].item.key == "a"
    assert find(_LECTURE, "hierarchical")[0].item.key == "a"
    assert [match.item.key for match in find(_LECTURE, "hierarchical xyzzy")] == ["a"]
    assert find(_LECTURE, "xyzzy plugh") == ()


def test_that_help_which_has_every_word_is_followed_by_what_has_the_rarest():
    found = [match.item.key for match in find(_LECTURE, "layer normalisation attention")]
    assert found[:2] == ["c", "b"]


def test_that_words_with_a_hyphen_are_looked_for_by_their_parts_where_nothing_has_them_whole():
    assert find(_LECTURE, "post-normalisation")[0].item.key in {"b", "c"}


def test_that_ise_and_ize_are_one_spelling():
    assert {match.item.key for match in find(_LECTURE, "layer normalization")} == {"b", "c"}
    assert find((Item(key="a", kind="page", title="Tokenizers"),), "tokeniser")
    assert find(_LECTURE, "masks")[0].item.key == "d"


def test_that_a_question_is_found_as_it_is_asked_and_its_small_words_need_not_be_there():
    items = (
        Item(key="heads", kind="page", title="Heads"),
        Item(key="help", kind="help", title="Help: Keys", search="what this head does, and how"),
        Item(key="asked", kind="question", title="Question: What does this head do?"),
        Item(key="why", kind="page", title="Lab: Why warm-up"),
    )
    assert find(items, "what does this head do?")[0].item.key == "asked"
    assert find(items, "What do heads do?")[0].item.key == "heads"
    assert find(items, "how about the keys")[0].item.key == "help"
    assert find(items, "head")[0].item.key == "heads"  # who does not ask is led to the place itself
    assert find(items, "why warm-up")[0].item.key == "why"
    assert find(items, "the") == find(items, "THE")


def test_that_a_question_needs_half_of_the_words_and_that_letters_within_words_are_none_of_them():
    asked = Item(key="asked", kind="question", title="Question: How are they different?", search="a head")
    lab = Item(key="lab", kind="page", title="Lab: Head and shoulders")
    assert [m.item.key for m in find((asked, lab), "how are heads hidden?")] == []  # h e a d s: scattered
    assert find((asked, lab), "how is a head different from shoulders")[0].item.key == "asked"
    assert "asked" not in [m.item.key for m in find((asked, lab), "how about shoulders, apples and a head")]
