"""The texts of recorded attention, which has no tokenizer: pieces that a person gave, or numbers."""

import re
from collections.abc import Iterable, Mapping, Sequence

from attnscope.counting import plural, there_are
from attnscope.errors import UserError
from attnscope.models.recording.placing import Lengths, RecordedCall
from attnscope.records.tokens import Token, Tokens
from attnscope.text.pieces import METASPACE, Notation, read_entry, split_pieces

_SPECIAL = re.compile(r"\[[A-Z0-9_]{1,20}\]|<\|?[^<>\s]{1,40}\|?>")
_MAX_SHOWN = 60


def tokens_named(given: object, extra: Sequence[str] = ()) -> Tokens:
    """Tokens of pieces, which may be written as vocabularies do (`Ġthe`, `▁the`, `##ing`), or of tokens.

    Marks are read and left out; pieces such as `[CLS]` and `</s>` are special tokens. `extra` are keys that
    are no tokens, named after them. An array or a tensor of ids, [T] or [1, T], is read as its numbers.
    """
    if isinstance(given, Tokens):
        return given
    pieces = pieces_of(given, "tokens")
    if pieces and all(isinstance(token, Token) for token in pieces):
        read = [token for token in pieces if isinstance(token, Token)]
    else:
        read = _read([str(piece) for piece in pieces])
    return _in_text([*read, *(Token(id=-1 - i, piece=name, is_special=True) for i, name in enumerate(extra))])


def pieces_of(given: object, name: str) -> Sequence[object]:
    """The pieces or ids of one text, from a list, a tuple, an array or a tensor, [T] or [1, T].

    Raises UserError for one string, for several texts and for what is no list.
    """
    if isinstance(given, Tokens):
        return given.tokens
    as_list = getattr(given, "tolist", None)
    pieces = as_list() if callable(as_list) else given
    if isinstance(pieces, str):
        raise UserError(
            f"The {name} are one text: {pieces[:_MAX_SHOWN]!r}.",
            expected="a list of pieces, one for each query or key",
            action="Give the pieces as your tokenizer cut them, or text.split() where tokens are words.",
        )
    if isinstance(pieces, Mapping) or not isinstance(pieces, Iterable):
        raise UserError(
            f"The {name} are of type {type(given).__name__}.",
            expected="a list of pieces or of ids, [T], one for each query or key",
            action='Of a tokenizer\'s encoding give the ids: encoding["input_ids"].',
        )
    pieces = list(pieces)
    texts = [text for text in pieces if isinstance(text, list | tuple)]
    if not texts:
        return pieces
    if len(texts) == len(pieces) == 1 and not any(isinstance(piece, list | tuple) for piece in texts[0]):
        return list(texts[0])
    raise UserError(
        f"The {name} are of {len(texts)} texts, one below the other; a map shows one.",
        expected="the pieces or ids of one text, [T] or [1, T]",
        action=f"Give those of the row that was recorded: {name}=ids[0] with record(module, row=0).",
    )


def numbered_tokens(n: int, extra: Sequence[str] = ()) -> Tokens:
    """Tokens named by their places, where nobody gave any."""
    return tokens_named([str(place) for place in range(n - len(extra))], extra)


def _read(pieces: list[str]) -> list[Token]:
    if not any(piece.startswith(("Ġ", METASPACE, "##")) and len(piece) > 1 for piece in pieces):
        return [_token(place, piece, piece, joins=False) for place, piece in enumerate(pieces)]
    notation = Notation(
        is_byte_level=any(piece.startswith("Ġ") for piece in pieces),
        has_metaspace=any(piece.startswith(METASPACE) for piece in pieces),
        has_byte_entries=any(piece.startswith(METASPACE) for piece in pieces),
        part_prefix="##" if any(piece.startswith("##") for piece in pieces) else "",
    )
    plain = [_SPECIAL.fullmatch(piece) is not None for piece in pieces]
    readings = [read_entry(piece, notation) for piece in pieces]
    shown = split_pieces([reading.data for reading in readings])
    tokens = []
    for place, (piece, reading) in enumerate(zip(pieces, readings, strict=True)):
        joins = reading.is_part and place > 0 and not plain[place] and not plain[place - 1]
        tokens.append(_token(place, piece, piece if plain[place] else shown[place], joins=joins))
    return tokens


def _token(place: int, written: str, shown: str, *, joins: bool) -> Token:
    is_special = _SPECIAL.fullmatch(written) is not None
    return Token(id=place, piece=shown or "∅", is_special=is_special, joins_previous=joins)


def _in_text(tokens: list[Token]) -> Tokens:
    """The tokens as they stand in the text that their pieces make, words with a space between them."""
    text, placed = "", []
    for token in tokens:
        if text and not token.joins_previous:
            text += " "
        start = len(text)
        text += token.piece
        placed.append(
            Token(
                id=token.id,
                piece=token.piece,
                is_special=token.is_special,
                joins_previous=token.joins_previous,
                start=start,
                end=len(text),
                segment=token.segment,
            )
        )
    return Tokens(text=text, tokens=tuple(placed))


def texts_of_calls(
    calls: Sequence[RecordedCall],
    lengths: Lengths,
    tokens: Sequence[object] | None,
    target: Sequence[object] | None,
) -> tuple[Tokens, Tokens | None]:
    """Both texts; raises UserError for another number of tokens than was attended to."""
    extra = next((call.extra for call in calls if call.extra and call.record.n_keys == lengths.source), ())
    if tokens is None:
        source = numbered_tokens(lengths.source, extra)
    else:
        source = tokens_named(tokens, extra if len(tokens) == lengths.source - len(extra) else ())
        _check_count("tokens", len(source), extra, lengths, calls)
    if lengths.target is None:
        return source, None
    if target is not None:
        second = tokens_named(target)
    elif tokens is not None and len(tokens) == lengths.target and extra:
        second = tokens_named(tokens)
    else:
        second = numbered_tokens(lengths.target)
    _check_count("target", len(second), (), lengths, calls)
    return source, second


def _check_count(
    what: str, n: int, extra: tuple[str, ...], lengths: Lengths, calls: Sequence[RecordedCall]
) -> None:
    n_wanted = (lengths.target or 0) if what == "target" else lengths.source
    if n == n_wanted:
        return
    other = [call.words for call in calls if call.function == "softmax" and _sizes(call) != (n, n)]
    no_attention = f" Or leave out what is not attention with calls=, such as: {other[-1]}." if other else ""
    if n == n_wanted + 1 and any(call.n_steps > 1 for call in calls):
        no_attention += " The last token that a model generates is never read by it: leave it out."
    texts = plural(lengths.source, "key")
    texts += "" if lengths.target is None else f" and {plural(lengths.target, 'query', 'queries')}"
    raise UserError(
        f"{there_are(n, 'token')} in `{what}`, and the module attended over {texts} of them.",
        expected=f"{plural(n_wanted - len(extra), 'piece')} as `{what}`, special tokens included",
        action="Give the pieces as they went into the module; `tokens` are the keys of cross-attention, "
        f"`target` its queries.{no_attention}",
    )


def _sizes(call: RecordedCall) -> tuple[int, int]:
    return call.record.n_queries, call.record.n_keys
