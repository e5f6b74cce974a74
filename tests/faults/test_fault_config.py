"""F21–F23: configurations from strangers."""

import json
import time
from pathlib import Path

import pytest
from tiny_models import tiny_model

from attnscope.errors import LoadError
from attnscope.models import load
from attnscope.outside import parse_json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "model"
    tiny_model("decoder").save(target)
    (target / "manifest.json").unlink()
    return target


NOT_STRICT = {
    "not JSON": (b"{", "json"),
    "empty": (b"", "json"),
    "a list": (b"[]", "json"),
    "a number": (b"3", "json"),
    "null": (b"null", "json"),
    "UTF-16": ('{"format": 1}'.encode("utf-16"), "json"),
    "UTF-16 without mark": ('{"format": 1}'.encode("utf-16-le"), "json"),
    "not UTF-8": (b'{"a": "\xff"}', "json"),
    "NaN": (b'{"a": NaN}', "json"),
    "infinity": (b'{"a": -Infinity}', "json"),
    "1e999": (b'{"a": 1e999}', "json"),
    "400 digits": (b'{"a": ' + b"9" * 400 + b"}", "json"),
    "5000 digits": (b'{"a": ' + b"9" * 5000 + b"}", "json"),
    "duplicate keys": (b'{"a": 1, "a": 2}', "duplicate"),
    "100,000 deep": (b"[" * 100_000 + b"]" * 100_000, "json"),
    "too large": (b" " * 10_000_001, "too-large"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", NOT_STRICT)
def test_that_only_strict_json_is_read(fault: str, folder: Path) -> None:  # F21
    content, kind = NOT_STRICT[fault]
    (folder / "config.json").write_bytes(content)
    with pytest.raises(LoadError) as caught:
        load(folder, device="cpu")
    assert caught.value.kind == kind
    assert "config.json" in str(caught.value)


def test_that_a_byte_order_mark_is_accepted(folder: Path) -> None:
    path = folder / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load(folder, device="cpu").info.name == "tiny"


def test_that_the_place_of_a_json_error_is_told_in_bytes() -> None:
    with pytest.raises(LoadError, match="at byte 9"):
        parse_json('{"é": 1 x}'.encode(), what="this")
    with pytest.raises(LoadError, match="Invalid control character at byte 3"):
        parse_json(b'{"a\n', what="this")


def change(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in values.items():
        (config["model"] if key in config["model"] else config)[key] = value
    path.write_text(json.dumps(config))


IMPOSSIBLE = [
    {"d_model": 10**9},
    {"n_layers": 10**6},
    {"n_layers": 1000, "d_model": 65536, "n_heads": 1024, "n_kv_heads": 1024},
    {"n_heads": 0},
    {"n_heads": 3},
    {"n_heads": -4},
    {"n_layers": True},
    {"d_model": "16"},
    {"form": "oracle"},
    {"max_tokens": 1_000_000, "position": "rotary", "d_model": 8192},
    {"model": []},
    {"model": {"form": "decoder", "vocab_size": 20, "surprise": 1}},
    {"objective": "masked"},
    {"objective": None},
    {"format": 2},
    {"format": True},
    {"training": 3},
]


@pytest.mark.slow
@pytest.mark.parametrize("values", IMPOSSIBLE, ids=str)
def test_that_impossible_values_are_refused_on_paper(values: dict[str, object], folder: Path) -> None:  # F22
    change(folder, **values)
    begin = time.process_time()
    with pytest.raises(LoadError) as caught:
        load(folder, device="cpu")
    assert caught.value.kind in ("config", "too-large", "newer")
    assert time.process_time() - begin < 2.0


def test_that_keys_that_ask_for_code_are_ignored_and_named(folder: Path) -> None:  # F23
    change(folder, auto_map={"AutoModel": "evil.Model"}, trust_remote_code=True)
    note = load(folder, device="cpu").info.note
    assert "auto_map" in note
    assert "trust_remote_code" in note


def test_that_a_foreign_config_is_named(folder: Path) -> None:
    (folder / "config.json").write_text('{"layers": 3}')
    with pytest.raises(LoadError, match="not a configuration of AttnScope") as caught:
        load(folder, device="cpu")
    assert caught.value.kind == "foreign"


def test_that_a_missing_config_or_tokenizer_is_named(folder: Path) -> None:
    for name in ("tokenizer.json", "config.json"):
        (folder / name).unlink()
        with pytest.raises(LoadError, match=f"has no {name}") as caught:
            load(folder, device="cpu")
        assert caught.value.kind == "missing"
