"""How much longer a tokenizer's own rules can make a text: what grows without measure is refused at opening.

Each rule is asked how many characters one character can become of, from the last rule to the first. A rule
that replaces `p` by `q` gives each character of `p` its share of what `q` becomes; one that may match
anywhere adds what `q` becomes to every character and to the end. The true growth is never more than that.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import LoadError

MOST = 128.0
"""Characters that one character may become."""
MOST_TOKENS = 64
"""Tokens that one character may become, beside those of a short text."""
_MOST_COPIES = 4
_MAX_ENTRY = 10_000
_SHORT = 10_000
_FACTORS = {"ByteLevel": 4.0, "BertNormalizer": 3.0}
_REPLACING = ("Replace", "Prepend")
_ACTION = "Load another tokenizer, or remove the rule that grows from its file."


def require_no_growth(library: LibraryTokenizer) -> None:
    """Raise LoadError for a tokenizer that could make a short text fill the memory."""
    steps = _parts(library.normalizer, "normalizers") + _parts(library.pre_tokenizer, "pretokenizers")
    growth = max(growth_of(steps), growth_of(_parts(library.decoder, "decoders")))
    if growth > MOST:
        raise _refused(f"Its rules can make one character into {growth:.3g}", f"at most {MOST:g}")
    copies = _copies(_parts(library.post_processor, "processors"))
    if copies > _MOST_COPIES:
        raise _refused(f"Its template repeats a text {copies:.3g} times", "once")


def require_sane_piece(piece: str) -> None:
    """Raise LoadError for a piece of a vocabulary that is a book by itself."""
    if len(piece) > _MAX_ENTRY:
        raise _refused(f"One of its pieces has {len(piece):,} characters", f"at most {_MAX_ENTRY:,}")


def require_sane_count(n_tokens: int, n_characters: int) -> None:
    """Raise LoadError where a text of some characters has become far more tokens."""
    if n_tokens > MOST_TOKENS * n_characters + _SHORT:
        raise _refused(f"It makes {n_tokens:,} tokens of {n_characters:,} characters", "no more than letters")


def growth_of(steps: Sequence[dict[str, Any]]) -> float:
    """The most characters that one can become of, passing through all the steps."""
    own: dict[str, float] = {}
    other = 1.0
    for step in reversed(steps):
        kind = str(step.get("type"))
        if kind in _REPLACING:
            pattern = step.get("pattern", {})
            literal = pattern.get("String") if isinstance(pattern, dict) else None
            content = str(step.get("content", step.get("prepend", "")))
            becomes = sum(own.get(letter, other) for letter in content)
            if literal:
                for letter in set(literal):
                    own[letter] = max(own.get(letter, other), becomes / len(literal))
            else:
                other += becomes
                own = {letter: value + becomes for letter, value in own.items()}
        elif (factor := _factor(kind, step)) > 1.0:
            other = factor * max(other, *own.values()) if own else factor * other
            own = {}
        if max(other, *own.values(), 0.0) > 1e30:
            return 1e30
    return max(other, *own.values(), 0.0)


def _factor(kind: str, step: dict[str, Any]) -> float:
    if kind != "Precompiled":
        return _FACTORS.get(kind, 1.0)
    try:
        table = base64.b64decode(str(step.get("precompiled_charsmap") or ""))
    except (binascii.Error, ValueError):
        return 1.0
    n_trie = int.from_bytes(table[:4], "little")
    words = table[4 + n_trie :].split(b"\0")
    return float(max(len(word.decode(errors="replace")) for word in words))


def _copies(steps: Sequence[dict[str, Any]]) -> float:
    """How often a text stands in what the template makes of it."""
    copies = 1.0
    for step in steps:
        copies *= _repeats(step)
        if copies > 1e30:
            return copies
    return copies


def _repeats(step: dict[str, Any]) -> int:
    counts = []
    for name in ("single", "pair"):
        ids = [piece["Sequence"]["id"] for piece in step.get(name) or () if "Sequence" in piece]
        counts += [ids.count(id) for id in set(ids)]
    return max(counts, default=1)


def _parts(component: Any, inner: str) -> list[dict[str, Any]]:
    """The steps of a component of the library, those of sequences in sequences one after the other."""
    if component is None:
        return []
    found: list[dict[str, Any]] = []
    waiting = [json.loads(component.__getstate__())]
    while waiting:
        step = waiting.pop()
        if not isinstance(step, dict):
            continue
        if step.get("type") == "Sequence":
            waiting += reversed(step.get(inner) or ())
        else:
            found.append(step)
    return found


def _refused(happened: str, expected: str) -> LoadError:
    return LoadError(f"{happened}.", kind="tokenizer", expected=expected, action=_ACTION)
