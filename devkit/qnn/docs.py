"""The SDK's own documentation on this machine: where it lies, an index of it, and one entry looked up."""

from __future__ import annotations

import contextlib
import difflib
import html
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit.errors import FileError, ToolMissing, UsageError
from devkit.ndk.qnn_sdk import QnnSdk
from devkit.qnn.docs_index import keep, kept_for, stamp_of
from devkit.qnn.html_text import TABLE, Block, main_part, main_span, read_blocks
from devkit.qnn.opdef import Operation, Supplement, read_operation, read_supplement

MASTER, SUPPORTED = "MasterOpDef.html", "SupportedOps.html"
# Below docs/: up to QAIRT 2.40, and since 2.46.
_ROOTS = ("QNN", "QAIRT-Docs/QNN")
_SUPPLEMENT = re.compile(r"(\w+?)OpDefSupplement\.html")
_HEADING = re.compile(rb"<h([12])\b[^>]*>(.*?)</h\1>", re.DOTALL)
_LINK = re.compile(rb'<a\b[^>]*class="headerlink".*?</a>', re.DOTALL)
_TAG = re.compile(rb"<[^>]+>")
_TITLE = re.compile(r"<title>\s*(Function|Struct|Enum|Define|Typedef|Union|Class|File)\s+([\w.]+)")
_TITLE_BYTES = 4096
# Of the kinds of pages with one name, the one that says most comes first.
_KINDS = ("Function", "Struct", "Union", "Class", "Enum", "Typedef", "Define", "File")


@dataclass(frozen=True)
class OpDocs:
    """An operation and its supplements, in the order of the SDK's backends."""

    operation: Operation
    supplements: tuple[Supplement, ...]
    backends: tuple[str, ...]
    page: Path

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.operation.as_dict(),
            "page": str(self.page),
            "backends": {s.backend: s.as_dict() for s in self.supplements},
            "backends_without": [b for b in self.backends if b not in {s.backend for s in self.supplements}],
        }


@dataclass(frozen=True)
class ApiPage:
    """A page of the API's reference."""

    name: str
    kind: str
    page: Path
    blocks: tuple[Block, ...]


def backends(sdk: QnnSdk) -> tuple[str, ...]:
    """The backends that the SDK documents: cpu, gpu, htp, dsp …

    Raises:
        ToolMissing: the SDK has no documentation.
    """
    return tuple(_supplements(_folder(sdk, "OpDef", MASTER)))


def operations(sdk: QnnSdk) -> tuple[str, ...]:
    """The names of all operations.

    Raises:
        ToolMissing: the SDK has no documentation.
    """
    return tuple(_ops(_folder(sdk, "OpDef", MASTER) / MASTER))


def find_operation(sdk: QnnSdk, name: str, wanted: Iterable[str] = ()) -> OpDocs:
    """One operation; its name may be written in any case, or as QNN_OP_MAT_MUL.

    Args:
        wanted: backends; all when there are none.

    Raises:
        ToolMissing: the SDK has no documentation.
        UsageError: there is no such operation or backend.
        FileError: a page cannot be read.
    """
    folder = _folder(sdk, "OpDef", MASTER)
    pages = _supplements(folder)
    chosen = [backend.lower() for backend in wanted] or list(pages)
    for backend in chosen:
        if backend not in pages:
            raise UsageError(
                f"this QNN SDK documents no backend {backend!r}", hints=["one of: " + ", ".join(pages)]
            )
    index = _ops(folder / MASTER)
    known = {_plain(op): op for op in index}
    found = known.get(_plain(name.upper().removeprefix("QNN_OP_")))
    if found is None:
        raise _no_operation(folder, name, list(index))
    operation = read_operation(_part(folder / MASTER, index[found]))
    supplements = []
    for backend in chosen:
        its = {_plain(op): place for op, place in _ops(pages[backend]).items()}
        if (place := its.get(_plain(found))) is not None:
            supplements.append(read_supplement(backend, _part(pages[backend], place)))
    return OpDocs(operation, tuple(supplements), tuple(chosen), folder / MASTER)


def find_api(sdk: QnnSdk, name: str) -> ApiPage:
    """A function, struct, enum, define or typedef of the API's reference.

    Raises:
        ToolMissing: the SDK has no documentation.
        UsageError: the reference has no such name.
        FileError: a page cannot be read.
    """
    folder = _folder(sdk, "api-rst", None)
    index = _api(folder)
    found = index.get(name) or next((e for n, e in index.items() if n.lower() == name.lower()), None)
    if found is None:
        raise UsageError(
            f"the API reference of this QNN SDK has no {name!r}",
            hints=[*_near(name, index), "devkit qnn docs --type NAME looks into the headers"],
        )
    kind, file = found
    blocks = read_blocks(main_part(_bytes(folder / file)))
    return ApiPage(next(n for n, e in index.items() if e == found), kind, folder / file, tuple(blocks))


