"""Tiny models with weights from a ramp, for the tests of trace, models and analysis."""

import torch

from attnscope.models import Model, ModelCard, OwnNetwork
from attnscope.nn import ModelConfig, empty_own
from attnscope.text import Tokenizer, train_tokenizer

SENTENCE = "the cat sat on the mat"
FRENCH = "le chat est sur le tapis"
FORMS = ("decoder", "encoder", "encoder-decoder")


def tiny_tokenizer() -> Tokenizer:
    return train_tokenizer("words", (SENTENCE, FRENCH, "a dog saw the bird"), vocab_size=100)


def tiny_model(form: str, tokenizer: Tokenizer | None = None, **choices: object) -> Model:
    tokenizer = tokenizer or tiny_tokenizer()
    values = {
        "form": form,
        "vocab_size": tokenizer.vocab_size,
        "d_model": 16,
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 2,
        "d_ff": 24,
        "max_tokens": 24,
        **choices,
    }
    module = empty_own(ModelConfig.from_dict(values)).eval()
    for i, (name, parameter) in enumerate(module.named_parameters()):
        step = torch.arange(parameter.numel(), dtype=torch.float64) + 1000.37 * i
        values_ramp = torch.sin(step * step * 0.7310).reshape(parameter.shape).float()
        is_norm = parameter.ndim == 1 and name.endswith("weight")
        scale = 2.0 / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 0.2
        parameter.data.copy_(values_ramp * scale + (1.0 if is_norm else 0.0))
    objective = {"decoder": "causal", "encoder": "masked", "encoder-decoder": "translation"}[
        module.config.form
    ]
    return Model(OwnNetwork(module, tokenizer, ModelCard(name="tiny", objective=objective)))


def target_of(form: str) -> str | None:
    return FRENCH if form == "encoder-decoder" else None
