"""`devkit qnn docs`: the SDK's pages and headers, in the layouts of old and new SDKs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from devkit.errors import ToolMissing, UsageError
from devkit.ndk.qnn_sdk import QnnSdk, open_qnn_sdk
from devkit.qnn import docs as qnn_docs
from devkit.qnn import headers as qnn_headers
from devkit.qnn.docs import backends, find_api, find_operation, operations
from devkit.qnn.headers import Declaration, find_declaration, names_of_error, used_types
from devkit.qnn.html_text import as_text, read_blocks
from devkit.qnn.opdef import DATATYPES
from devkit.qnn.side_by_side import side_by_side
from tests.support.qnn_docs import HEADER, make_docs
from tests.support.qnn_trees import make_sdk


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(params=[False, True], ids=["docs/QNN", "docs/QAIRT-Docs/QNN"])
def sdk(request: pytest.FixtureRequest, tmp_path: Path) -> QnnSdk:
    root = make_sdk(tmp_path / "SDK 版" / "2.42.0.251225")
    make_docs(root, modern=request.param)
    (root / "include/QNN/QnnSheet.h").write_text(HEADER)
    return open_qnn_sdk(root, "test")


def test_an_operation(sdk: QnnSdk) -> None:
    assert operations(sdk) == ("Fold", "MatFold") and backends(sdk) == ("cpu", "gpu", "htp")
    found = find_operation(sdk, "fold")
    op = found.operation
    assert op.text == ("Folds a sheet: x <= y.", "    a = [", "      1]")
    assert op.references == ("ONNX: Bend",)
    assert [t.name for t in op.inputs] == ["in[0]", "in[1..m]"] and [t.name for t in op.outputs] == ["out[0]"]
    first, edge = op.inputs[0], op.parameters[0]
    assert first.text == ("The sheet.", "- one corner is marked")
    assert first.facts == {
        "Mandatory": "true", "Data type": "backend specific", "Shape": "[h,w]",
        "Constraints": ["Shape: Rank > 0", "at most two folds"],
    }  # fmt: skip
    assert edge.facts["Default"] == "0" and edge.facts["Values"] == ["LEFT = 0,", "RIGHT = 1"]
    assert not find_operation(sdk, "QNN_OP_MAT_FOLD").operation.parameters


def test_what_backends_take(sdk: QnnSdk) -> None:
    found = find_operation(sdk, "Fold")
    assert [s.backend for s in found.supplements] == ["cpu", "htp"]  # gpu has MatFold alone
    htp = found.supplements[1]
    rows = [row[:2] for row in htp.tables[DATATYPES].rows]
    assert rows[1:3] == [("INT16", "QNN_DATATYPE_UFIXED_POINT_16")] * 2  # an empty cell goes on
    assert htp.tables["Constraints"].of_column("out[0]") == [("INT16", "Shape: even")]
    assert set(found.supplements[0].tables) == {DATATYPES, "Support"}
    assert [s.backend for s in find_operation(sdk, "Fold", ["HTP"]).supplements] == ["htp"]
    with pytest.raises(UsageError, match="no backend 'npu'"):
        find_operation(sdk, "Fold", ["npu"])


def test_an_operation_under_another_frameworks_name(sdk: QnnSdk) -> None:
    for name in ("Bend", "foldv2"):
        with pytest.raises(UsageError) as error:
            find_operation(sdk, name)
        assert error.value.hints[0] == "QNN calls it Fold: devkit qnn docs Fold"
    with pytest.raises(UsageError) as error:
        find_operation(sdk, "MatFolt")
    assert error.value.hints[0] == "did you mean MatFold?"


def test_the_index_is_kept_and_made_anew(
    sdk: QnnSdk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find_operation(sdk, "MatFold").operation.text == ("Folds many.",)
    kept = {file: file.read_bytes() for file in (tmp_path / "cache/devkit/qnn-docs").glob("*.json")}
    assert len(kept) == 4  # the definitions and three supplements
    with monkeypatch.context() as patch:
        patch.setattr(qnn_docs, "_HEADING", None)  # what the kept index makes needless
        find_operation(sdk, "MatFold")
    (page,) = (sdk.path / "docs").rglob("MasterOpDef.html")
    page.write_text(
        page.read_text("utf-8").replace("<p>All of it.</p>", "<p>Once more, longer.</p>"), "utf-8"
    )
    os.utime(page, ns=(1, 1))
    assert find_operation(sdk, "MatFold").operation.text == ("Folds many.",)
    for file in kept:
        file.write_text("{broken")
    assert operations(sdk) == ("Fold", "MatFold")


def test_the_headers_are_kept_and_read_anew(sdk: QnnSdk, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> Declaration:
        monkeypatch.setattr(qnn_headers, "_REMEMBERED", {})  # another command
        return find_declaration(sdk, name)

    sheet = find("Qnn_Sheet_t")
    with monkeypatch.context() as patch:
        patch.setattr(qnn_headers, "_BLOCK", None)  # what the kept declarations make needless
        assert find("Qnn_Sheet_t") == sheet
    (sdk.path / "include/QNN/HTP").mkdir(exist_ok=True)
    (sdk.path / "include/QNN/HTP/QnnMore.h").write_text("typedef struct { int more; } Qnn_More_t;\n")
    assert find("Qnn_More_t").header == "HTP/QnnMore.h"


def test_the_api_reference(sdk: QnnSdk) -> None:
    page = find_api(sdk, "qnnsheet_fold")
    assert (page.name, page.kind) == ("QnnSheet_fold", "Function")
    assert as_text(list(page.blocks)) == (
        "Function QnnSheet_fold\nAll of it.\n\nFunction Documentation\n"
        "Qnn_ErrorHandle_t QnnSheet_fold(Qnn_Sheet_t *sheet)\n"
        "  Folds it once.\n  Parameters\n    - sheet – [in] What to fold.\n  Returns\n    Error code:\n"
        "    - QNN_SUCCESS: folded\n    - QNN_SHEET_ERROR_TORN:\n      - it was wet OR\n"
    )
    assert find_api(sdk, "Qnn_Sheet_t").kind == "Struct"  # not the typedef of the same name
    with pytest.raises(UsageError) as error:
        find_api(sdk, "QnnSheet_folt")
    assert "did you mean QnnSheet_fold" in error.value.hints[0]


def test_an_sdk_without_documentation(tmp_path: Path) -> None:
    bare = open_qnn_sdk(make_sdk(tmp_path / "bare"), "test")
    with pytest.raises(ToolMissing, match="no documentation of its operations"):
        operations(bare)
    with pytest.raises(ToolMissing, match="no documentation of its API"):
        find_api(bare, "QnnGraph_execute")


def test_types_of_the_headers(sdk: QnnSdk) -> None:
    sheet = find_declaration(sdk, "Qnn_Sheet_t")
    assert (sheet.kind, sheet.header) == ("struct", "QnnSheet.h")
    assert sheet.text == "A sheet, in one\n       of its versions."
    assert sheet.source.startswith("typedef struct {") and sheet.source.endswith("} Qnn_Sheet_t;")
    assert HEADER.splitlines()[sheet.line - 1] == "typedef struct {"
    assert [(m["name"], m["type"], m["depth"]) for m in sheet.members] == [
        ("state", "QnnSheet_Error_t", 0), ("", "union", 0), ("crease", "Qnn_Crease_t", 1),
        ("names", "const char* const*", 1), ("notify", "void (*notify)(void* sheet, uint32_t count)", 0),
    ]  # fmt: skip
    assert sheet.members[2]["text"] == "Used in version 1"
    assert used_types(sheet, sdk) == ["QnnSheet_Error_t", "Qnn_Crease_t"]
    crease = find_declaration(sdk, "qnn_crease_t")
    assert crease.text.startswith("Where it is folded") and crease.members[1]["type"] == "int32_t[4]"
    assert crease.members[0]["text"] == "From the left, in mm"


def test_constants_and_functions_of_the_headers(sdk: QnnSdk) -> None:
    enum = find_declaration(sdk, "QNN_SHEET_ERROR_WET")
    assert enum.name == "QnnSheet_Error_t" and enum.text == "What can go wrong."
    values = {member["name"]: member["value"] for member in enum.members}
    assert values == {
        "QNN_SHEET_MIN_ERROR": 42000, "QNN_SHEET_ERROR_TORN": 42001, "QNN_SHEET_ERROR_WET": 42002,
        "QNN_SHEET_ERROR_UNDEFINED": 0x7FFFFFFF,
    }  # fmt: skip
    assert enum.members[1]["text"] == "It is torn; { a brace in a comment"
    assert find_declaration(sdk, "QNN_SUCCESS").text == "Nothing went wrong"
    function = find_declaration(sdk, "QnnSheet_fold")
    assert function.kind == "function" and function.text.startswith("Folds it.")
    assert "uint32_t times" in function.source
    number = find_declaration(sdk, "Qnn_SheetNumber_t")  # the word typedef in a comment begins none
    assert number.source == "typedef uint64_t Qnn_SheetNumber_t;" and number.text.startswith("A typedef to")
    assert find_declaration(sdk, "Qnn_SheetPrivate_t").kind == "typedef"
    init = find_declaration(sdk, "QNN_CREASE_INIT")
    assert init.text == "Qnn_Crease_t initializer macro" and init.source.endswith("  }")
    assert names_of_error(sdk, 42002) == ["QNN_SHEET_ERROR_WET"]
    assert names_of_error(sdk, 42000) == [] == names_of_error(sdk, 0x7FFFFFFF)
    assert find_declaration(sdk, "Qnn_SheetHandle_t").text == "A handle of a sheet"
    assert find_declaration(sdk, "Qnn_SheetFn_t").kind == "typedef"
    with pytest.raises(UsageError) as error:
        find_declaration(sdk, "QNN_SHEET_ERROR_WED")
    assert "did you mean QNN_SHEET_ERROR_WET?" in error.value.hints


def test_cells_are_wrapped_and_the_first_column_stays() -> None:
    text = side_by_side(
        ["X", "LONG", "SHORT"], [[["in[0]"], ["- one two three four five six"], ["a", "b"]]], 30
    )
    assert text == (
        "X      LONG              SHORT\n"
        "in[0]  - one two three   a\n"
        "         four five six   b\n"
    )  # fmt: skip
    assert max(len(line) for line in text.splitlines()) <= 30


def test_pages_that_are_no_pages() -> None:
    assert read_blocks(b"") == []
    assert [block.text for block in read_blocks(b"<p>open <b>end")] == ["open end"]
    assert read_blocks(b"</ul></dd></table></td>") == []
    assert read_blocks(b"\xff\xfe<p>x")[-1].text == "x"


def devkit(sdk: QnnSdk, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "devkit", *args, "--sdk", str(sdk.path)],
        env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_command(sdk: QnnSdk) -> None:
    done = devkit(sdk, "qnn", "docs", "fold")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    head = next(line for line in lines if line.startswith("DATATYPES"))
    assert head.split() == ["DATATYPES", "CPU", "HTP"]
    row = lines[lines.index(head) + 1]
    assert row.split() == ["in[0]", "FLOAT_32", "FLOAT_16"]
    assert "- INT16, INT8: must be folded symmetrically." in done.stdout and "not on: GPU" in done.stdout
    assert "  edge: optional; UINT_32; scalar; default 0" in lines
    assert max(map(len, lines[:-1])) <= 100
    one = devkit(sdk, "qnn", "docs", "Fold", "--backend", "htp").stdout
    assert (
        "HTP: Datatypes" in one and "INT16           UFIXED_POINT_16  UFIXED_POINT_8   UFIXED_POINT_16" in one
    )
    done = subprocess.run(
        [sys.executable, "-m", "devkit", "--json", "qnn", "docs", "Fold", "--sdk", str(sdk.path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    data = json.loads(done.stdout)
    assert set(data["backends"]) == {"cpu", "htp"} and data["backends_without"] == ["gpu"]
    assert data["backends"]["htp"]["constraints"]["rows"][0]["in[0]"] == ["Shape: Max supported rank is 4."]
    assert (
        "* QNN_SHEET_ERROR_WET = 42002" in devkit(sdk, "qnn", "docs", "--type", "QNN_SHEET_ERROR_WET").stdout
    )
    assert "made of: QnnSheet_Error_t" in devkit(sdk, "qnn", "docs", "--type", "Qnn_Sheet_t").stdout
    assert "- sheet – [in] What to fold." in devkit(sdk, "qnn", "docs", "--api", "QnnSheet_fold").stdout
    assert devkit(sdk, "qnn", "docs", "--list").stdout.startswith("Fold\nMatFold\n\n2 operations")
    assert devkit(sdk, "qnn", "docs").returncode == 2
    assert devkit(sdk, "qnn", "docs", "Fold", "--list").returncode == 2
    assert devkit(sdk, "qnn", "docs", "NoSuchOp").returncode == 2
