"""What a download would be, as the server says it, and what is not believed."""

import socket
import sys

import pytest
from hub_server import COMMIT, Hub, git_sha1, page, redirect, running, status

from attnscope.errors import LoadError
from attnscope.hub import fetching, shelf
from attnscope.hub.fetching import ask_hub

NAME = "someone/tiny"


def test_that_the_offer_names_host_commit_licence_and_every_byte(hub: Hub) -> None:
    offer = ask_hub(NAME)
    files = hub.models[NAME]
    assert (offer.name, offer.host, offer.commit, offer.licence) == (NAME, hub.host, COMMIT, "mit")
    assert [file.name for file in offer.files] == [
        "README.md",
        "config.json",
        "tokenizer.json",
        "model.safetensors",
    ]
    assert offer.n_bytes == sum(len(files[file.name]) for file in offer.files)
    assert offer.files[1].digest == git_sha1(files["config.json"])
    assert len(offer.files[-1].digest) == 64
    assert offer.n_here == 0


def test_that_asking_downloads_nothing(hub: Hub, cache) -> None:
    ask_hub(NAME)
    assert [path for path, _ in hub.asked] == [f"/api/models/{NAME}/revision/main"]
    assert not cache.exists()


def test_that_pickles_and_code_and_files_in_folders_are_never_listed(hub: Hub) -> None:
    hub.models[NAME] |= {
        "onnx/model.json": b"{}",
        "optimizer.json": b"{}",
        "pytorch_model.bin.index.json": b"{}",
    }
    hub.models[NAME] |= {"vocab.txt": b"a", "source.spm": b"s", "a b.json": b"{}", "..json": b"{}"}
    names = {file.name for file in ask_hub(NAME).files}
    assert names == {
        "README.md",
        "config.json",
        "tokenizer.json",
        "model.safetensors",
        "vocab.txt",
        "source.spm",
    }


def test_that_shards_are_fetched_with_the_index_that_names_them(hub: Hub) -> None:
    files = hub.models[NAME]
    del files["model.safetensors"]
    files |= {f"model-0000{k}-of-00002.safetensors": b"w" * k for k in (1, 2)}
    with pytest.raises(LoadError, match=r"the Hub has only pytorch_model\.bin"):
        ask_hub(NAME)
    files["model.safetensors.index.json"] = b"{}"
    files["other.safetensors"] = b"o"
    names = [file.name for file in ask_hub(NAME).files]
    assert names[-2:] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert "model.safetensors.index.json" in names
    assert "other.safetensors" not in names


@pytest.mark.parametrize(
    ("removed", "told"),
    [("model.safetensors", "only pytorch_model.bin"), ("config.json", "no config.json")],
)
def test_that_a_model_that_could_not_be_opened_is_refused_before_any_download(
    hub: Hub, removed: str, told: str
) -> None:
    del hub.models[NAME][removed]
    with pytest.raises(LoadError, match=told) as caught:
        ask_hub(NAME)
    assert caught.value.kind == "weights"
    assert "pickles are never fetched" in str(caught.value)


@pytest.mark.parametrize(
    ("card", "tags", "licence"),
    [
        ({"license": "apache-2.0"}, [], "apache-2.0"),
        ({"license": "other", "license_name": "llama3"}, [], "llama3"),
        ({"license": ["mit", "gpl"]}, [], "mit, gpl"),
        ({}, ["a", "license:openrail"], "openrail"),
        (None, [], ""),
        ({"license": "m\x1bit"}, [], "mit"),
    ],
)
def test_that_the_licence_is_what_the_card_says(hub: Hub, card, tags: list[str], licence: str) -> None:
    hub.change_list = lambda values: {**values, "cardData": card, "tags": tags}
    assert ask_hub(NAME).licence == licence


@pytest.mark.parametrize(
    ("fault", "kind", "told"),
    [
        (status(401), "download", "no public model of this name"),
        (status(401, **{"X-Error-Code": "RepoNotFound"}), "download", "no public model of this name"),
        (status(401, **{"X-Error-Code": "GatedRepo"}), "download", "accepted its terms"),
        (status(403), "download", "accepted its terms"),
        (status(404), "download", "no public model of this name"),
        (status(404, **{"X-Error-Code": "RevisionNotFound"}), "download", "404 .RevisionNotFound"),
        (status(429, **{"Retry-After": "300"}), "busy", "asks to wait 300 s"),
        (status(429), "busy", "asks to wait 60 s"),
        (status(500), "download", "answered 500, an error of the server"),
        (page, "download", "a web page"),
        (redirect("http://localhost:1"), "download", "redirects to http://localhost:1"),
        (redirect("file:///etc/passwd?"), "download", "answered 302|redirects to file"),
    ],
)
def test_that_a_server_that_does_not_answer_is_told_in_a_sentence(
    hub: Hub, fault, kind: str, told: str
) -> None:
    hub.faults["/api/"] = [fault]
    with pytest.raises(LoadError, match=told) as caught:
        ask_hub(NAME)
    assert caught.value.kind == kind
    assert caught.value.action


