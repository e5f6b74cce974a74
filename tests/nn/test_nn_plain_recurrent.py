"""Recurrent cells without attention: one vector between the texts, against the papers number by number."""

import numpy as np
import pytest
import torch
from slow_recurrent import SlowRecurrent, next_state
from tiny_models import FRENCH, SENTENCE, tiny_model

from attnscope.errors import RecipeError, UserError
from attnscope.models import own_cost
from attnscope.models.writing import OwnWriter, RecomputingWriter
from attnscope.nn import ModelConfig, count_parameters
from attnscope.records import require_heads

CHO = {"body": "gru", "feeds_context": True, "has_attention": False, "score": "additive"}
SUTSKEVER = {"body": "lstm", "feeds_context": False, "has_attention": False, "n_decoder_layers": 1}


class SlowPlain(SlowRecurrent):
    """Sutskever et al. 2014, section 2; Cho et al. 2014, appendix A.1: c = tanh(V e) at every token."""

    def run(self, source, target):
        w, d, memory = self.w, self.config.d_model, self.encode(source)
        ends = np.concatenate((memory[-1][: d // 2], memory[0][d // 2 :]))
        n_layers = self.config.decoder_layers
        first = np.tanh(w["bridge.weight"] @ ends + w["bridge.bias"]).reshape(-1, n_layers, d)
        h = [first[0, layer] for layer in range(n_layers)]
        c = [first[1, layer] if len(first) > 1 else np.zeros(d) for layer in range(n_layers)]
        is_fed = self.config.feeds_context
        told = np.tanh(w["vector.weight"] @ ends + w["vector.bias"]) if is_fed else np.zeros(d)
        logits = []
        for token in target:
            x = w["tokens.weight"][token]
            h, c = self.step(np.concatenate((x, told)) if is_fed else x, h, c)
            read = np.concatenate((h[-1], x)) if is_fed else h[-1]
            hidden = np.tanh(told + w["readout.weight"] @ read)
            logits.append(w.get("head.weight", w["tokens.weight"]) @ hidden)
        return np.array(logits)

    def step(self, x, h, c):
        for layer in range(len(h)):
            names = (f"decoder.{n}_l{layer}" for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            h[layer], c[layer] = next_state(
                self.config.body, *(self.w[n] for n in names), x, h[layer], c[layer]
            )
            x = h[layer]
        return h, c


@pytest.mark.parametrize("choices", [CHO, SUTSKEVER], ids=str)
def test_that_one_vector_is_all_the_decoder_knows_of_the_source(choices):
    model = tiny_model("encoder-decoder", **choices)
    module = model.own.module
    assert count_parameters(model.own.config).total == sum(p.numel() for p in module.parameters())
    trace = model.trace(SENTENCE, FRENCH)
    inputs = model.encode(SENTENCE, FRENCH)
    expected = SlowPlain(module).run(inputs.source.ids, inputs.target.ids)
    np.testing.assert_allclose(trace.logits, expected, rtol=1e-4, atol=1e-5)
    assert trace.sites == module.sites() == ()
    assert trace.check().sentence == "the model has no attention: there is nothing to check"
    with pytest.raises(UserError, match="has no attention"):
        require_heads(trace.sites)


@pytest.mark.parametrize("choices", [CHO, SUTSKEVER], ids=str)
def test_that_padding_and_the_other_texts_of_a_batch_change_nothing(choices):
    module = tiny_model("encoder-decoder", **choices).own.module
    texts, targets = [[5, 6, 7, 8], [9, 5]], torch.tensor([[1, 4, 5], [1, 6, 7]])
    ids = torch.tensor([[*text, 0, 0, 0, 0][:4] for text in texts])
    valid = torch.tensor([[i < len(text) for i in range(4)] for text in texts])
    memory = module.encode(ids, valid=valid)
    together = module.decode(targets, memory=memory, memory_valid=valid)
    for row, text in enumerate(texts):
        alone = module.decode(targets[row : row + 1], memory=module.encode(torch.tensor([text])))
        torch.testing.assert_close(together[row : row + 1], alone)


@pytest.mark.parametrize("choices", [CHO, SUTSKEVER], ids=str)
def test_that_it_writes_token_by_token_what_it_says_at_once(choices):
    network = tiny_model("encoder-decoder", **choices).own
    writers = network.writer(), RecomputingWriter(network)
    assert isinstance(writers[0], OwnWriter)
    source = network.encode(SENTENCE).source.ids
    found = [writer.begin(source, [network.vocabulary.begin_id]) for writer in writers]
    for ids, parents in (([5, 6, 7], [0, 0, 0]), ([8, 9], [2, 0])):
        torch.testing.assert_close(found[0], found[1], atol=2e-5, rtol=0.0)
        found = [writer.step(ids, parents) for writer in writers]
    torch.testing.assert_close(found[0], found[1], atol=2e-5, rtol=0.0)


def test_that_it_costs_no_cells_and_only_cells_can_be_without():
    config = ModelConfig(form="encoder-decoder", vocab_size=20, d_model=8, n_heads=2, **CHO)
    parts = dict(own_cost(config, 10).parts)
    assert "attention" not in parts
    with pytest.raises(RecipeError, match=r"has_attention is false.*only recurrent cells.*whose body is"):
        ModelConfig(form="encoder-decoder", vocab_size=20, has_attention=False).check()
