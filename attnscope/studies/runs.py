"""What a study is made with: runs of a recipe of resources/recipes/studies, and texts in two halves."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attnscope.analysis.batches import Sample
from attnscope.analysis.corpus_texts import own_texts, read_corpus
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.paths import resources_folder
from attnscope.records.importance import PartsDone
from attnscope.records.runs import Evaluated, Finished, Step
from attnscope.studies.study import Choices
from attnscope.text.tasks import make_task
from attnscope.training import TrainingRun, read_recipe, read_run

QUICK = {
    "training.n_steps": "4",
    "training.batch_size": "4",
    "training.evaluate_every": "2",
    "training.evaluation_batches": "1",
    "training.save_every": "1",
    "data.n_examples": "40",
    "schedule.warmup_steps": "1",
}
"""What makes a recipe so small that only its files and not its numbers mean anything."""

DEMO, _TASK = "grammar", "english-french"
"""The demo model that translates, and the task it was trained on."""
_HELD_OUT_SEED = 4


def study_recipe(name: str) -> Path:
    """The file of a study's recipe."""
    return resources_folder() / "recipes" / "studies" / f"{name}.toml"


def run_folder(choices: Choices, name: str) -> Path:
    """Where a study's run is: another folder for another seed, and for quick ones."""
    quick = "-quick" if choices.is_quick else ""
    return choices.folder / f"run-{name}-seed-{choices.seed}{quick}"


def train_study(
    name: str, out: Path, *, seed: int, device: str = "auto", changes: Mapping[str, str] | None = None
) -> Iterator[PartsDone]:
    """Train, or go on with a run that is there, telling the progress; a whole run is left as it is.

    Raises UserError when the training does not come to its end.
    """
    recipe = read_recipe(study_recipe(name), {"training.seed": str(seed), **(changes or {})})
    about = f"training {name}"
    for event in TrainingRun(recipe, out, device).events():
        match event:
            case Step():
                yield PartsDone(n_done=event.step, n_total=recipe.training.n_steps, about=about)
            case Evaluated():
                about = f"training {name}: loss {event.loss:.3f}"
            case Finished() if event.reason != "done":
                raise UserError(
                    f"The training of {name} ended at step {event.step}: {event.note or event.reason}.",
                    action=f"Remove {out} and start the study again.",
                )


def checkpoints_of(folder: Path) -> tuple[tuple[int, Path], ...]:
    """Step and model folder of each checkpoint of a run."""
    return read_run(folder).checkpoints


def parameters_said(name: str, n_parameters: int) -> str:
    """A model in words: which recipe, how large."""
    return f"resources/recipes/studies/{name}.toml, {n_parameters:,} parameters"


def halves(model: Model, n_texts: int, corpus: Path | None = None) -> tuple[list[Sample], list[Sample], str]:
    """Texts to score heads on, others to measure on, and where they come from."""
    texts: Sequence[Sample]
    if corpus is not None:
        takes_target = model.info.takes_target
        texts = read_corpus(corpus, takes_target=takes_target, max_texts=2 * n_texts)
        source = corpus.name
    elif model.info.name == DEMO:
        texts = make_task(_TASK).examples(2 * n_texts, seed=_HELD_OUT_SEED, held_out=True)
        source = f"held out of the task {_TASK}"
    else:
        texts, source = own_texts(model, 2 * n_texts)
    middle = max(1, len(texts) // 2)
    return list(texts[:middle]), list(texts[middle:] or texts), source
