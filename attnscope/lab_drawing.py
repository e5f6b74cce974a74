"""Labs without a window: `attnscope.lab(name, …)`, and the output of `attnscope lab`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Unpack

from attnscope.errors import UserError
from attnscope.fields import Value, with_values
from attnscope.figures.figure import Figure, on_page
from attnscope.figures.page import PageOptions, PresetName
from attnscope.figures.views.lab import lab_figure
from attnscope.labs import AnyLab, Lab, lab_named
from attnscope.labs.findings import kept_findings
from attnscope.records.experiments import ExperimentAnswer, Question

Tell = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedOut:
    """A lab, a choice, and the result."""

    lab: AnyLab
    choice: Any
    shown: Any


def drawn_lab(name: str) -> AnyLab:
    """The lab of a name; raises UserError for an unknown one, or one that needs the window."""
    lab = lab_named(name)
    if not isinstance(lab, Lab):
        raise UserError(
            f"The lab {lab.name} works with the window's model and text.",
            expected="a lab that is drawn from its settings",
            action="Open it there: it is on the page Labs.",
        )
    return lab


def work_out(lab: AnyLab, choice: Any, tell: Tell = lambda _done, _total: None) -> WorkedOut:
    """Evaluate a choice; anything the window would measure or train for it is run here and now.

    `tell` hears how far that is.
    """
    question = lab.question(choice, None)
    if question is None:
        choice = lab.completed(choice)
    else:
        choice = replace(choice, answer=_answer(question, tell))
    return WorkedOut(lab=lab, choice=choice, shown=lab.resolve(choice))


def lab(
    name: str,
    *,
    title: str = "",
    has_caption: bool = False,
    size: PresetName | None = None,
    width_mm: float | None = None,
    height_mm: float | None = None,
    font_pt: float | None = None,
    dpi: int = 300,
    **settings: Value,
) -> Figure:
    """The picture of a lab, such as `lab("Scaling by √d", d_k=64)`; its `name` may be in small letters.

    What may be set, `attnscope lab NAME` lists; the rest is as the lab opens. Labs that train do so here.
    `has_caption` states formula, numbers and finding below. The page options are those of `attnscope.figure`,
    without one the lab's own. Raises UserError for an unknown lab or setting, and for a value that cannot be.
    """
    found = drawn_lab(name)
    made = work_out(found, with_values(found.example, settings))
    return figure_of(
        made,
        title=title,
        has_caption=has_caption,
        size=size,
        width_mm=width_mm,
        height_mm=height_mm,
        font_pt=font_pt,
        dpi=dpi,
    )


def figure_of(made: WorkedOut, **page: Unpack[PageOptions]) -> Figure:
    """The result as a figure on a page."""
    return on_page(lab_figure(made.lab, made.shown), made.lab.figure_mm, **page)


def _answer(question: Question, tell: Tell) -> ExperimentAnswer:
    """The worker's answer: the one that came with the program, or a new one."""
    kept = kept_findings().get(question)
    if kept is not None:
        return ExperimentAnswer(finding=kept, is_exact=True, is_kept=True)
    from attnscope.workers.serve_models import experiment_news

    finding = None
    for news in experiment_news(question):
        finding = news.finding or finding
        tell(news.n_done, news.n_total)
    return ExperimentAnswer(finding=finding, is_exact=True)
