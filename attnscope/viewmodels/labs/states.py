"""The states of the labs that ask the worker, which the page Labs hands to the labs that show them. No Qt."""

from dataclasses import dataclass

from attnscope.viewmodels.labs.experiments import ExperimentsState
from attnscope.viewmodels.labs.merges import MergesState
from attnscope.viewmodels.labs.tokenizers import TokenizersState
from attnscope.viewmodels.labs.vocabulary import VocabularyState


@dataclass(frozen=True, slots=True, kw_only=True)
class LabStates:
    """Made with the window, before any lab is looked at."""

    experiments: ExperimentsState
    merges: MergesState
    tokenizers: TokenizersState
    vocabulary: VocabularyState
