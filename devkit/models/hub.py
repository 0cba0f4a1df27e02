"""The Hugging Face hub, or a mirror of it, through huggingface_hub: a model's files, and one file's bytes.

huggingface_hub brings login, tokens, the API and a transfer that mends small breaks. Since 2.0 it throws
a file away when its process ends in the middle (each has a temporary file of its own): so it is kept here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from devkit.errors import DevkitError, ToolMissing, UsageError

HUB = "https://huggingface.co"
MIRROR = "https://hf-mirror.com"
_NETWORK_MODULES = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3", "huggingface_hub")
_LIST_TIMEOUT_S = 30.0
# What huggingface_hub hands on at a time, and so what a break costs. Its own 10 MB would mean that a link
# which breaks before each 10 MB never gets on.
_CHUNK_BYTES = 64 * 1024


class HubUnreachable(DevkitError):
    """An endpoint did not answer, or broke off: another endpoint, or the same one later, may do."""


@dataclass(frozen=True)
class HubFile:
    """One file of a model on the hub.

    Attributes:
        sha256: of its content; None for small files, which have `git_sha1` (of a git blob).
    """

    path: str
    size: int
    sha256: str | None
    git_sha1: str | None

    @property
    def key(self) -> str:
        """The content's name: two files with one key are equal."""
        return (self.sha256 or self.git_sha1 or self.path.replace("/", "_"))[:32]


@dataclass(frozen=True)
class HubModel:
    """A model as an endpoint lists it. `commit` pins all files to one state of it."""

    name: str
    commit: str
    endpoint: str
    files: tuple[HubFile, ...]


def endpoints(given: str | None = None) -> tuple[str, ...]:
    """Where to ask, in this order: what was given or HF_ENDPOINT names, else the hub and then its mirror.

    Raises:
        UsageError: it is no URL.
    """
    chosen = given or os.environ.get("HF_ENDPOINT")
    if chosen and not chosen.startswith(("http://", "https://")):
        raise UsageError(
            f"{chosen!r} is no address of a hub",
            evidence="from --endpoint" if given else "from HF_ENDPOINT",
            hints=[f"with its scheme: https://{chosen.lstrip('/')}"],
        )
    return (chosen.rstrip("/"),) if chosen else (HUB, MIRROR)


def list_model(name: str, revision: str | None, endpoint: str) -> HubModel:
    """All files of a model, with sizes and hashes.

    Raises:
        ToolMissing: huggingface_hub is not installed.
        UsageError: no such model or revision, or it wants a login.
        HubUnreachable: the endpoint does not answer.
    """
    hub = _library()
    try:
        api = hub.HfApi(endpoint=endpoint, token=_token(endpoint))
        info = api.model_info(name, revision=revision, files_metadata=True, timeout=_LIST_TIMEOUT_S)
    except Exception as error:
        raise _explained(error, name, revision, endpoint) from None
    files = tuple(
        HubFile(
            path=s.rfilename,
            size=int(s.size or 0),
            sha256=str(s.lfs.sha256) if s.lfs else None,
            git_sha1=None if s.lfs else s.blob_id,
        )
        for s in info.siblings or ()
    )
    return HubModel(name, str(info.sha or revision or "main"), endpoint, files)


