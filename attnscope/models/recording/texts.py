"""The texts of recorded calls: as a person named their tokens, or by places."""

from collections.abc import Sequence

from attnscope.counting import counted, there_are
from attnscope.errors import UserError
from attnscope.models.recording.naming import numbered_tokens, tokens_named
from attnscope.models.recording.placing import Lengths, RecordedCall
from attnscope.records.tokens import Tokens


def read_texts(
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
    no_attention = f" Or leave out by calls= what is no attention, such as: {other[-1]}." if other else ""
    if n == n_wanted + 1 and any(call.n_steps > 1 for call in calls):
        no_attention += " The last token that a model writes is never read by it: leave it out."
    texts = counted(lengths.source, "key")
    texts += "" if lengths.target is None else f" and {counted(lengths.target, 'query', 'queries')}"
    raise UserError(
        f"{there_are(n, 'token')} in `{what}`, and the module attended over {texts} of them.",
        expected=f"{counted(n_wanted - len(extra), 'piece')} as `{what}`, special tokens counted in",
        action="Give the pieces as they went into the module; `tokens` are the keys of cross attention, "
        f"`target` its queries.{no_attention}",
    )


def _sizes(call: RecordedCall) -> tuple[int, int]:
    return call.record.n_queries, call.record.n_keys
