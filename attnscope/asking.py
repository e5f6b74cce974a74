"""`attnscope.ask(name, model, text)`: the answer to a question about a model and a text, with its figure."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from attnscope.analysis.model_reading import ask_model
from attnscope.errors import of_wrong_kind
from attnscope.fields import with_values
from attnscope.figures.figure import Figure, on_page
from attnscope.figures.page import PaperOptions
from attnscope.figures.spec import Caption
from attnscope.figures.views.answer import AnswerFigure
from attnscope.models.model import Changes, GateSetting, Model
from attnscope.options import spelled_out
from attnscope.questions import question_named
from attnscope.records.charts import Answer, CellMap, Chart, NumberTable
from attnscope.records.interventions import as_interventions
from attnscope.records.sites import Gates, HeadName, gates_named, head_named


@dataclass(frozen=True, slots=True)
class Asked:
    """The answer to one question; a notebook draws it."""

    title: str
    answer: Answer
    caption: Caption

    def __repr__(self) -> str:
        """The sentence that states what was found."""
        return f"{self.title}: {self.answer.sentence}"

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        return self.answer.sentence

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Curves: `chart.series[0].xs` and `.ys` are arrays."""
        return self.answer.charts

    @property
    def maps(self) -> tuple[CellMap, ...]:
        """Maps of numbers: `values` [n_rows, n_columns]."""
        return self.answer.cells

    @property
    def tables(self) -> tuple[NumberTable, ...]:
        """Tables: `columns` and `rows`."""
        return self.answer.tables

    @spelled_out
    def figure(
        self, *, title: str | None = None, has_caption: bool = True, **paper: Unpack[PaperOptions]
    ) -> Figure:
        """The answer as a figure; the page is as in `attnscope.figure`."""
        spec = AnswerFigure(
            charts=self.charts,
            cells=self.maps,
            tables=self.tables,
            title=self.title if title is None else title,
            caption=self.caption,
        )
        return on_page(spec, has_caption=has_caption, **paper)

    def save(self, path: str | Path) -> Path:
        """Write SVG, PDF, PNG, CSV, NPZ, an HTML page or a figure file, by the ending; returns the path."""
        return self.figure().save(path)

    def _repr_svg_(self) -> str:
        return self.figure().render("svg").decode()


def ask(
    name: str,
    model: Model,
    text: str,
    target: str | None = None,
    *,
    head: HeadName | None = None,
    gates: GateSetting = None,
    interventions: Changes = (),
    **options: object,
) -> Asked:
    """The answer to a question, such as `residual-stream`, about a model and a text.

    `name` is the question's; `attnscope ask` lists the questions with their options, which are given in
    `options`. `head` is the head that is asked about, where the question is about one (default: the model's
    first). Raises UserError for an unknown question or option, and for a model that has no such part.
    """
    if not isinstance(model, Model):
        raise of_wrong_kind(model, "model", "a model", "Open one: attnscope.load(name).")
    question = question_named(name)
    answer = ask_model(
        question,
        model,
        text,
        target,
        options=with_values(question.options, options),
        head=None if head is None else head_named(head, model.sites),
        gates=gates if gates is None or isinstance(gates, Gates) else gates_named(gates, model.sites),
        interventions=as_interventions(interventions, model.sites),
    )
    info = model.info
    caption = Caption(model=info.name, sha256=info.sha256, text=text, target=target)
    return Asked(question.title, answer, replace(caption, note=caption_note(answer)))


def caption_note(answer: Answer) -> str:
    """What stands under a figure of an answer."""
    return " ".join(filter(None, (answer.sentence, answer.note)))
