"""The HTML page: exact weights, hashes that allow just its own parts, tokens that stay text (F53)."""

import base64
import dataclasses
import hashlib
import json
import re

import numpy as np
import pytest
from figure_samples import head_map, spec, tokens

from attnscope.errors import UserError
from attnscope.figures import html_page, render, script_json
from attnscope.records import GoldCell

EVIL = ("</script><script>alert(1)</script>", "<!--", "a\u2028b", '"&quot;', "\u202eevil")


def page(shown) -> tuple[str, dict]:
    text = render(shown, "html").decode()
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert block is not None
    return text, json.loads(block[1])


def evil_map():
    names = tokens(*EVIL)
    return dataclasses.replace(head_map(5, 5, is_causal=True), queries=names, keys=names)


def test_that_weights_come_back_exactly():
    shown = spec("lines", maps=(evil_map(), head_map(5, 5, head=1)))
    _, data = page(shown)
    assert [m["letter"] for m in data["maps"]] == ["a", "b"]
    for found, one in zip(data["maps"], shown.maps, strict=True):
        weights = np.array(found["weights"], dtype=np.float32)  # None becomes NaN
        np.testing.assert_array_equal(weights, one.weights)
    assert set(data["maps"][0]["tops"]) == {1.0}


def test_that_gold_links_are_marked_on_the_map_of_one_head():
    links = (
        GoldCell(rows=(0, 1), cols=(2, 4), is_sure=True, words=("a", "b")),
        GoldCell(rows=(3, 4), cols=(0, 1), is_sure=False, words=("c", "d")),
    )
    text, data = page(spec("head", gold=links))
    first = {"top": 0, "end": 1, "left": 2, "right": 4, "sure": True}
    assert data["maps"][0]["gold"] == [first, {"top": 3, "end": 4, "left": 0, "right": 1, "sure": False}]
    assert 'link.sure ? "gold" : "gold is-possible"' in text
    assert page(spec("lines"))[1]["maps"][0]["gold"] == []


def test_that_only_the_pages_own_style_and_script_may_run():
    text, _ = page(spec("head"))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert "http://" not in text
    assert "https://" not in text
    assert " style=" not in text


def test_that_f53_tokens_texts_and_titles_cannot_leave_their_place():
    shown = spec("head", maps=(evil_map(),), title="</title><script>x</script>")
    assert shown.caption is not None
    shown = dataclasses.replace(shown, caption=dataclasses.replace(shown.caption, text=EVIL[0]))
    text, data = page(shown)
    assert len(re.findall(r"<script", text)) == 2
    assert "<!--" not in text
    assert "\u2028" not in text
    assert data["maps"][0]["keys"][1] == "<!--"
    assert script_json("</script>\u2028&") == r'"\u003c/script\u003e\u2028\u0026"'


def test_that_missing_weights_are_told_apart():
    weights = head_map(3, 3, is_causal=True).weights.copy()
    weights[1] = np.nan
    weights[2, 0] = np.inf
    _, data = page(spec("head", maps=(dataclasses.replace(head_map(3, 3), weights=weights),)))
    rows = data["maps"][0]["weights"]
    assert rows[0][1:] == [None, None]
    assert rows[1] == [-1, -1, -1]
    assert rows[2][0] == -1


def test_that_pages_without_maps_or_with_too_many_weights_are_refused(monkeypatch):
    with pytest.raises(UserError, match="needs maps"):
        render(spec("grid"), "html")
    monkeypatch.setattr(html_page, "MAX_CELLS", 10)
    with pytest.raises(UserError, match="20 weights"):
        render(spec("head"), "html")


def test_that_labels_of_keys_turn_as_one_whatever_their_script_and_the_mask_takes_the_themes_colour():
    text, data = page(spec("head", maps=(evil_map(),)))
    rules = dict(re.findall(r"^([^{}\n]+)\{([^}]*)\}", text, re.M))
    assert "text-orientation:sideways" in rules[".key"]  # else CJK stands on its head
    assert "background:var(--not-allowed)" in rules[".cells canvas"]
    assert text.count("--not-allowed:") == 2  # light and dark
    assert None in data["maps"][0]["weights"][0]


def test_that_rows_and_columns_have_the_names_of_their_own_tokens():
    one = head_map(2, 3)
    one = dataclasses.replace(one, queries=tokens("to", "be"), keys=tokens("or", "not", "so"))
    _, data = page(spec("head", maps=(one,)))
    assert (data["maps"][0]["queries"], data["maps"][0]["keys"]) == (["to", "be"], ["or", "not", "so"])


def test_that_colours_end_at_the_rows_own_peak_where_the_scale_is_the_rows():
    shown = spec("head")
    peaks = np.nanmax(shown.maps[0].weights, axis=1)
    assert len(set(peaks.tolist())) > 1
    by_row = dataclasses.replace(shown, style=dataclasses.replace(shown.style, scale="row"))
    text, data = page(by_row)
    np.testing.assert_allclose(data["maps"][0]["tops"], peaks, rtol=1e-6)
    assert "row max" in text
    assert set(page(shown)[1]["maps"][0]["tops"]) != set(data["maps"][0]["tops"])


def test_that_a_page_is_titled_noted_and_measured_as_asked():
    maps = tuple(head_map(4, 5, head=head) for head in range(4))
    text, data = page(spec("lines", maps=(dataclasses.replace(maps[0], note="renormalised"), *maps[1:])))
    assert data["missing"] == "left out"  # one of them leaves something out
    assert page(spec("lines", maps=maps))[1]["missing"] == "no data"
    assert 'id="ramp"' in text
    asked = spec("lines", maps=maps, title="Mine & yours")
    bare = dataclasses.replace(asked, style=dataclasses.replace(asked.style, has_bar=False))
    text, _ = page(bare)
    assert "<title>Mine &amp; yours</title>" in text
    assert 'id="ramp"' not in text


def test_that_the_heading_of_one_map_is_not_its_caption_too_and_few_tokens_have_large_cells():
    text, data = page(spec("head"))
    assert f"<h1>{data['maps'][0]['name']}</h1>" in text
    assert data["title"] == data["maps"][0]["name"]
    assert 'map.name === data.title ? "" : map.name' in text
    several = page(spec("lines", maps=(head_map(5, 5), head_map(5, 5, head=1))))[1]
    assert several["title"] not in [shown["name"] for shown in several["maps"]]
    assert 32 < several["cellPx"] < data["cellPx"]


def test_that_a_page_may_send_nothing_and_take_no_other_base():
    text, _ = page(spec("head"))
    assert "; base-uri 'none'; form-action 'none'\"" in text


def test_that_a_page_of_too_many_heads_is_refused(monkeypatch):
    monkeypatch.setattr(html_page, "MAX_MAPS", 1)
    with pytest.raises(UserError, match="of 2 heads"):
        render(spec("lines", maps=(head_map(5, 5), head_map(5, 5, head=1))), "html")
