"""From ids and offsets of the library to tokens that say where they stand in the text."""

from collections.abc import Sequence

from attnscope.records.tokens import Token, own_letters
from attnscope.text.vocabulary import Vocabulary

Entry = tuple[int, int, int]
"""Id, start and end of one token in the text."""


def place_tokens(text: str, entries: Sequence[Entry], vocabulary: Vocabulary) -> list[Token]:
    """One token for each entry; blanks before a word are left out of its place.

    `joins_previous` says that a token continues the word of the one before. A token of blanks begins a
    word, which the token right after it continues, as in vocabularies whose pieces begin with the space.
    """
    pieces = vocabulary.pieces([entry[0] for entry in entries])
    tokens: list[Token] = []
    previous_end = 0
    for (id, start, end), piece in zip(entries, pieces, strict=True):
        if vocabulary.reading(id).data == b" " and not text[start:end].isspace():
            end = start  # the space that some vocabularies put before the first word
        begins_blank = text[start : start + 1].isspace()
        first = start
        while first < end and text[first].isspace():
            first += 1
        is_blank = first == end
        is_after_blank = previous_end > 0 and text[previous_end - 1].isspace()
        has_gap = start > previous_end or (begins_blank and not (is_blank and is_after_blank))
        is_special = id in vocabulary.specials
        tokens.append(
            Token(
                id=id,
                piece=piece,
                is_special=is_special,
                joins_previous=bool(tokens) and not has_gap,
                start=start if is_blank else first,
                end=end,
                own=own_letters(text, piece, first, end) if is_special else "",
            )
        )
        previous_end = max(previous_end, end)
    return tokens
