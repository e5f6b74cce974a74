"""Two texts read as one: every token knows its text, and a file of traces keeps that."""

from pathlib import Path

import hf_folders

from attnscope.models import load
from attnscope.trace import load_trace, save_trace
from attnscope.viewmodels.maps import segments_of


def test_that_the_tokens_of_a_pair_know_their_text(tmp_path: Path) -> None:
    folder = hf_folders.save_folder(tmp_path / "bert", *hf_folders.make("bert-classes"))
    model = load(str(folder))
    trace = model.trace("the animal", "it was tired")
    assert [token.segment for token in trace.source.tokens] == [0] * 4 + [1] * 4
    typed = model.trace("the animal [SEP] it was tired")
    assert [token.segment for token in typed.source.tokens] == [0] * 4 + [1] * 4
    for shown in (trace, typed):
        found = segments_of(shown.source.tokens)
        assert found is not None
        assert found.tolist() == [False] * 4 + [True] * 4
    assert segments_of(model.trace("the animal").source.tokens) is None
    save_trace(tmp_path / "pair.trace", trace)
    assert load_trace(tmp_path / "pair.trace").source.tokens == trace.source.tokens
