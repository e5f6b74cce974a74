"""Texts with hidden spans, as people type and read them (Raffel et al. 2020, figure 2).

typed     Thank you <mask> me to your party <mask> week      or with <extra_0>, <extra_1>, …
read      Thank you <extra_0> me to your party <extra_1> week </s>
written   <extra_0> for inviting <extra_1> last
shown     Thank you for inviting me to your party last week
"""

from collections.abc import Sequence
from dataclasses import replace

from attnscope.models.inputs import Inputs
from attnscope.models.network import Network, knowing
from attnscope.records.tokens import Tokens
from attnscope.text.tokenizer import Tokenizer
from attnscope.text.vocabulary import NO_CHARACTER, decode_begun, spans_of


def number_masks(tokens: Tokens, tokenizer: Tokenizer) -> Tokens:
    """The tokens with each mask made a sentinel, in their order, where the tokenizer has sentinels.

    Sentinels that the text names itself are not given out twice; masks beyond the last one stay masks.
    """
    if not tokenizer.sentinel_ids or not tokenizer.has("mask"):
        return tokens
    used = set(tokens.ids)
    free = [id for id in tokenizer.sentinel_ids if id not in used][::-1]
    numbered = []
    for token in tokens.tokens:
        if token.id == tokenizer.mask_id and free:
            token = replace(tokenizer.token(free.pop()), start=token.start, end=token.end)
        numbered.append(token)
    return replace(tokens, tokens=tuple(numbered))


def written_text(network: Network, inputs: Inputs, ids: Sequence[int]) -> str:
    """What a network wrote, as text; hidden spans are put where they belong in the text that was read."""
    vocabulary = knowing(network, inputs).vocabulary
    sentinels = vocabulary.sentinel_ids if isinstance(vocabulary, Tokenizer) else ()
    if network.form != "encoder-decoder" or not set(sentinels) & set(inputs.source.ids):
        text = vocabulary.decode(ids)
        is_begun = network.form == "decoder" and text.endswith(NO_CHARACTER)  # cut after so many tokens
        return decode_begun(vocabulary.decode, ids) if is_begun else text
    spans = {sentinel: vocabulary.decode(span) for sentinel, span in spans_of(ids, sentinels)}
    text, filled, end = inputs.source.text, "", 0
    for token in inputs.source.tokens:
        if token.id not in sentinels:
            continue
        filled += text[end : token.start]
        end = token.end
        span = spans.get(token.id)
        if span is None:
            filled += text[token.start : token.end]
            continue
        if filled.endswith(" ") and (not span or span[0].isspace()):
            filled = filled[:-1]  # the span brings its own, or there is nothing to set apart
        filled += span
    return filled + text[end:]
