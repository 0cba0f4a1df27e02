"""`devkit qnn docs`: the SDK's own documentation in the terminal, offline."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.ndk.qnn_sdk import QnnSdk
    from devkit.qnn.docs import OpDocs
    from devkit.qnn.headers import Declaration
    from devkit.qnn.opdef import Supplement, Table, Tensor

EXAMPLE = (
    "Example: devkit qnn docs MatMul; devkit qnn docs MatMul --backend htp; "
    "devkit qnn docs --api QnnGraph_execute; devkit qnn docs --type Qnn_QuantizeParams_t"
)
_WIDTH = 120  # where there is no terminal


def docs(
    op: Annotated[str | None, typer.Argument(metavar="[OP]", help="An operation: MatMul, Conv2d, …")] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option("--backend", metavar="NAME", help="Only this backend: cpu, gpu, htp; several are fine."),
    ] = None,
    api: Annotated[
        str | None, typer.Option("--api", metavar="NAME", help="A function, struct or enum of the API.")
    ] = None,
    type_name: Annotated[
        str | None,
        typer.Option("--type", metavar="NAME", help="A type, constant or enumerator of the headers."),
    ] = None,
    list_ops: Annotated[bool, typer.Option("--list", help="Name all operations.")] = False,
    sdk: Annotated[
        str | None,
        typer.Option("--sdk", metavar="VERSION|PATH", help="SDK to use instead of the configured one."),
    ] = None,
) -> None:
    """Read the SDK's documentation: an operation with what each backend takes, an API function, a type.

    Everything comes from the SDK on this machine; nothing is downloaded. One --backend shows all of its
    combinations of data types. Exit code 2: no such name; 125: no SDK, or one without documentation.
    """
    from devkit.cli.qnn import _find

    if sum([op is not None, api is not None, type_name is not None, list_ops]) != 1:
        raise UsageError(
            "name one thing: OP, --api NAME, --type NAME or --list", hints=["devkit qnn docs MatMul"]
        )
    if backend and op is None:
        raise UsageError("--backend belongs to an operation", hints=["devkit qnn docs MatMul --backend htp"])
    found = _find(sdk)
    if list_ops:
        _list(found)
    elif op is not None:
        _operation(found, op, backend or [])
    elif api is not None:
        _api(found, api)
    else:
        _type(found, str(type_name))


def _list(sdk: QnnSdk) -> None:
    from devkit.qnn.docs import backends, operations

    names = operations(sdk)
    text = "\n".join([*names, f"\n{len(names)} operations; backends: {', '.join(backends(sdk))}"])
    output.current().data({"operations": list(names), "backends": list(backends(sdk))}, text)


def _operation(sdk: QnnSdk, op: str, wanted: list[str]) -> None:
    from devkit.qnn.docs import find_operation

    found = find_operation(sdk, op, wanted)
    data = {"sdk": sdk.version, **found.as_dict()}
    output.current().data(data, _op_text(found, sdk.version, alone=len(wanted) == 1))


def _api(sdk: QnnSdk, name: str) -> None:
    from devkit.qnn.docs import find_api
    from devkit.qnn.html_text import as_text

    page = find_api(sdk, name)
    text = as_text(list(page.blocks))
    data = {"name": page.name, "kind": page.kind.lower(), "page": str(page.page), "text": text}
    output.current().data(data, f"{_fitted(text)}\n{page.page}")


def _type(sdk: QnnSdk, name: str) -> None:
    from devkit.qnn.headers import find_declaration, used_types

    found = find_declaration(sdk, name)
    uses = used_types(found, sdk)
    output.current().data({**found.as_dict(), "uses": uses}, _type_text(found, name, uses, sdk))


def _type_text(found: Declaration, asked: str, uses: list[str], sdk: QnnSdk) -> str:
    lines = [f"{found.kind} {found.name}   {sdk.path}/include/QNN/{found.header}:{found.line}"]
    lines += ["", *found.text.splitlines()] if found.text else []
    if found.kind == "enum":
        lines.append("")
        for member in found.members:
            mark = "*" if member["name"] == asked and asked != found.name else " "
            value = "?" if member["value"] is None else _number(member["value"])
            said = f"   {member['text']}" if member["text"] else ""
            lines.append(f"{mark} {member['name']} = {value}{said}")
    else:
        lines += ["", found.source]
    if uses:
        lines += ["", "made of: " + ", ".join(uses)]
    return "\n".join(lines)


def _number(value: int) -> str:
    return hex(value) if value > 0xFFFF else str(value)


def _op_text(found: OpDocs, version: str, *, alone: bool) -> str:
    width = _width()
    op = found.operation
    lines = [f"{op.name}   (QNN SDK {version})", ""]
    for line in op.text:
        lines += textwrap.wrap(line, width) if not line.startswith("    ") else [line]
    for title, tensors in (("inputs", op.inputs), ("parameters", op.parameters), ("outputs", op.outputs)):
        if tensors:
            lines += ["", title + ":"]
            for tensor in tensors:
                lines += _tensor(tensor, width)
    if not found.supplements:
        lines += ["", f"no backend of these has it: {', '.join(found.backends)}"]
        return "\n".join(lines)
    if alone:
        lines += _one_backend(found.supplements[0], width)
    else:
        lines += _all_backends(found, width)
    lines += ["", f"{found.page}"]
    return "\n".join(lines)


def _tensor(tensor: Tensor, width: int) -> list[str]:
    facts = tensor.facts
    need = {"true": "mandatory", "false": "optional"}.get(str(facts.get("Mandatory", "")), "")
    kind = str(facts.get("Data type", "")).replace("QNN_DATATYPE_", "")
    short = [part for part in (need, kind, str(facts.get("Shape", ""))) if part]
    if "Default" in facts:
        short.append(f"default {facts['Default']}")
    lines = textwrap.wrap(f"{tensor.name}: " + "; ".join(short), width - 2, subsequent_indent="    ")
    for line in tensor.text:
        lines += textwrap.wrap(line, width - 6, initial_indent="    ", subsequent_indent="    ")
    for name in ("Values", "Constraints"):
        for line in facts.get(name, ()) if isinstance(facts.get(name), list) else ():
            lines += textwrap.wrap(f"- {line}", width - 6, initial_indent="    ", subsequent_indent="      ")
    return ["  " + line for line in lines]


def _all_backends(found: OpDocs, width: int) -> list[str]:
    """Each tensor's data types and constraints, one column a backend."""
    from devkit.qnn.opdef import DATATYPES
    from devkit.qnn.side_by_side import side_by_side

    lines: list[str] = []
    op = found.operation
    order = [tensor.name for tensor in (*op.inputs, *op.parameters, *op.outputs)]
    titles = dict.fromkeys(title for s in found.supplements for title in s.tables)
    for title in sorted(titles, key=lambda t: t != DATATYPES):
        having = [s for s in found.supplements if title in s.tables]
        names = list(dict.fromkeys(c for s in having for c in s.tables[title].columns[1:]))
        names.sort(key=lambda name: order.index(name) if name in order else len(order))
        rows = [[[name or "op"], *(_cell(s.tables[title], name, title) for s in having)] for name in names]
        head = [title.upper(), *(s.backend.upper() for s in having)]
        lines += ["", side_by_side(head, rows, width).rstrip("\n")]
    without = [b for b in found.backends if b not in {s.backend for s in found.supplements}]
    if without:
        lines += ["", f"not on: {', '.join(b.upper() for b in without)}"]
    return [*lines, "", "--backend NAME shows the combinations that belong together"]


