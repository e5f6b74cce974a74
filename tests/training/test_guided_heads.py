"""A head of the cross-attention that learns what a statistical aligner found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.models import load, read_model_folder
from attnscope.nn import Guide, GuidedProbe, ModelConfig, build_transformer
from attnscope.records import Step
from attnscope.training import Batch, RowWorkers, RunFolder, hidden_of, loss_sum, parse_recipe, prepare, train

pytestmark = pytest.mark.slow

RECIPE = """
[model]
d_model = 32
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 20

[data]
kind = "task"
task = "english-french"
n_examples = 300

[objective]
kind = "translation"

[optimizer]
learning_rate = 1e-2

[training]
n_steps = 150
batch_size = 16
evaluate_every = 150
evaluation_batches = 1
save_every = 150
seed = 3
"""
CONFIG = ModelConfig(form="encoder-decoder", vocab_size=30, d_model=16, n_heads=2, d_ff=16, max_tokens=16)


def _batch(guide: Guide | None) -> Batch:
    torch.manual_seed(1)
    return Batch(
        ids=torch.randint(5, 30, (3, 6)),
        valid=torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] * 2 + [False] * 4]),
        target_ids=torch.randint(5, 30, (3, 5)),
        scored=torch.tensor([0, 1, 2, 5, 6, 10]),
        labels=torch.randint(5, 30, (6,)),
        links=torch.tensor([[0, 0, 5], [0, 1, 2], [0, 1, 3], [1, 4, 0], [2, 0, 1]]),
        link_weight=6 / 5,
        guide=guide,
    )


@pytest.mark.parametrize("n_kv_heads", [2, 1])
@pytest.mark.parametrize(("layer", "head"), [(0, 0), (1, 1)])
def test_that_the_gradient_is_that_of_the_mean_log_weight_and_the_number_that_of_the_tokens(
    layer: int, head: int, n_kv_heads: int
) -> None:
    module = build_transformer(replace(CONFIG, n_kv_heads=n_kv_heads), seed=0).double()
    batch = _batch(Guide(layer=layer, head=head, share=0.3))
    plain, guided = loss_sum(module, _batch(None)), loss_sum(module, batch)
    assert float(guided.detach()) == pytest.approx(float(plain.detach()), rel=1e-12)
    inputs: list[torch.Tensor] = []
    hooks = [
        module.decoder[layer].cross.query.register_forward_hook(lambda m, i, out: inputs.append(out)),
        module.decoder[layer].cross.kv.register_forward_hook(lambda m, i, out: inputs.append(out)),
    ]
    expected = loss_sum(module, _batch(None))
    for hook in hooks:
        hook.remove()
    query, key_value = sorted(inputs, key=lambda out: out.shape[1])  # 5 rows of the target, 6 of the source
    q = query[..., 8 * head : 8 * head + 8]
    key_head = head * n_kv_heads // 2
    k = key_value[..., 8 * key_head : 8 * key_head + 8]
    scored = (q @ k.transpose(1, 2)) / 8**0.5
    assert batch.valid is not None
    weights = scored.masked_fill(~batch.valid[:, None], -torch.inf).softmax(dim=-1)
    assert batch.links is not None
    expected = (
        expected - 6 * 0.3 * torch.stack([weights[tuple(link)].log() for link in batch.links.tolist()]).mean()
    )
    names = [name for name, _ in module.named_parameters()]
    ours = torch.autograd.grad(guided, list(module.parameters()), allow_unused=True)
    theirs = torch.autograd.grad(expected, list(module.parameters()), allow_unused=True)
    for name, one, other in zip(names, ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9, msg=name)


@pytest.mark.parametrize("n_links", [5, 4, 1])
@pytest.mark.parametrize(("n", "n_turns"), [(2, 1), (3, 1), (1, 2), (1, 9), (2, 2)])
def test_that_parts_of_a_batch_teach_a_head_what_the_whole_does(n: int, n_turns: int, n_links: int) -> None:
    module = build_transformer(CONFIG, seed=0).double()
    parameters = list(module.parameters())
    batch = _batch(Guide(layer=1, head=0, share=0.3))
    assert batch.links is not None
    batch = replace(batch, links=batch.links[:n_links], link_weight=6 / n_links)
    whole = loss_sum(module, batch)
    expected = torch.autograd.grad(whole, parameters, allow_unused=True)
    workers = RowWorkers()
    total = workers.descend(n, lambda part: loss_sum(module, part), batch, parameters, n_turns)
    workers.close()
    assert float(total) == pytest.approx(float(whole.detach()), rel=1e-6)
    for parameter, gradient in zip(parameters, expected, strict=True):
        if gradient is not None:
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-6, atol=1e-9)


def test_that_links_count_as_many_tokens_as_a_batch_scores() -> None:
    data = prepare(parse_recipe(RECIPE, overrides={"objective.guided_head": "L0H1"}))
    batch = data.batches.draw(np.random.default_rng(0), 1.0)
    assert batch.links is not None
    assert batch.link_weight * len(batch.links) == pytest.approx(len(batch.labels))


def test_that_the_guided_head_learns_the_links_and_the_other_heads_need_not(tmp_path: Path) -> None:
    shares = {}
    for name in ("", "L0H1"):
        overrides = {"objective.guided_head": name, "objective.guided_share": "1.0"}
        folder = tmp_path / (name or "free")
        losses = [event.loss for event in train(RECIPE, folder, "cpu", overrides) if isinstance(event, Step)]
        assert losses[-1] < 0.7 * losses[0]
        shares[name] = _weight_at_links(folder)
    guided = load(tmp_path / "L0H1").info.guided
    assert guided is not None
    assert (guided.stack, guided.label) == ("cross", "L0H1")
    assert load(tmp_path / "free").info.guided is None
    assert shares["L0H1"][1] > 0.5
    assert shares["L0H1"][1] > 2 * max(shares[""])


def _weight_at_links(folder: Path) -> list[float]:
    """The mean weight of each head at the links of a batch."""
    data = prepare(parse_recipe(RECIPE, overrides={"objective.guided_head": "L0H1"}))
    batch = data.batches.draw(np.random.default_rng(0), 1.0)
    module = read_model_folder(RunFolder(folder).checkpoints()[-1][1]).module.eval()
    found = []
    for head in range(2):
        probe_batch = replace(batch, guide=Guide(layer=0, head=head, share=1.0))
        assert probe_batch.guide is not None
        assert probe_batch.links is not None
        probe = GuidedProbe(probe_batch.guide, probe_batch.links)
        with torch.no_grad():
            hidden_of(module, probe_batch, probe)
        found.append(float((-probe.loss() / len(probe_batch.links)).exp()))
    return found


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"objective.guided_head": "L1H0"}, "from L0H0 to L0H1"),
        ({"objective.guided_head": "head 2"}, "from L0H0 to L0H1"),
        ({"objective.guided_head": "L0H0", "training.checkpointing": "true"}, "empty beside"),
        ({"objective.guided_head": "L0H0", "gates.l0_penalty": "0.1"}, "empty beside"),
    ],
)
def test_that_a_head_that_cannot_be_guided_is_refused(overrides: dict[str, str], said: str) -> None:
    with pytest.raises(RecipeError, match=r"objective\.guided_head") as caught:
        parse_recipe(RECIPE, overrides=overrides)
    assert said in str(caught.value)
