"""The studies by name. Nothing here imports what a study needs; `find_study` does, when one is run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from attnscope.errors import UserError

if TYPE_CHECKING:
    from attnscope.records.importance import Progress
    from attnscope.studies.study import Choices, Study

    Reproduce = Callable[[Choices], Iterator[Progress | Study]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCard:
    """What a study asks, of which paper; `home` is the module whose `reproduce` answers.

    `takes` names the options that it knows besides those of all: `model`, `corpus`, `trees`.
    """

    name: str
    paper: str
    question: str
    home: str
    takes: tuple[str, ...] = ()


CARDS: tuple[StudyCard, ...] = (
    StudyCard(
        name="collapse",
        paper="Dong, Cordonnier and Loukas 2021, Attention is not all you need",
        question="Does attention alone make all tokens alike, doubly exponentially with depth?",
        home="collapse",
        takes=("model",),
    ),
    StudyCard(
        name="induction",
        paper="Olsson et al. 2022, In-context learning and induction heads",
        question="Do induction heads form abruptly, together with the drop of the loss?",
        home="induction",
    ),
    StudyCard(
        name="pruning-curve",
        paper="Michel, Levy and Neubig 2019, Are sixteen heads really better than one?",
        question="How many heads can be removed before a model gets worse, and in which order?",
        home="pruning",
        takes=("model", "corpus"),
    ),
    StudyCard(
        name="flow",
        paper="Abnar and Zuidema 2020, Quantifying attention flow in Transformers",
        question="Does attention agree better with blanking out words when it is followed to the input?",
        home="flow",
        takes=("model",),
    ),
    StudyCard(
        name="roles",
        paper="Voita et al. 2019, Analyzing multi-head self-attention",
        question="Which roles do heads have, and are those with a role the ones that learned gates keep?",
        home="roles",
        takes=("model", "corpus", "trees"),
    ),
    StudyCard(
        name="syntax",
        paper="Clark et al. 2019, What does BERT look at?",
        question="Where do the heads of a masked model look, and do some follow syntax?",
        home="syntax",
        takes=("model", "corpus", "trees"),
    ),
    StudyCard(
        name="length",
        paper="Bahdanau et al. 2014, Neural machine translation by jointly learning to align and translate",
        question="Does attention write long texts as well as short ones, and one vector not?",
        home="length",
    ),
)
NAMES: tuple[str, ...] = tuple(card.name for card in CARDS)


def find_card(name: str) -> StudyCard:
    """The card of a study; raises UserError for an unknown name."""
    for card in CARDS:
        if card.name == name:
            return card
    raise UserError(f"There is no study '{name}'.", expected=", ".join(NAMES), action="Choose one of these.")


def find_study(name: str) -> "Reproduce":
    """What makes the study: an iterator of progress and, at last, the study."""
    module = import_module(f"attnscope.studies.{find_card(name).home}")
    found: Reproduce = module.reproduce
    return found
