"""Saving our models in the format of transformers, if one of its architectures is equivalent.

Which those are, and how the library configures them, the families say (`AdoptableFamily.library_keys`).
Taking a model over is run backwards: it is given numbered places instead of weights, and tells from which
place each of our weights would come.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attnscope.counting import listed
from attnscope.errors import SaveError, UserError
from attnscope.files import replace_folder
from attnscope.models.families import FAMILIES
from attnscope.models.families.family import AdoptableFamily, LibraryConfig
from attnscope.models.huggingface.library import import_transformers
from attnscope.nn import ModelConfig
from attnscope.nn.config_checks import value_words
from attnscope.nn.own_module import OwnModule
from attnscope.text import TOKENIZER_FILE, Tokenizer, read_tokenizer_file

_FREE = ("dropout", "attention_dropout")
"""Not used by a model that is not trained further."""
_ROLES = {"begin": "bos", "end": "eos", "pad": "pad", "unknown": "unk", "mask": "mask"}
_N_TRIED, _NEARNESS = 24, 1e-5


class LibraryFolder(NamedTuple):
    """The saved folder: the architecture's title, and the largest difference of its logits from ours."""

    title: str
    difference: float


def write_library_folder(
    folder: Path, module: OwnModule, tokenizer: Tokenizer, card: str = ""
) -> LibraryFolder:
    """Write a folder that transformers can open with `AutoModelForCausalLM` and `AutoTokenizer`.

    Raises UserError for a model that no architecture there can be, with what keeps it from that, and
    SaveError where the folder cannot be written, or the library's logits are not ours.
    """
    config = module.config
    family = _family_for(config)
    library = import_transformers()
    ids = {
        f"{_ROLES[role]}_token_id": getattr(tokenizer, f"{role}_id") if tokenizer.has(role) else None
        for role in ("begin", "end", "pad")
    }
    keys = {**family.library_keys(config), **ids, "vocab_size": config.vocab_size}
    model = library.AutoModelForCausalLM.from_config(library.AutoConfig.for_model(family.name, **keys))
    _fill(model, family, module)
    difference = _difference(model.eval(), module)

    def fill(temporary: Path) -> None:
        model.save_pretrained(temporary)
        tokenizer.save(temporary)
        _tell_tokens(temporary, tokenizer, config.max_tokens)
        (temporary / "README.md").write_text(card, encoding="utf-8", errors="replace")

    replace_folder(folder, fill)
    return LibraryFolder(title=family.title, difference=difference)


def _family_for(config: ModelConfig) -> AdoptableFamily:
    """The family equivalent to this model; raises UserError with the differences from the nearest one."""
    lacking = {}
    for family in FAMILIES.values():
        if isinstance(family, AdoptableFamily) and (keys := family.library_keys(config)):
            lacking[family] = _otherwise(family, keys, config)
    nearest = min(lacking, key=lambda family: len(lacking[family]))
    if not lacking[nearest]:
        return nearest
    known = listed([family.title for family in lacking], "or")
    raise UserError(
        f"No architecture of transformers that is known here can be this model. The nearest, "
        f"{nearest.title}, would need {'; '.join(lacking[nearest])}.",
        expected=f"a model that {known} could be",
        action="Save it as AttnScope's own folder, or train a model with these values.",
    )


def _otherwise(family: AdoptableFamily, keys: dict[str, Any], config: ModelConfig) -> list[str]:
    """Differences between a model of the family with these keys and ours."""
    taken = family.config(LibraryConfig(keys, family.defaults, family.title), {})
    theirs, ours = (
        {**found.to_dict(), "n_kv_heads": found.kv_heads, "d_head": found.head_width}
        for found in (ModelConfig(vocab_size=config.vocab_size, **taken), config)
    )
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name) and name not in _FREE]
    words = {name: f"{name} {_in_words(theirs.get(name))}, not {_in_words(ours.get(name))}" for name in names}
    if "kept_heads" in words:
        n_removed = sum(config.n_heads - config.layout(*key).n_heads for key in config.headed_keys())
        words["kept_heads"] = f"every head, and {n_removed} {'is' if n_removed == 1 else 'are'} removed here"
    return list(words.values())


def _in_words(value: object) -> str:
    """A value of a recipe in words; None if nothing is set."""
    return "unset" if value is None else value if isinstance(value, str) else value_words(value)


def _fill(model: Any, family: AdoptableFamily, module: OwnModule) -> None:
    """Copy our weights into the library's model."""
    parameters = dict(model.named_parameters())
    sizes = [parameter.numel() for parameter in parameters.values()]
    numbered = torch.split(torch.arange(sum(sizes)), sizes)
    places = {
        name.removeprefix(family.prefix): place.view_as(parameter)
        for (name, parameter), place in zip(parameters.items(), numbered, strict=True)
    }
    filled, ours = torch.full((sum(sizes),), torch.nan), module.state_dict()
    for name, place in family.state(places, module.config).items():
        filled[place.reshape(-1)] = ours[name].to("cpu", torch.float32).reshape(-1)
    with torch.no_grad():
        for parameter, part in zip(parameters.values(), torch.split(filled, sizes), strict=True):
            parameter.copy_(part.view_as(parameter))


@torch.no_grad()
def _difference(model: Any, module: OwnModule) -> float:
    """Largest difference between the library's logits and ours; raises SaveError if it exceeds rounding."""
    n_tokens = min(_N_TRIED, module.config.max_tokens)
    ids = (torch.arange(n_tokens)[None] * 7 + 3) % module.config.vocab_size
    was_training = module.training
    ours = module.eval()(ids).float().cpu()
    module.train(was_training)
    found = float((model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits - ours).abs().max())
    if not found <= _NEARNESS * max(1.0, float(ours.abs().max())):
        raise SaveError(f"The library's model gives other logits, by {found:.2g}; nothing was written.")
    return found


def _tell_tokens(folder: Path, tokenizer: Tokenizer, max_tokens: int) -> None:
    """Set the special tokens, and that a text begins with one, as in our models."""
    spelled = {
        f"{theirs}_token": tokenizer.token(getattr(tokenizer, f"{ours}_id")).piece
        for ours, theirs in _ROLES.items()
        if tokenizer.has(ours)
    }
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_tokens, **spelled}
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    if "bos_token" in spelled:
        path, begin = folder / TOKENIZER_FILE, spelled["bos_token"]
        content = json.loads(read_tokenizer_file(path))
        first, text = {"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
        template = {
            "type": "TemplateProcessing",
            "single": [first, text],
            "pair": [first, text, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {begin: {"id": begin, "ids": [tokenizer.begin_id], "tokens": [begin]}},
        }
        before = content["post_processor"]
        both = {"type": "Sequence", "processors": [before, template]}
        content["post_processor"] = both if before else template
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
