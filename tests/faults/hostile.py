"""Hostile variants of whole files, from a seed: impossible values, bytes flipped, cut, doubled."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

RAW = ("1e400", "-1e400", "NaN", "1" + "0" * 29, "-" + "9" * 400, "1" * 5_000, '"\\ud800"')
"""Numbers and texts that stand in a file as they are: Python's own writer would not write them."""
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    0,
    1,
    2**31,
    2**63,
    -(2**63) - 1,
    0.5,
    -0.0,
    1e308,
    "",
    " ",
    "x" * 5_000,
    "../../etc/passwd",
    "\0",
    "\x1b[31m",
    "\u202e",
    "hf:nobody/nothing",
    [],
    {},
    [[]],
    [None] * 100,
    {"": ""},
    {"a": {"b": {"c": [1, 2, {"d": None}]}}},
)
_WHOLE = (b"", b"\0" * 64, b"null", b"[]", b"\xff\xfe{\0}\0", b"[" * 100_000, b"PK\x03\x04")
_MARK = "\ue000hostile\ue000"
_BYTES = (b"", b"\0", b"\xff", b"\xef\xbb\xbf", b'"', b"{", b"[" * 3_000, b"\n" * 100, b"\r", b"\x1b[2J")


def of_json(value: Any, n: int, seed: int) -> Iterator[bytes]:
    """`n` variants of a JSON file: of its values and keys first, then of its bytes."""
    draw = random.Random(seed)
    whole = json.dumps(value).encode()
    for i in range(n):
        yield _of_bytes(whole, draw) if i % 4 == 3 else _of_tree(value, draw)


def of_bytes(content: bytes, n: int, seed: int) -> Iterator[bytes]:
    """`n` variants of any file."""
    draw = random.Random(seed)
    return (_of_bytes(content, draw) for _ in range(n))


def of_text(text: str, n: int, seed: int) -> Iterator[bytes]:
    """`n` variants of a text of lines with numbers and words: some of them replaced, moved or left out."""
    draw = random.Random(seed)
    for i in range(n):
        yield _of_bytes(text.encode(), draw) if i % 3 == 2 else _of_words(text, draw)


def of_safetensors(content: bytes, n: int, seed: int) -> Iterator[bytes]:
    """`n` variants of a safetensors file, most of them of its header, whose length then is right."""
    draw = random.Random(seed)
    n_header = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + n_header]), content[8 + n_header :]
    for i in range(n):
        if i % 3 == 2:
            yield _of_bytes(content, draw)
        else:
            changed = _of_tree(header, draw)
            yield len(changed).to_bytes(8, "little") + changed + data


def _of_tree(value: Any, draw: random.Random) -> bytes:
    tree = copy.deepcopy(value)
    raw: list[str] = []
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        places = list(_places(tree))
        if not places:
            return json.dumps(draw.choice(VALUES)).encode()
        holder, key = draw.choice(places)
        match draw.randrange(6):
            case 0 if isinstance(holder, dict):
                holder["x" * draw.choice((0, 1, 5_000))] = holder.pop(key)
            case 1:
                del holder[key]
            case 2:
                raw.append(draw.choice(RAW))
                holder[key] = f"{_MARK}{len(raw) - 1}{_MARK}"
            case 3 if isinstance(holder, list) and holder:
                holder += holder * (50 if len(holder) < 20 else 1)
            case _:
                holder[key] = copy.deepcopy(draw.choice(VALUES))
    text = json.dumps(tree)
    for k, number in enumerate(raw):
        text = text.replace(json.dumps(f"{_MARK}{k}{_MARK}"), number)
    return text.encode()


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _of_bytes(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    match draw.randrange(6):
        case 0:
            return content[:at]
        case 1:
            return content[at:]
        case 2:
            return content[:at] + draw.choice(_BYTES) + content[at:]
        case 3:
            return content + content
        case 4:
            flipped = bytearray(content)
            for _ in range(draw.choice((1, 3, 30))):
                if flipped:
                    flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
            return bytes(flipped)
        case _:
            return draw.choice(
                (b"", b"\0" * 64, b"null", b"[]", b"\xff\xfe{\0}\0", b"[" * 100_000, b"PK\x03\x04")
            )


def _of_words(text: str, draw: random.Random) -> bytes:
    lines = text.splitlines()
    for _ in range(draw.choice((1, 1, 2, 6))):
        if not lines:
            break
        k = draw.randrange(len(lines))
        words = lines[k].split(" " if "\t" not in lines[k] else "\t")
        match draw.randrange(5):
            case 0:
                lines.pop(k)
            case 1:
                lines.insert(draw.randrange(len(lines) + 1), lines[k])
            case 2:
                words.pop(draw.randrange(len(words)))
                lines[k] = "\t".join(words)
            case _:
                odd = draw.choice(RAW + tuple(str(value) for value in VALUES))
                words[draw.randrange(len(words))] = odd
                lines[k] = ("\t" if "\t" in lines[k] else " ").join(words)
    return "\n".join(lines).encode("utf-8", "surrogatepass")
