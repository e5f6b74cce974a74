"""No norm, as the theorems on rank collapse assume (Dong et al. 2021)."""

from attnscope.schemes.norms.norm import NormScheme


class NoNorm(NormScheme):
    name, title, order = "none", "none", 2
    words, source = "the stream as it is", "Dong et al. 2021"
    is_nothing = True

    def learned(self, d_model: int, *, has_bias: bool) -> dict[str, tuple[int, float]]:
        return {}

    def n_kept(self, d_model: int) -> int:
        return 0
