"""Talking to the Hub: what a download of a model would be, and the bytes of one file.

Redirects lead a file to whatever server stores it, never from https to http, and without the person's token:
what comes is taken only when it has the digest that the Hub itself named. The Hub's own answers come from the
Hub. Plain `urllib`, because the Hub's library can neither pause nor verify, and opens the network for the
whole process.
"""

import importlib
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from attnscope import __version__
from attnscope.errors import LoadError
from attnscope.hub.library import hub_address, hub_host, hub_token, require_network
from attnscope.hub.shelf import CONFIG, INDEX, WEIGHTS, bytes_here, is_model_id
from attnscope.records.shelf import DOWNLOAD_PREFIX, HubFile, ModelOffer
from attnscope.strict_json import parse_object

TIMEOUT_S = 10.0
_CHUNK_BYTES = 1 << 16
_MOST_BYTES = 10_000_000
"""Of an answer that lists a model's files."""
_MOST_FILE_BYTES = 1 << 45
_TRY_AGAIN = "Check the connection, and try again."
_SHARD = re.compile(r"model-\d{1,6}-of-\d{1,6}\.safetensors")
_ENDINGS = (".json", ".txt", ".model", ".spm")
_OTHERS = ("optimizer", "training_args")
_CARD = "README.md"
_NAME = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
_COMMIT, _DIGEST = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".ot", ".gguf", ".onnx")


class Trouble(Exception):
    """A request that came to nothing: what to tell of it, and after how long it may be tried again.

    `wait_s` is None where trying again would not help.
    """

    def __init__(self, error: LoadError, *, wait_s: float | None = None) -> None:
        self.error, self.wait_s = error, wait_s
        super().__init__(str(error))


def ask_hub(name: str) -> ModelOffer:
    """What a download of a model would fetch: configuration, tokenizer and safetensors, no code, no pickle.

    Raises LoadError with the reason.
    """
    if not is_model_id(name):
        raise LoadError(
            f"{name[:100]!r} is not the name of a model on the Hub.",
            kind="missing",
            expected=f"{DOWNLOAD_PREFIX}owner/name",
            action="Copy the name from the model's page.",
        )
    require_network()
    url = f"{hub_address()}/api/models/{quote(name)}/revision/main?blobs=true"
    try:
        with _opened(url, name, is_bound=True) as response:
            content = response.read(_MOST_BYTES + 1)
            _refuse_page(response, content, name)
    except Trouble as trouble:
        raise trouble.error from trouble
    if len(content) > _MOST_BYTES:
        raise _no_answer(name, f"it is longer than {_MOST_BYTES:,} bytes")
    try:
        values = parse_object(content, what="the list of its files")
    except LoadError as error:
        raise _no_answer(name, error.happened) from error
    commit = values.get("sha")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise _no_answer(name, "it names no commit")
    files = _wanted(name, values.get("siblings"))
    return ModelOffer(
        name=name,
        host=hub_host(),
        commit=commit,
        licence=_licence(values),
        files=files,
        n_here=sum(bytes_here(name, file) for file in files),
    )


def file_chunks(offer: ModelOffer, file: HubFile, start: int) -> Iterator[bytes]:
    """The bytes of a file from `start` on, as they come; raises Trouble.

    The first chunk is empty where the server sends the whole file though only its rest was asked for.
    """
    url = f"{hub_address()}/{quote(offer.name)}/resolve/{offer.commit}/{quote(file.name)}"
    with _opened(url, offer.name, start=start) as response:
        if start and response.status != 206:
            start = 0
            yield b""
        _refuse_page(response, b"", offer.name)
        told = response.headers.get("Content-Length", "")
        if told.isascii() and told.isdigit() and int(told) != file.n_bytes - start:
            raise Trouble(
                _refusal(
                    offer.name,
                    f"{file.name} would come with {int(told) + start:,} bytes",
                    expected=f"{file.n_bytes:,}, as the Hub lists it",
                )
            )
        while chunk := response.read1(_CHUNK_BYTES):
            yield chunk