def _folder(sdk: QnnSdk, name: str, file: str | None) -> Path:
    places = [sdk.path / "docs" / root / name for root in _ROOTS]
    for place in places:
        if (place / file).is_file() if file else place.is_dir():
            return place
    raise ToolMissing(
        "this QNN SDK has no documentation of its " + ("operations" if file else "API"),
        evidence=f"QNN SDK {sdk.version}\n" + "\n".join(f"not there: {place}" for place in places),
        hints=["install the whole SDK: devkit qnn sdk install …", "devkit qnn sdk list; then --sdk VERSION"],
    )


def _supplements(folder: Path) -> dict[str, Path]:
    found = {}
    for path in sorted(folder.glob("*OpDefSupplement.html")):
        if match := _SUPPLEMENT.fullmatch(path.name):
            found[match[1].lower()] = path
    first = [name for name in ("cpu", "gpu", "htp") if name in found]
    return {name: found[name] for name in [*first, *(n for n in found if n not in first)]}


def _no_operation(folder: Path, name: str, known: list[str]) -> UsageError:
    called = _other_names(folder).get(name.lower())
    hints = [f"QNN calls it {' or '.join(called)}: devkit qnn docs {called[0]}"] if called else []
    return UsageError(
        f"this QNN SDK defines no operation {name!r}",
        hints=[*hints, *_near(name, known), "devkit qnn docs --list names all of them"],
    )


def _near(name: str, known: Iterable[str]) -> list[str]:
    by_case = {entry.lower(): entry for entry in known}
    inside = [entry for low, entry in by_case.items() if name.lower() in low][:5]
    near = inside or [by_case[low] for low in difflib.get_close_matches(name.lower(), by_case, n=3)]
    return [f"did you mean {', '.join(near)}?"] if near else []


def _other_names(folder: Path) -> dict[str, list[str]]:
    """Names that ONNX, TensorFlow and PyTorch have for QNN's operations, as SupportedOps.html says."""
    try:
        blocks = read_blocks(main_part((folder / SUPPORTED).read_bytes()))
    except OSError:
        return {}
    found: dict[str, list[str]] = {}
    for block in blocks:
        for row in block.rows[block.head :] if block.kind == TABLE else ():
            # number, QNN's name, the frameworks' names, YES or NO of each backend
            for cell in row[2:]:
                for word in re.findall(r"[A-Za-z_]\w+", cell):
                    if word not in ("YES", "NO", "INFERRED") and row[1] not in found.setdefault(
                        word.lower(), []
                    ):
                        found[word.lower()].append(row[1])
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _part(page: Path, place: list[int]) -> list[Block]:
    begin, end = place
    return read_blocks(_bytes(page)[begin:end])


def _bytes(page: Path) -> bytes:
    try:
        return page.read_bytes()
    except OSError as error:
        raise FileError(f"{page} cannot be read", evidence=error.strerror) from None


def _ops(page: Path) -> dict[str, list[int]]:
    """Each operation of a page and where it begins and ends, in bytes."""
    stamp = stamp_of([page])
    cached = kept_for(page, stamp)
    if cached is not None:
        return cached
    content = _bytes(page)
    begin, end = main_span(content)
    marks = [(m.start(), int(m[1]), _heading(m[2])) for m in _HEADING.finditer(content, begin, end)]
    marks.append((end, 1, ""))
    found = {
        name: [at, after] for (at, level, name), (after, _, _) in itertools.pairwise(marks) if level == 2
    }
    keep(page, stamp, found)
    return found


def _api(folder: Path) -> dict[str, tuple[str, str]]:
    """Each name of the API's reference: its kind and page."""
    stamp = stamp_of([folder])
    cached = kept_for(folder, stamp)
    if cached is None:
        found: dict[str, tuple[str, str]] = {}
        for page in sorted(folder.glob("*.html")):
            if page.name.startswith("program_listing"):
                continue
            with contextlib.suppress(OSError), page.open("rb") as stream:
                title = _TITLE.search(html.unescape(stream.read(_TITLE_BYTES).decode("utf-8", "replace")))
                if title and (
                    title[2] not in found or _KINDS.index(title[1]) < _KINDS.index(found[title[2]][0])
                ):
                    found[title[2]] = (title[1], page.name)
        cached = {name: list(entry) for name, entry in found.items()}
        keep(folder, stamp, cached)
    return {name: (entry[0], entry[1]) for name, entry in cached.items()}


def _heading(text: bytes) -> str:
    return html.unescape(_TAG.sub(b"", _LINK.sub(b"", text)).decode("utf-8", "replace")).strip(" \n¶\uf0c1")