def _cell(table: Table, column: str, title: str) -> list[str]:
    from devkit.qnn.opdef import DATATYPES, short_type

    if column not in table.columns:
        return []
    if title == DATATYPES:
        types = [t.strip() for _, cell in table.of_column(column) for t in cell.replace("\n", ",").split(",")]
        return [short_type(t) for t in dict.fromkeys(types) if t]
    said: dict[str, list[str]] = {}
    for configuration, cell in table.of_column(column):
        for line in short_type(cell).splitlines():
            where = said.setdefault(line, [])
            if configuration not in where:
                where.append(configuration)
    return [
        f"- {line}" if where == ["All"] else f"- {', '.join(where)}: {line}" for line, where in said.items()
    ]


def _one_backend(supplement: Supplement, width: int) -> list[str]:
    from devkit.qnn.opdef import short_type
    from devkit.qnn.side_by_side import side_by_side

    lines: list[str] = []
    for title, table in supplement.tables.items():
        rows = [[short_type(cell).splitlines() for cell in row] for row in table.rows]
        head = [f"{supplement.backend.upper()}: {title}", *(column or "op" for column in table.columns[1:])]
        lines += ["", side_by_side(head, rows, width).rstrip("\n")]
    return lines


def _fitted(text: str) -> str:
    width = _width()
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        hanging = indent + ("  " if line.lstrip().startswith("- ") else "")
        lines += textwrap.wrap(line, width, subsequent_indent=hanging) or [""]
    return "\n".join(lines) + "\n"


def _width() -> int:
    return shutil.get_terminal_size((_WIDTH, 24)).columns