def transfer(
    model: HubModel, file: HubFile, endpoint: str, part: Path, on_bytes: Callable[[float], None]
) -> None:
    """Fetch the rest of a file: what `part` holds already does not travel again.

    Raises:
        HubUnreachable: it broke off; `part` keeps what has come.
        UsageError: the endpoint does not give it out.
        OSError: `part` cannot be written.
    """
    hub = _library()
    http_get: Any = import_module("huggingface_hub.file_download").http_get
    build_hf_headers: Any = import_module("huggingface_hub.utils").build_hf_headers
    url = hub.hf_hub_url(model.name, file.path, revision=model.commit, endpoint=endpoint)
    have = part.stat().st_size if part.exists() else 0
    if have > file.size:
        part.unlink()
        have = 0
    bar = _bar_class(on_bytes)
    constants: Any = import_module("huggingface_hub.constants")
    constants.DOWNLOAD_CHUNK_SIZE = _CHUNK_BYTES
    # Unbuffered: what has come is in the file, also after kill -9.
    with part.open("ab", buffering=0) as stream:
        try:
            http_get(
                url, stream, resume_size=have, headers=build_hf_headers(token=_token(endpoint)),
                expected_size=file.size, tqdm_class=bar,
            )  # fmt: skip
        except OSError as error:
            if error.errno is not None and type(error).__module__.partition(".")[0] not in _NETWORK_MODULES:
                raise  # the disk, not the network
            raise _explained(error, model.name, model.commit, endpoint) from None
        except Exception as error:
            raise _explained(error, model.name, model.commit, endpoint) from None


def _library() -> Any:
    # Its own bars and warnings about retries would mix with devkit's output.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        library: Any = import_module("huggingface_hub")
    except ImportError as error:
        raise ToolMissing(
            "huggingface_hub is not installed: devkit model get needs it",
            evidence=str(error),
            hints=["pip install 'mnn-devkit[models]'"],
        ) from None
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    return library


def _token(endpoint: str) -> bool | None:
    """The user's token goes to the hub, or where the user sends it; never to the mirror of its own accord."""
    return False if endpoint == MIRROR and not os.environ.get("HF_ENDPOINT") else None


def _explained(error: Exception, name: str, revision: str | None, endpoint: str) -> DevkitError:
    errors: Any = import_module("huggingface_hub.errors")
    seen = str(error).strip().partition("\n")[0]
    login = "hf auth login, or HF_TOKEN=…"
    if isinstance(error, errors.GatedRepoError):
        hints = [f"accept its terms at {endpoint}/{name}", login]
        return UsageError(
            f"{name} is given out only to who has accepted its terms", evidence=seen, hints=hints
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        what = f"there is no model {name} at {endpoint}, or it is private"
        return UsageError(what, evidence=seen, hints=["check ORG/NAME (case counts)", login])
    if isinstance(error, errors.RevisionNotFoundError):
        return UsageError(f"{name} has no revision {revision}", evidence=seen, hints=["leave --revision out"])
    if isinstance(error, errors.HFValidationError):
        return UsageError(
            f"{name!r} is no name of a model", evidence=seen, hints=["devkit model get ORG/NAME"]
        )
    if isinstance(error, errors.OfflineModeIsEnabled):
        return UsageError(
            "HF_HUB_OFFLINE forbids to fetch anything", evidence=seen, hints=["unset HF_HUB_OFFLINE"]
        )
    if isinstance(error, errors.EntryNotFoundError):
        return HubUnreachable(f"{endpoint} does not have all of {name}", evidence=seen)
    if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _NETWORK_MODULES:
        return HubUnreachable(
            f"{endpoint} cannot be reached, or broke off",
            evidence=f"{type(error).__name__}: {seen}" if seen else type(error).__name__,
            hints=["run it again: what has come is kept", f"HF_ENDPOINT={MIRROR} devkit model get {name}"],
        )
    raise error


def _bar_class(on_bytes: Callable[[float], None]) -> type[Any]:
    """A progress bar for huggingface_hub that draws nothing and hands the counts on."""
    tqdm: Any = import_module("tqdm").tqdm

    class Counter(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*args, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            on_bytes(n or 0)

    return Counter


def pick_files(
    files: Sequence[HubFile], include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[HubFile, ...]:
    """The files that patterns (shell's) choose; those of git itself never."""
    from fnmatch import fnmatchcase

    def fits(path: str, patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in patterns)

    return tuple(
        file
        for file in files
        if not file.path.rpartition("/")[2].startswith(".git")
        and (not include or fits(file.path, include))
        and not fits(file.path, exclude)
    )
