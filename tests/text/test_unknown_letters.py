"""What a text has where the tokenizer has no piece: carried by the token, also through a file of traces."""

from attnscope.models import load
from attnscope.trace import load_trace, save_trace


def test_that_a_token_knows_the_letters_it_stands_for(tmp_path):
    model = load("grammar")
    trace = model.trace("the whïte cat 北京 sleeps")
    source = trace.source.tokens
    unknown = [token for token in source if token.piece == "<unk>"]
    assert [token.own for token in unknown] == ["whïte", "北京"]
    assert [token.label for token in source[:3]] == ["the", "whïte", "cat"]
    assert not any(token.own for token in source if token.piece != "<unk>")
    save_trace(tmp_path / "t.safetensors", trace)
    assert load_trace(tmp_path / "t.safetensors").source.tokens == source
