"""What kind of tokenizer a file holds, and whether it can be used; our own files and foreign ones."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import LoadError
from attnscope.outside import read_outside_text
from attnscope.schemes.tokenizers import KINDS
from attnscope.schemes.tokenizers.kind import model_name, said_of
from attnscope.text.growth import require_sane_piece
from attnscope.text.pieces import METASPACE, Notation

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