@pytest.mark.parametrize(
    "change",
    [
        lambda values: [values],
        lambda values: {**values, "sha": "main"},
        lambda values: {**values, "sha": 3},
        lambda values: {**values, "siblings": "all of them"},
        lambda values: {**values, "siblings": [{"rfilename": 3}, None, {"rfilename": "config.json"}]},
        lambda values: {**values, "siblings": [{**one, "size": -1} for one in values["siblings"]]},
        lambda values: {**values, "siblings": [{**one, "size": True} for one in values["siblings"]]},
        lambda values: {
            **values,
            "siblings": [{**one, "blobId": "../x", "lfs": 1} for one in values["siblings"]],
        },
    ],
)
def test_that_a_list_that_is_not_one_is_refused(hub: Hub, change) -> None:
    hub.change_list = change
    with pytest.raises(LoadError):
        ask_hub(NAME)


def test_that_a_model_of_another_name_now_is_followed_on_the_same_server(hub: Hub) -> None:
    hub.models["old"] = {"config.json": b"{}"}
    hub.faults["models/old"] = [
        lambda handler, _: handler.answer(307, b"", Location=f"/api/models/{NAME}/revision/main")
    ]
    assert ask_hub("old").files[-1].name == "model.safetensors"


def test_that_without_a_server_the_reason_is_told(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    monkeypatch.setattr(shelf.import_hub().constants, "ENDPOINT", address)
    with pytest.raises(LoadError, match=r"cannot be reached \(Connection refused\)") as caught:
        ask_hub(NAME)
    assert caught.value.kind == "unreachable"
    assert "Check the connection" in str(caught.value)


@pytest.mark.parametrize("has_library", [True, False])
def test_that_a_server_that_cannot_prove_itself_is_not_believed(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, has_library: bool
) -> None:
    if not has_library:
        monkeypatch.setitem(sys.modules, "truststore", None)
    fetching._opener.cache_clear()
    monkeypatch.setattr(shelf.import_hub().constants, "ENDPOINT", hub.address.replace("http:", "https:"))
    with pytest.raises(LoadError, match=r"cannot be reached \(.*SSL") as caught:
        ask_hub(NAME)
    assert caught.value.kind == "unreachable"
    assert hub.asked == []
    fetching._opener.cache_clear()


@pytest.mark.parametrize("address", ["file:///tmp", "huggingface.co", "http://", "http://[", ""])
def test_that_an_endpoint_that_is_no_server_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf.import_hub().constants, "ENDPOINT", address)
    with pytest.raises(LoadError, match="HF_ENDPOINT") as caught:
        ask_hub(NAME)
    assert caught.value.kind == "endpoint"


def test_that_nobody_is_asked_where_the_network_is_switched_off(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "_is_offline_by_choice", lambda: True)
    with pytest.raises(LoadError, match="HF_HUB_OFFLINE"):
        ask_hub(NAME)
    assert hub.asked == []


@pytest.mark.parametrize("name", ["../../etc", "a/b/c", "a--b/c", "", "a b", "http://x/y"])
def test_that_what_is_no_name_is_not_asked_for(hub: Hub, name: str) -> None:
    with pytest.raises(LoadError, match="not the name of a model"):
        ask_hub(name)
    assert hub.asked == []


def test_that_a_token_goes_to_the_hub_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "hub_token", lambda: "secret")
    with running(Hub()) as other:
        other.models = hub.models
        hub.faults["model.safetensors"] = [redirect(other.address.replace("127.0.0.1", "localhost"))]
        offer = ask_hub(NAME)
        content = b"".join(fetching.file_chunks(offer, offer.files[-1], 0))
        assert content == hub.models[NAME]["model.safetensors"]
        assert [headers.get("Authorization") for _, headers in hub.asked] == ["Bearer secret"] * 2
        assert [headers.get("Authorization") for _, headers in other.asked] == [None]