@contextmanager
def _opened(url: str, name: str, *, start: int = 0, is_bound: bool = False) -> Iterator[HTTPResponse]:
    """An answer of the server; whatever goes wrong with it inside the block becomes Trouble."""
    request = Request(url, headers={"User-Agent": f"attnscope/{__version__}", "Accept-Encoding": "identity"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    if token := hub_token():
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with _opener(is_bound).open(request, timeout=TIMEOUT_S) as response:
            yield response
    except HTTPError as error:
        with error:
            raise _refused(name, error) from error
    except (OSError, HTTPException, ValueError) as error:
        raise Trouble(_unreachable(name, error), wait_s=0.0) from error


@cache
def _opener(is_bound: bool) -> OpenerDirector:
    return build_opener(_Redirects(is_bound), HTTPSHandler(context=_trusted()))


def _trusted() -> ssl.SSLContext:
    """Whom to trust: as the system says, by the library that the Hub's own brings; else as Python does."""
    try:
        context: ssl.SSLContext = importlib.import_module("truststore").SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    except ImportError:
        return ssl.create_default_context()
    return context


class _Redirects(HTTPRedirectHandler):
    """Follows to https, or to what is no worse than where it comes from; bound: on the same server only."""

    def __init__(self, is_bound: bool) -> None:
        self._is_bound = is_bound

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        is_same = (old.scheme, old.netloc) == (new.scheme, new.netloc)
        if new.scheme not in ("https", old.scheme) or (self._is_bound and not is_same):
            fp.close()
            place = f"{new.scheme}://{new.netloc}"[:100]
            raise Trouble(_refusal(urlsplit(req.full_url).netloc, f"it redirects to {place}"))
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if following is not None and token and is_same:
            following.add_unredirected_header("Authorization", token)
        return following


def _refused(name: str, error: HTTPError) -> Trouble:
    """What an answer that is an error means."""
    host, reason = hub_host(), error.headers.get("X-Error-Code", "") if error.headers else ""
    code = error.code
    if code == 429:
        wait = error.headers.get("Retry-After", "")
        wait_s = float(wait) if wait.isascii() and wait.isdigit() else 60.0
        told = LoadError(
            f"{host} asks to wait {wait_s:,.0f} s: it received too many requests from this address.",
            kind="busy",
            action="Wait that long, then try again.",
        )
        return Trouble(told, wait_s=wait_s)
    if code >= 500:
        what = f"{name} could not be downloaded: {host} answered {code}, an error of the server."
        return Trouble(LoadError(what, kind="download", action="Try again later."), wait_s=0.0)
    if reason == "GatedRepo" or code == 403:
        why = "it is given only to those who have accepted its terms on the Hub"
        action = f"Accept them at {host}/{name}, log in with hf auth login, and try again."
    elif code in (401, 404) and reason in ("", "RepoNotFound"):
        why = "the Hub has no public model of this name"
        action = "Check the name, owner/name, on its page. For a private model log in: hf auth login."
    else:
        why, action = f"{host} answered {code} ({reason or error.reason})", "Choose another model."
    return Trouble(LoadError(f"{name} could not be downloaded: {why}.", kind="download", action=action))


def _unreachable(name: str, error: Exception) -> LoadError:
    reason = error.reason if isinstance(error, URLError) else error
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return LoadError(
        f"{name} could not be downloaded: {hub_host()} cannot be reached ({words[:120]}).",
        kind="unreachable",
        action=_TRY_AGAIN,
    )


def _refuse_page(response: HTTPResponse, content: bytes, name: str) -> None:
    if response.headers.get_content_type() == "text/html" or content.lstrip()[:1] == b"<":
        raise Trouble(
            LoadError(
                f"{name} could not be downloaded: what came is a web page.",
                kind="download",
                expected="the answer of a Hub",
                action="Some networks require a login first: open any page in a browser, then try again.",
            )
        )


def _wanted(name: str, listed: object) -> tuple[HubFile, ...]:
    """The files to fetch, the weights last; raises LoadError where there is nothing that could be opened."""
    found = {}
    for one in listed if isinstance(listed, list) else ():
        file = _hub_file(one)
        if file is not None:
            found[file.name] = file
    weights = [WEIGHTS] if WEIGHTS in found else sorted(n for n in found if _SHARD.fullmatch(n))
    if not weights or (weights != [WEIGHTS] and INDEX not in found) or CONFIG not in found:
        raise _nothing_to_open(name, listed)
    small = sorted(n for n in found if _is_small(n) or (n == INDEX and weights != [WEIGHTS]))
    return tuple(found[n] for n in (*small, *weights))


def _is_small(name: str) -> bool:
    is_kind = name == _CARD or (name.endswith(_ENDINGS) and not name.endswith(".index.json"))
    return is_kind and not name.startswith(_OTHERS)


def _hub_file(value: object) -> HubFile | None:
    """A file of the list; None for one in a folder of its own, or without a size or digest."""
    if not isinstance(value, dict):
        return None
    large = value.get("lfs")
    digest = large.get("sha256") if isinstance(large, dict) else value.get("blobId")
    name, n_bytes = value.get("rfilename"), value.get("size")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or type(n_bytes) is not int:
        return None
    if not 0 <= n_bytes < _MOST_FILE_BYTES or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return None
    return HubFile(name=name, n_bytes=n_bytes, digest=digest)


def _nothing_to_open(name: str, listed: object) -> LoadError:
    ones = listed if isinstance(listed, list) else []
    names = [str(one.get("rfilename")) for one in ones if isinstance(one, dict)]
    others = [n for n in names if n.endswith(_PICKLES) and "/" not in n]
    found = f"only {', '.join(others[:3])[:100]}" if others else "nothing that AttnScope can read"
    if CONFIG not in names:
        found = f"no {CONFIG}"
    return LoadError(
        f"{name} was not downloaded: the Hub has {found}.",
        kind="weights",
        expected=f"{CONFIG}, a tokenizer and weights as safetensors; pickles are never fetched",
        action="Choose another model, or one that has been converted.",
    )


def _licence(values: dict[str, object]) -> str:
    card, tags = values.get("cardData"), values.get("tags")
    named = card.get("license_name") or card.get("license") if isinstance(card, dict) else None
    for tag in tags if isinstance(tags, list) and not named else ():
        if isinstance(tag, str) and tag.startswith("license:"):
            named = tag.removeprefix("license:")
    words = ", ".join(map(str, named)) if isinstance(named, list) else named
    return "".join(c for c in words if c.isprintable())[:80] if isinstance(words, str) else ""


def _no_answer(name: str, reason: str) -> LoadError:
    return _refusal(name, f"what {hub_host()} answered cannot be used ({reason.rstrip('.')[:200]})")


def _refusal(name: str, why: str, *, expected: str = "") -> LoadError:
    return LoadError(
        f"{name} could not be downloaded: {why}.",
        kind="download",
        expected=expected,
        action="Try again later; a file that differs from the Hub's list is never kept.",
    )
