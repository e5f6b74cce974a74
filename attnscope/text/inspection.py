"""What kind of tokenizer a file holds, and whether it can be used; our own files and foreign ones.

How much longer a tokenizer's own rules can make a text: what grows without measure is refused at opening.

Each rule is asked how many characters one character can become of, from the last rule to the first. A rule
that replaces `p` by `q` gives each character of `p` its share of what `q` becomes; one that may match
anywhere adds what `q` becomes to every character and to the end. The true growth is never more than that.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import LoadError
from attnscope.outside import read_outside_text
from attnscope.schemes.tokenizers import KINDS
from attnscope.schemes.tokenizers.kind import model_name, said_of
from attnscope.text.pieces import METASPACE, Notation

MOST = 128.0
"""Characters that one character may become."""
MOST_TOKENS = 64
"""Tokens that one character may become, beside those of a short text."""
_MOST_COPIES = 4
_MAX_ENTRY = 10_000
_SHORT = 10_000
_FACTORS = {"ByteLevel": 4.0, "BertNormalizer": 3.0}
_REPLACING = ("Replace", "Prepend")
_OTHER_TOKENIZER = "Load another tokenizer, or remove the rule that grows from its file."


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
    return LoadError(f"{happened}.", kind="tokenizer", expected=expected, action=_OTHER_TOKENIZER)


TOKENIZER_FILE = "tokenizer.json"
_MAX_BYTES = 64 * 2**20
_MAX_ID = 2**24
_ACTION = "Load another tokenizer."
_ROLES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "unknown": ("<unk>", "[UNK]"),
    "begin": ("<s>", "[CLS]", "<bos>", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("</s>", "[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}


def read_tokenizer_file(path: Path) -> str:
    """The content of a tokenizer file; raises LoadError unless it is a readable UTF-8 file of sane size."""
    return read_outside_text(
        path,
        expected=f"a file {TOKENIZER_FILE}",
        max_bytes=_MAX_BYTES,
        what=f"The tokenizer {path}",
        action="Choose the folder that was saved with the model.",
    )


def tokenizer_kind(library: LibraryTokenizer) -> str:
    """The kind of a tokenizer: one of ours, whoever made it."""
    for kind in reversed(KINDS.values()):  # those that only some tokenizers of a model are come last
        if kind.is_kind_of(library):
            return kind.name
    raise LoadError(f"Its model {model_name(library)} is unknown.", kind="tokenizer", action=_ACTION)


def notation_of(library: LibraryTokenizer) -> Notation:
    """How the vocabulary of a tokenizer writes bytes, spaces and parts of words."""
    model: Any = library.model
    state = said_of(library.pre_tokenizer) + said_of(library.decoder) + said_of(library.normalizer)
    prefix = getattr(model, "continuing_subword_prefix", None) or ""
    suffix = getattr(model, "end_of_word_suffix", None) or ""
    return Notation(
        is_byte_level='"ByteLevel"' in state,
        has_metaspace=METASPACE in state,
        has_byte_entries='"ByteFallback"' in state,
        part_prefix=prefix,
        word_suffix=suffix,
    )


def check_vocabulary(library: LibraryTokenizer) -> int:
    """The size of the vocabulary (highest id + 1); raises LoadError when its ids or pieces are not sane.

    Ids are asked for one by one: all at once, 250,000 pieces hold the interpreter for a second, and with it
    the window.
    """
    model: Any = library.model
    added = library.get_added_tokens_decoder().values()  # to count with them, the library lists everything
    n_added = len({token.content for token in added if model.token_to_id(token.content) is None})
    highest = _highest_of_all(library, library.get_vocab_size(with_added_tokens=False) + n_added)
    return highest + 1 if highest >= 0 else _looked_through(library)


def _highest_of_all(library: LibraryTokenizer, n_pieces: int) -> int:
    """The highest id where there are `n_pieces` different ones without large gaps, else −1."""
    n_left = n_pieces
    for id in range(min(2 * n_pieces + 1001, _MAX_ID)):
        piece = library.id_to_token(id)
        if n_left and piece is not None:
            require_sane_piece(piece)
            n_left -= 1
            if not n_left:
                return id
    return -1


def _looked_through(library: LibraryTokenizer) -> int:
    """The same from the whole vocabulary, which also says what is wrong with it."""
    vocabulary = library.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise LoadError(
            "Its vocabulary is empty.", kind="tokenizer", expected="at least one piece", action=_ACTION
        )
    for piece in vocabulary:
        require_sane_piece(piece)
    highest = max(vocabulary.values())
    if highest >= _MAX_ID or highest > 2 * len(vocabulary) + 1000:
        raise LoadError(
            f"Its highest id is {highest}, though it has {len(vocabulary)} pieces.",
            kind="tokenizer",
            expected="ids from 0 on without large gaps",
            action=_ACTION,
        )
    if len(set(vocabulary.values())) != len(vocabulary):
        raise LoadError("Two of its pieces have the same id.", kind="tokenizer", action=_ACTION)
    return highest + 1


def special_ids(library: LibraryTokenizer) -> tuple[dict[str, int], frozenset[int]]:
    """Ids by role (`pad`, `unknown`, `begin`, `end`, `mask`; only those there are), and all special ids."""
    roles: dict[str, int] = {}
    for role, names in _ROLES.items():
        ids = [id for name in names if (id := library.token_to_id(name)) is not None]
        if ids:
            roles[role] = ids[0]
    added = {id for id, token in library.get_added_tokens_decoder().items() if token.special}
    return roles, frozenset(added | set(roles.values()))
