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
from attnscope.figures import html_page
from attnscope.figures.export import render
from attnscope.figures.html_page import script_json

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
