"""Feed-forward parts of several experts: against loops in float64, and what is done with their numbers."""

import math

import numpy as np
import pytest
import torch
from tiny_models import SENTENCE, tiny_model

import attnscope as at
from attnscope.errors import RecipeError, UserError
from attnscope.models import own_cost
from attnscope.nn import Experts, ModelConfig, activate, balances, build_own, count_parameters

SIZES = {
    "vocab_size": 13, "d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 6, "max_tokens": 16, "n_experts": 4,
}  # fmt: skip


def config_of(form: str = "decoder", **choices: object) -> ModelConfig:
    config = ModelConfig.from_dict({**SIZES, "form": form, **choices})
    config.check()
    return config


def experts_of(**choices: object) -> Experts:
    torch.manual_seed(3)
    part = Experts(config_of(**choices)).double()
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return part


def slowly(part: Experts, x: torch.Tensor, valid: torch.Tensor | None, factor: float, activation: str):
    """Σ w_e FF_e(x), token by token, and whether each was sent to each expert."""
    n_texts, n_tokens, _ = x.shape
    n_experts, k = len(part.experts), part.router.k
    told = torch.zeros_like(x)
    sent = np.zeros((n_texts, n_tokens, n_experts), bool)
    for i in range(n_texts):
        places = [t for t in range(n_tokens) if valid is None or valid[i, t]]
        room = math.ceil(round(k * len(places) * factor / n_experts, 9)) if factor else n_tokens
        taken = [0] * n_experts
        for t in places:
            logits = part.router.scores.weight @ x[i, t]
            p = (logits - logits.max()).exp()
            p = p / p.sum()
            best = sorted(range(n_experts), key=lambda e: -p[e].item())[:k]
            total = sum(p[e] for e in best)
            for e in best:
                if taken[e] == room:
                    continue
                taken[e] += 1
                sent[i, t, e] = True
                expert = part.experts[e]
                up = expert.up.weight @ x[i, t] + (0 if expert.up.bias is None else expert.up.bias)
                down = expert.down.weight @ activate(up[None], activation)[0]
                down = down + (0 if expert.down.bias is None else expert.down.bias)
                told[i, t] += (p[e] if k == 1 else p[e] / total) * down
    return told, sent


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.25, 9.0])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_that_each_token_gets_what_its_experts_say(
    k: int, factor: float, bias: bool, activation: str
) -> None:
    part = experts_of(experts_per_token=k, capacity_factor=factor, bias=bias, activation=activation).eval()
    x = torch.randn(3, 7, 8, dtype=torch.float64)
    for valid in (None, torch.arange(7)[None] < torch.tensor([7, 4, 1])[:, None]):
        told, sent = slowly(part, x, valid, factor, activation)
        found = part(x, valid)
        torch.testing.assert_close(found, told, atol=1e-10, rtol=1e-10)
        assert (part.router(x, valid)[0].numpy() == sent).all()


