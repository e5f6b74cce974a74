"""What a model of the library is for, from the class its config.json names; and what to try it on.

| task           | the library's list                        | output                                    |
|----------------|-------------------------------------------|-------------------------------------------|
| causal         | causal language models                    | the next token                            |
| masked         | masked language models, pretraining       | a token for each mask                     |
| translation    | sequence to sequence                      | a text, token by token                    |
| speech         | speech to text                            | a text, token by token                    |
| classification | sequence classification                   | one label for the text (or two sentences) |
| tagging        | token classification                      | one label for each token                  |
| image-class    | image classification                      | one label for the picture                 |
| image          | image encoders without a head             | nothing                                   |
| headless       | everything else that is a text model      | nothing                                   |
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from attnscope.errors import LoadError
from attnscope.models.families import family_named
from attnscope.models.huggingface.config import CheckedConfig
from attnscope.models.network import TokensById
from attnscope.paths import resources_folder
from attnscope.records.models import Form, Sample
from attnscope.records.outputs import OutputKind
from attnscope.text.samples import samples_for

TaskName = Literal[
    "causal",
    "masked",
    "translation",
    "speech",
    "classification",
    "tagging",
    "image-class",
    "image",
    "headless",
]
_BASE, _PRETRAINING = "MODEL_MAPPING_NAMES", "MODEL_FOR_PRETRAINING_MAPPING_NAMES"
_MASKED, _TEXT_ENCODING = "MODEL_FOR_MASKED_LM_MAPPING_NAMES", "MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES"
_LISTS: tuple[tuple[TaskName, str], ...] = (
    ("speech", "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES"),
    ("translation", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
    ("causal", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    ("masked", _MASKED),
    ("classification", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES"),
    ("tagging", "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES"),
    ("image-class", "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES"),
)
_KINDS: Mapping[TaskName, OutputKind] = {
    "causal": "next-token",
    "masked": "masked-token",
    "translation": "translation",
    "speech": "translation",
    "classification": "class",
    "tagging": "class",
    "image-class": "class",
    "image": "nothing",
    "headless": "nothing",
}
_PICTURE_AND_TEXT = ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES")
_ONLY_HEARS = "reads audio but, unlike Whisper, does not transcribe it token by token"
_NOT_ALONE = "is a part of another model, or is put together of two, and has no plain class in the library"
_NO_HEAD = "It has no output head: its attention can be viewed, but it predicts nothing."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTask:
    """What a model is for, and the library's class that does it; `note` is what a person should know.

    `part` names the part of the configuration (`vision_config`) when only that part is opened.
    """

    name: TaskName
    class_name: str
    form: Form
    note: str = ""
    part: str = ""

    @property
    def output_kind(self) -> OutputKind:
        return _KINDS[self.name]

    @property
    def is_pooled(self) -> bool:
        """Whether there is one answer for the whole input."""
        return self.name in ("classification", "image-class")

    @property
    def is_writing(self) -> bool:
        return self.output_kind in ("next-token", "translation")

    @property
    def reads_pictures(self) -> bool:
        return self.name in ("image-class", "image")

    @property
    def has_output(self) -> bool:
        return self.output_kind != "nothing"


def choose_task(lists: Any, config: CheckedConfig) -> ModelTask:
    """The task of a checked configuration; `lists` is the library's `modeling_auto`.

    Raises LoadError for architectures the library does not have and for inputs that are not offered.
    """
    kind = config.model_type
    family = family_named(kind)
    if family.vision_class and "vision_config" in config.values:
        note = f"Only the vision half of {kind} is opened. {_NO_HEAD}"
        name = family.vision_class
        return ModelTask(name="image", class_name=name, form="encoder", note=note, part="vision_config")
    bases = _names(lists, _BASE, kind)
    if not bases:
        is_known = kind in getattr(lists, "CONFIG_MAPPING_NAMES", {})
        raise _not_offered(config, _NOT_ALONE) if is_known else _unknown(config)
    for name in config.architectures:
        can_fill = name in _names(lists, _MASKED, kind)
        for task, which in _LISTS:
            if name in _names(lists, which, kind) and _fits(task, config, can_fill=can_fill):
                return ModelTask(name=task, class_name=name, form=_form(task, lists, config))
    is_pretrained = any(name in _names(lists, _PRETRAINING, kind) for name in config.architectures)
    masked = _names(lists, _MASKED, kind)
    if is_pretrained and masked and family.predicts_words:
        return ModelTask(name="masked", class_name=masked[0], form="encoder")
    for name in config.architectures:
        if name in _names(lists, _TEXT_ENCODING, kind):
            return ModelTask(name="headless", class_name=name, form="encoder", note=_NO_HEAD)
    return _headless(lists, config, bases[0])


def _headless(lists: Any, config: CheckedConfig, base: str) -> ModelTask:
    kind = config.model_type
    for which in _PICTURE_AND_TEXT:
        if kind in getattr(lists, which, {}) or any(key in config.values for key in ("audio_config",)):
            raise _not_offered(config, "reads pictures or sounds together with text")
    has_pictures = "image_size" in config.values and "vocab_size" not in config.values
    if kind in lists.MODEL_FOR_IMAGE_MAPPING_NAMES or has_pictures:
        return ModelTask(name="image", class_name=base, form="encoder", note=_NO_HEAD)
    if "vocab_size" not in config.values and kind in lists.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES:
        raise _not_offered(config, _ONLY_HEARS)
    if kind in lists.MODEL_FOR_CTC_MAPPING_NAMES or kind in lists.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES:
        raise _not_offered(config, _ONLY_HEARS)
    named = ", ".join(config.architectures)[:80]
    note = _NO_HEAD
    if named and base not in config.architectures:
        note = (
            f"The output head of {named} is not supported: its attention can be viewed, but it predicts "
            "nothing."
        )
    return ModelTask(name="headless", class_name=base, form=_form("headless", lists, config), note=note)


def _fits(task: TaskName, config: CheckedConfig, *, can_fill: bool) -> bool:
    """Whether a class of one list is meant: some classes stand in several.

    `can_fill`: it stands in that of masked models too, as XLM's, which looks ahead unless `causal`.
    """
    if task == "causal" and can_fill:
        return bool(config.values.get("causal"))
    return task != "translation" or bool(config.values.get("is_encoder_decoder", True))


def _form(task: TaskName, lists: Any, config: CheckedConfig) -> Form:
    kind = config.model_type
    if task == "causal":
        return "decoder"
    if task in ("masked", "image-class", "image"):
        return "encoder"
    is_double = bool(_names(lists, _LISTS[0][1], kind) or _names(lists, _LISTS[1][1], kind))
    if task in ("translation", "speech") or (is_double and config.values.get("is_encoder_decoder", True)):
        is_encoder = any(name.endswith("EncoderModel") for name in config.architectures)
        return "encoder" if is_encoder and task == "headless" else "encoder-decoder"
    writes = bool(_names(lists, _LISTS[2][1], kind))
    fills = bool(_names(lists, _LISTS[3][1], kind))
    return "decoder" if config.values.get("is_decoder") or (writes and not fills) else "encoder"


def _names(lists: Any, which: str, model_type: str) -> tuple[str, ...]:
    found = getattr(lists, which, {}).get(model_type, ())
    return (found,) if isinstance(found, str) else tuple(found)


def _unknown(config: CheckedConfig) -> LoadError:
    return LoadError(
        f"The architecture {config.model_type[:60]!r} is unknown to the installed transformers library.",
        kind="architecture",
        expected="an architecture whose code comes with the library; code from a model's folder is never run",
        action="Update transformers, or open another model.",
    )


def _not_offered(config: CheckedConfig, reason: str) -> LoadError:
    name = (config.architectures or (config.model_type,))[0][:60]
    return LoadError(
        f"{name} is not supported: it {reason}.",
        kind="architecture",
        expected="a model that reads text, pictures alone, or speech that it transcribes",
        action="Open another model.",
    )


_CLASSIFIED = (
    Sample(text="The film was far too long, but I loved every minute of it.", hint="Which words decide?"),
    Sample(text="I would not call this a good book.", hint="Which head looks from 'good' at 'not'?"),
    Sample(text="Nothing worked, nobody answered, and I want my money back.", hint="Which words decide?"),
)
_PICTURE_FILE = "still-life.png"


def samples_of(task: ModelTask, vocabulary: TokensById, values: Mapping[str, Any]) -> tuple[Sample, ...]:
    """Sample sentences for a model, a picture for one that reads pictures; none for speech."""
    if task.reads_pictures:
        return (
            Sample(
                text=str(resources_folder() / "samples" / _PICTURE_FILE),
                hint="Which heads keep the ball apart from the table?",
            ),
        )
    if task.name == "speech":
        return ()
    if task.name in ("classification", "tagging"):
        return _CLASSIFIED
    if task.name == "masked" and vocabulary.has("mask"):
        return samples_for("encoder", "masked")
    if task.name == "translation":
        prefix = _prefix(values)
        return tuple(_after(prefix, sample) for sample in samples_for("encoder-decoder", "translation"))
    if task.name == "headless" and task.form == "encoder":
        return samples_for("encoder", "representations")
    return samples_for("decoder", "causal")


def _after(prefix: str, sample: Sample) -> Sample:
    return replace(sample, text=prefix + sample.text, pair=sample.pair and prefix + sample.pair)


def _prefix(values: Mapping[str, Any]) -> str:
    """What a model of several tasks (T5) wants before a text to translate, from its own configuration."""
    tasks = values.get("task_specific_params")
    task = tasks.get("translation_en_to_fr") if isinstance(tasks, dict) else None
    prefix = task.get("prefix") if isinstance(task, dict) else None
    return prefix[:80] if isinstance(prefix, str) else ""
