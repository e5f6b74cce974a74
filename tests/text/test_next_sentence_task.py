"""Pairs of sentences: one follows exactly where its pronoun fits the hero and its things the place."""

from attnscope.text.tasks import make_task

SHE = {"anna", "clara", "emma", "greta", "she", "her"}
HE = {"ben", "david", "felix", "hugo", "he", "his"}
PLACES = (
    {"kitchen", "soup", "bread", "oven", "spoon"},
    {"harbour", "boat", "sail", "anchor", "rope"},
    {"garden", "rose", "hedge", "spade", "lawn"},
    {"school", "lesson", "chalk", "desk", "homework"},
    {"stable", "horse", "saddle", "hay", "bridle"},
)


def read(sentence: str) -> tuple[bool, int]:
    """Whether it is about her, and where; nothing else is said of either."""
    words = set(sentence.split())
    assert bool(words & SHE) != bool(words & HE)
    (place,) = (i for i, known in enumerate(PLACES) if words & known)
    return bool(words & SHE), place


def test_that_a_sentence_follows_where_pronoun_and_place_fit() -> None:
    examples = make_task("next-sentence").examples(2000, seed=4)
    words = set(make_task("next-sentence").vocabulary)
    fitting = []
    for example in examples:
        assert example.target is not None
        (her, where), (also_her, also_where) = read(example.source), read(example.target)
        assert example.is_next == (her == also_her and where == also_where)
        fitting.append((her == also_her, where == also_where))
        assert set(f"{example.source} {example.target}".split()) <= words
        first, second = example.source.split(), example.target.split()
        (pronoun, *things) = example.links
        assert second[pronoun[0]] in ("she", "he")
        assert first[pronoun[1]] in SHE | HE
        assert all(second[at] in PLACES[also_where] and first[to] in PLACES[where] for at, to in things)
    shares = [
        fitting.count(kind) / 2000 for kind in ((True, True), (True, False), (False, True), (False, False))
    ]
    assert all(
        abs(share - wanted) < 0.04 for share, wanted in zip(shares, (0.5, 0.25, 0.125, 0.125), strict=True)
    )
