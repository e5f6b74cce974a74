"""The biaffine score against its formula, key by key in float64."""

import pytest
import torch
from slow_site import filled, seen_and_slow
from tiny_models import SENTENCE, tiny_model

from attnscope.analysis import OwnSubject, head_weights
from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.nn import MaskRule, ModelConfig, Scoring, attend, build_transformer, count_parameters
from attnscope.schemes.scores import SCORES

SIZES = {
    "vocab_size": 13, "d_model": 12, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "d_ff": 10,
    "max_tokens": 11,
}  # fmt: skip


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize(
    "choices",
    [{}, {"position": "alibi"}, {"d_head": 5}, {"d_head": 1}, {"d_model": 9, "n_heads": 3, "n_kv_heads": 1}],
)
def test_that_a_score_is_the_product_and_the_prior_of_the_key(form: str, choices: dict[str, object]) -> None:
    config = ModelConfig.from_dict({**SIZES, **choices, "form": form, "score": "biaffine"})
    model = filled(config)
    learned = (model.decoder or model.encoder)[0].attention.scoring.biaffine.double()
    slopes = [0.0] * config.n_heads if model.slopes is None else model.slopes.tolist()

    def slow(q, k, head, i, j):
        u, w = learned[head, :-1], learned[head, -1]
        product = sum(q[a] * u[a, b] * k[b] for a in range(len(q)) for b in range(len(k)))
        return product + sum(w[b] * k[b] for b in range(len(k))) - slopes[head] * abs(i - j)

    found, expected = seen_and_slow(model, torch.arange(7)[None] % 13, slow)
    torch.testing.assert_close(found.double(), expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_that_attention_has_its_gradient(is_causal: bool) -> None:
    scoring = Scoring(SCORES["biaffine"], scale=1.0, n_heads=2, d_head=3).double()
    generator = torch.Generator().manual_seed(0)
    scoring.biaffine.data.normal_(generator=generator)
    q, k, v = (
        torch.randn(1, h, 4, 3, generator=generator, dtype=torch.float64).requires_grad_() for h in (2, 1, 1)
    )

    def out(q, k, v, *_):
        read = scoring.queries(scoring.turn(q))
        return attend(read, scoring.keys(k), v, rule=MaskRule(is_causal=is_causal), score=scoring.rule(read))

    assert torch.autograd.gradcheck(out, (q, k, v, *scoring.parameters()))


def test_that_it_starts_as_the_scaled_product() -> None:
    made, plain = (
        build_transformer(ModelConfig.from_dict({**SIZES, "form": "decoder", "score": name}), seed=0).eval()
        for name in ("biaffine", "scaled-dot")
    )
    plain.load_state_dict({k: v for k, v in made.state_dict().items() if not k.endswith("biaffine")})
    ids = torch.arange(9)[None]
    torch.testing.assert_close(made.decode(ids), plain.decode(ids), atol=1e-5, rtol=0)
    assert count_parameters(made.config).total == count_parameters(plain.config).total + 4 * (3 + 1) * 3


def test_that_it_is_not_taken_for_a_product_of_matrices() -> None:
    with pytest.raises(RecipeError, match="position"):
        ModelConfig.from_dict({**SIZES, "form": "decoder", "score": "biaffine", "position": "shaw"})
    model = tiny_model("decoder", score="biaffine")
    assert head_weights(OwnSubject(model.own.module), ("decoder", 0)).score_scale is None
    assert model.trace(SENTENCE).check().is_good


def test_that_a_recipe_trains_with_it(tmp_path, capsys) -> None:
    sets = ("model.score=biaffine", "model.d_model=16", "model.d_ff=16", "training.n_steps=2")
    words = [
        word
        for one in (*sets, "data.n_examples=50", "training.batch_size=2", "training.evaluate_every=2")
        for word in ("--set", one)
    ]
    assert main(["--device", "cpu", "train", "copy", "--out", str(tmp_path / "run"), *words]) == 0
    capsys.readouterr()
    assert main(["info", str(tmp_path / "run"), "--device", "cpu"]) == 0
    told = capsys.readouterr().out.split()
    assert told[told.index("score") + 1] == "biaffine"
