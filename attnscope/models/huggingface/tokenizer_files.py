"""Reading the tokenizer of a foreign model folder."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import LoadError
from attnscope.models.huggingface.cache import contained_file
from attnscope.models.huggingface.library import library_faults
from attnscope.models.huggingface.marian_files import is_marian_folder, read_marian
from attnscope.models.huggingface.vocabulary import HuggingFaceVocabulary
from attnscope.nn.telling import tell_and_wait
from attnscope.outside import regular_size
from attnscope.strict_json import as_object, read_json
from attnscope.text.guarding import library_errors, without_panic_words
from attnscope.text.inspection import TOKENIZER_FILE, read_tokenizer_file

_CONFIG, _MAP = "tokenizer_config.json", "special_tokens_map.json"
_OLDER = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "tokenizer.model", "source.spm",
          "sentencepiece.bpe.model", "spm.model")  # fmt: skip
_ROLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("pad", ("pad_token",)),
    ("unknown", ("unk_token",)),
    ("begin", ("bos_token", "cls_token")),
    ("end", ("eos_token", "sep_token")),
    ("mask", ("mask_token",)),
)
_ACTION = "Restore the tokenizer from the model's origin."
_LONG = 2**21
"""Characters of a tokenizer.json from which on reading it is long enough to be told: some 50,000 pieces."""


def read_vocabulary(folder: Path, library: Any) -> HuggingFaceVocabulary:
    """The tokenizer of a model folder; `library` is transformers, for folders without tokenizer.json.

    Raises LoadError, whatever the files do to the libraries.
    """
    names = _named_tokens(folder)
    source = target = None
    if is_marian_folder(folder) and not (folder / TOKENIZER_FILE).exists():
        backend, source, target = read_marian(folder)
    else:
        backend = _read_backend(folder, library)
    roles: dict[str, int] = {}
    for role, keys in _ROLES:
        found = [backend.token_to_id(names[key]) for key in keys if key in names]
        if known := [id for id in found if id is not None]:
            roles[role] = known[0]
    try:
        with without_panic_words():
            return HuggingFaceVocabulary(backend, roles, source=source, target=target)
    except LoadError as error:
        raise LoadError(
            f"The tokenizer in {folder} is not usable. {error.happened}",
            kind=error.kind,
            expected=error.expected,
            action=_ACTION,
        ) from error


def _read_backend(folder: Path, library: Any) -> LibraryTokenizer:
    """The library's tokenizer.

    It holds the interpreter while it reads a vocabulary, and with it the window: 0.3–0.6 s of processor
    time for 250,000 pieces of a unigram model, 1.1–1.4 s for as many of BPE with 570,000 merges, whichever
    of `from_str`, `from_file`, `from_buffer` or unpickling is called (tokenizers 0.23), and it cannot be
    done in pieces. A process that served encodings would be asked over a pipe for single tokens by the
    hundred thousand and could die on its own; so the window says what it waits for. Drop when the library
    releases the interpreter.
    """
    path = folder / TOKENIZER_FILE
    if path.exists() or path.is_symlink():
        content = read_tokenizer_file(contained_file(folder, TOKENIZER_FILE))
        if len(content) >= _LONG:
            tell_and_wait("Reading a large vocabulary: the window pauses…")
        with library_errors(f"The tokenizer {path} is not usable", action=_ACTION), without_panic_words():
            return LibraryTokenizer.from_str(content)
    older = [name for name in _OLDER if (folder / name).exists()]
    if not older:
        raise LoadError(
            f"{folder} has no {TOKENIZER_FILE}.",
            kind="missing",
            expected="the tokenizer that was saved with the model",
            action="Save the tokenizer into the folder with save_pretrained.",
        )
    for name in older:
        contained_file(folder, name)
    for other in folder.iterdir():  # the library opens whichever of them it knows
        if other.exists() and not other.is_dir():
            regular_size(other, expected="a regular file")
    with library_faults(
        f"The tokenizer of {folder} cannot be built from {', '.join(older)}", kind="tokenizer", action=_ACTION
    ):
        built = library.AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, use_fast=True
        )
    backend = getattr(built, "backend_tokenizer", None)
    if not isinstance(backend, LibraryTokenizer):
        raise LoadError(
            f"The tokenizer {type(built).__name__} exists only in Python.",
            kind="tokenizer",
            expected=f"a {TOKENIZER_FILE}",
            action="Convert the tokenizer to the tokenizers format and save it beside the model.",
        )
    return backend


def _named_tokens(folder: Path) -> dict[str, str]:
    """Special tokens by the names the older files give them (`cls_token` and so on)."""
    found: dict[str, str] = {}
    for name in (_MAP, _CONFIG):
        path = folder / name
        if not path.exists():
            continue
        values = as_object(read_json(contained_file(folder, name)), what=str(path), kind="tokenizer")
        for key, value in values.items():
            content = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(content, str):
                found[key] = content
    return found
