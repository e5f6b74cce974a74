"""Whose gold links a text has: of two files that a person opened, or of the task that the model learned.

Texts are compared word by word as `find_spans` finds them, so that it does not matter whether `l' animal`
is written together or apart; capitals do not matter either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from attnscope.analysis.corpus_texts import N_OWN_TEXTS, hand_aligned, own_examples
from attnscope.analysis.gold_links import AlignedPair, everyday_pairs
from attnscope.analysis.words import Span, find_spans
from attnscope.models.model import Model
from attnscope.models.own import OwnNetwork
from attnscope.records.alignment import GoldPair
from attnscope.text.examples import Example
from attnscope.text.grammar import read_sentence

_GRAMMAR = "english-french"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The links of a text, or why there are none and what could be read instead; see `AlignmentShown`."""

    pair: AlignedPair | None = None
    origin: str = ""
    note: str = ""
    offered: GoldPair | None = None
    following: GoldPair | None = None


def own_pairs(model: Model, max_texts: int = N_OWN_TEXTS) -> list[AlignedPair]:
    """The gold links of `own_texts`: held-out pairs of the model's task, or pairs aligned by hand."""
    known = own_examples(model, max_texts)
    if known is None:
        return list(hand_aligned(model)[:max_texts])
    return [
        AlignedPair(source=example.source, target=example.target, sure=frozenset(example.links))
        for example in known[0]
        if example.target is not None and example.links
    ]


def links_of_files(pairs: Sequence[AlignedPair], name: str, source: str, target: str) -> Known:
    """The links of a text that is a pair of the files; `name` is what the files are called."""
    if not pairs:
        return Known(note=f"{name} has no pairs")
    places = [place for place, pair in enumerate(pairs) if word_spans(source, pair.source)]
    place = next((p for p in places if word_spans(target, pairs[p].target)), None)
    if place is not None:
        following = _named(pairs, (place + 1) % len(pairs), name) if len(pairs) > 1 else None
        origin = f"links of {name}, pair {place + 1:,} of {len(pairs):,}"
        return Known(pair=pairs[place], origin=origin, following=following)
    if places:
        note = f"another translation of this text has links, in {name}"
        return Known(note=note, offered=_named(pairs, places[0], name))
    return Known(note=f"this text is not among the pairs of {name}", offered=_named(pairs, 0, name))


def links_of_task(model: Model, source: str, target: str) -> Known:
    """The links of a text of the task that the model was trained on."""
    task = _task_of(model)
    examples = read_sentence(source) if task == _GRAMMAR else _same_source(model, source)
    found = next((e for e in examples if e.target is not None and word_spans(target, e.target)), None)
    if found is not None:
        pair = AlignedPair(source=found.source, target=found.target or "", sure=frozenset(found.links))
        return Known(pair=pair, origin=f"links of the task {task}")
    if examples:
        best = examples[0]
        offered = GoldPair(source=source, target=best.target or "", name="the task's translation")
        return Known(note=f"the task {task} has links of another translation of this text", offered=offered)
    if task == _GRAMMAR:
        return Known(note="this text is outside the small grammar whose links are known: open gold links")
    if any(word_spans(source, pair.source) for pair in everyday_pairs()):
        return links_of_files(everyday_pairs(), "the everyday English-French pairs", source, target)
    return Known(note="no gold links of this text are known: open a file of pairs and one of links")


def word_spans(text: str, words: str) -> list[Span] | None:
    """Where all the words stand that a text is made of; None when it is made of others."""
    wanted = words.split()
    lower = text.lower()
    for written, sought in ((text, wanted), (lower, [word.lower() for word in wanted])):
        spans = find_spans(written, sought) if len(written) == len(text) else None
        if spans and not written[spans[-1][1] :].strip():
            return spans
    return None


def _named(pairs: Sequence[AlignedPair], place: int, name: str) -> GoldPair:
    source, target = pairs[place].texts
    return GoldPair(source=source, target=target, name=f"pair {place + 1:,} of {name}")


def _same_source(model: Model, source: str) -> tuple[Example, ...]:
    known = own_examples(model)
    examples = () if known is None else known[0]
    return tuple(e for e in examples if e.target is not None and e.links and word_spans(source, e.source))


def _task_of(model: Model) -> str:
    network = model.network
    name = network.card.training.get("task") if isinstance(network, OwnNetwork) else None
    return name if isinstance(name, str) else ""
