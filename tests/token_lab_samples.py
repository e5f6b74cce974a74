"""Made-up replies for the token labs: a replay of two steps and a vocabulary of three pieces."""

import numpy as np

from attnscope.records import MergeRule, SplitReplay, SplitStep, SplitWord, VocabularyTable


def word(*pieces):
    return SplitWord(pieces=pieces, ids=tuple(range(len(pieces))))


def replay_of_ab():
    first = (word("ab", "c"), word("ab"))
    steps = (
        SplitStep(words=first, left="a", right="b", made="ab", rank=0, changed=((0, 0), (1, 0))),
        SplitStep(words=(word("abc"), first[1]), left="ab", right="c", made="abc", rank=3, changed=((0, 0),)),
    )
    rules = (
        MergeRule(rank=0, left="a", right="b", made="ab", count=9),
        MergeRule(rank=3, left="ab", right="c", made="abc"),
    )
    return SplitReplay(
        kind="merges", tokenizer="x", vocab_size=9, text="abc ab",
        start=(word("a", "b", "c"), word("a", "b")), steps=steps, rules=rules, n_rules=4, is_proved=True,
    )  # fmt: skip


def table():
    pieces = ["<s>", "a", "bc"]
    return VocabularyTable(
        name="x", kind="bpe", text="".join(pieces), ends=np.cumsum([3, 1, 2]), kinds=np.array([0, 1, 2]),
        lengths=np.array([3, 1, 2]), scores=np.array([np.nan, 0, 1]), alphabet=np.array([0, 1, 2]),
    )  # fmt: skip