def test_that_no_texts_and_no_tokens_are_nothing() -> None:
    part = experts_of(capacity_factor=1.0).eval()
    assert part(torch.zeros(0, 3, 8, dtype=torch.float64)).shape == (0, 3, 8)
    assert part(torch.zeros(2, 0, 8, dtype=torch.float64)).shape == (2, 0, 8)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_that_its_gradients_are_right(k: int, factor: float) -> None:
    part = experts_of(experts_per_token=k, capacity_factor=factor)
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    router = part.router.scores.weight

    def both(x: torch.Tensor, _router: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with balances() as found:
            told = part(x)
        return told, found[0]

    assert torch.autograd.gradcheck(both, (x, router))


def test_that_the_balance_is_one_where_all_are_even_and_e_where_one_takes_all() -> None:
    part = experts_of().train()
    x = torch.eye(8, dtype=torch.float64)[None, :4]
    with torch.no_grad():
        part.router.scores.weight.zero_()
        part.router.scores.weight[:, :4] = 40.0 * torch.eye(4)
    with balances() as even:
        part(x)
    with balances() as one:
        part(x[:, :1].expand(1, 4, 8))
    assert even[0].item() == pytest.approx(1.0)
    assert one[0].item() == pytest.approx(4.0)


def test_that_padding_is_sent_nowhere_and_does_not_count() -> None:
    part = experts_of(capacity_factor=1.0).train()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    valid = torch.tensor([[True, True, True, True, False, False]])
    with balances() as padded:
        told = part(x, valid)
    with balances() as alone:
        short = part(x[:, :4])
    torch.testing.assert_close(told[:, :4], short)
    assert (told[:, 4:] == 0).all()
    assert padded[0].item() == pytest.approx(alone[0].item())


def test_that_nothing_is_noted_where_nobody_asks_or_nothing_is_learned() -> None:
    part = experts_of()
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    part.train()(x)
    with balances() as found:
        part.eval()(x)
    assert found == []


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("activation", ["gelu", "geglu"])
@pytest.mark.parametrize("shared", [False, True])
def test_that_parameters_and_operations_are_counted(form: str, activation: str, shared: bool) -> None:
    config = config_of(form, activation=activation, shared_layers=shared)
    module = build_own(config, seed=1)
    assert count_parameters(config).total == sum(p.numel() for p in module.parameters())
    plain = config_of(form, activation=activation, shared_layers=shared, n_experts=0)
    more = own_cost(config, 5).forward - own_cost(plain, 5).forward
    assert more == 5 * 2 * 2 * 8 * 4  # tokens, a product and a sum, layers, the router's matrix


@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_that_a_text_means_the_same_alone_padded_and_read_token_by_token(factor: float) -> None:
    model = tiny_model("decoder", n_experts=4, experts_per_token=2, capacity_factor=factor)
    module = model.own.module
    assert module.can_cache is (factor == 0.0)
    ids = torch.arange(6)[None]
    with torch.no_grad():
        whole = module(ids)
        changed = module(torch.cat([ids[:, :4], ids[:, 4:].flip(1)], dim=1))
    torch.testing.assert_close(whole[:, :4], changed[:, :4])  # what comes later changes nothing
    encoder = build_own(config_of("encoder", capacity_factor=factor), seed=2).eval()
    ids = torch.arange(10).reshape(2, 5)
    valid = torch.tensor([[True] * 5, [True, True, True, False, False]])
    with torch.no_grad():
        both = encoder(ids, valid=valid)
        torch.testing.assert_close(both[1, :3], encoder(ids[1:, :3])[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        ({"n_experts": 1}, "n_experts"),
        ({"experts_per_token": 5}, "experts_per_token"),
        ({"experts_per_token": 0}, "experts_per_token"),
        ({"has_feed_forward": False}, "n_experts"),
        ({"form": "encoder-decoder"}, "n_experts"),
        ({"capacity_factor": -0.1}, "capacity_factor"),
        ({"capacity_factor": math.nan}, "capacity_factor"),
        ({"balance_weight": -1.0}, "balance_weight"),
    ],
)
def test_that_what_cannot_be_is_refused_by_its_key(choices: dict[str, object], key: str) -> None:
    with pytest.raises(RecipeError, match=key):
        config_of(**{"form": "decoder", **choices})


def test_that_the_routing_on_screen_is_that_of_the_layers() -> None:
    model = tiny_model("decoder", n_experts=4, experts_per_token=2, capacity_factor=1.0)
    answer = at.ask("experts", model, SENTENCE, layer=1)
    part = model.own.module.decoder[1].feed_forward
    seen = []
    handle = part.router.register_forward_hook(lambda _m, _i, out: seen.append(out))
    model.trace(SENTENCE)
    handle.remove()
    np.testing.assert_allclose(answer.maps[0].values, seen[0][1][0].T.detach().numpy(), atol=1e-6)
    with pytest.raises(UserError, match="divided into experts"):
        at.ask("feed-forward", model, SENTENCE)
