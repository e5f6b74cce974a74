"""Rank collapse of the open model (`analysis/collapse.py`), as an experiment."""

from collections.abc import Iterator

from attnscope.analysis.collapse import rank_collapse
from attnscope.records.experiments import CollapseFinding, CollapseQuestion, ExperimentNews
from attnscope.workers.experiments import GetModel, experiment_of_model


@experiment_of_model(CollapseQuestion)
def collapse_of_model(question: CollapseQuestion, get_model: GetModel) -> Iterator[ExperimentNews]:
    """The curves of the model's own weights, in one piece."""
    model = get_model()
    curves = rank_collapse(model, question.text, question.target)
    finding = CollapseFinding(question=question, name=model.info.name, stack=curves[0].stack, curves=curves)
    yield ExperimentNews(n_done=1, n_total=1, finding=finding, is_done=True)
