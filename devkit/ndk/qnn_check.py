"""What a QNN SDK has and what this machine lacks for it, one line each, with evidence."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devkit import process
from devkit.errors import DevkitError
from devkit.ndk.converters import converter_python, find_python
from devkit.ndk.qnn_scripts import run_dependency_script, run_envcheck
from devkit.ndk.qnn_sdk import HEADER, HOST_TARGET, PHONE_TARGET, QnnSdk, tool_environment

OK, WARNING, BROKEN, NOT_NEEDED = "ok", "warning", "broken", "not needed"
# MNN's QNN backend is documented with 2.38; headers of 2.13 do not compile, 2.30 all but one file.
OLDEST_FOR_MNN = (2, 31)
LDD_TIMEOUT_S = 20.0
PHONE_LIBRARIES = ("libQnnHtp.so", "libQnnSystem.so", "libQnnHtpPrepare.so", "libQnnCpu.so", "libQnnGpu.so")
HOST_LIBRARIES = ("libQnnHtp.so", "libQnnSystem.so", "libQnnCpu.so")
# The first is what MNN's offline route and context binaries need.
HOST_TOOLS = (
    "qnn-context-binary-generator",
    "qnn-onnx-converter",
    "qnn-model-lib-generator",
    "qnn-net-run",
)
PHONE_TOOLS = ("qnn-net-run",)
# Debian's and Ubuntu's names of the packages with libraries that the SDK's programs load.
_PACKAGES = {"libc++.so.1": "libc++1", "libc++abi.so.1": "libc++abi1", "libunwind.so.1": "libunwind-14",
             "libatomic.so.1": "libatomic1", "libgomp.so.1": "libgomp1"}  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One link. `state` is ok, warning, broken or "not needed"."""

    name: str
    state: str
    text: str
    evidence: str | None = None
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_sdk(sdk: QnnSdk, *, scripts: bool = True) -> list[Check]:
    """Look at everything; never changes anything.

    Args:
        scripts: also run the SDK's own checks (some seconds).
    """
    checks = [*_headers(sdk), *_phone_libraries(sdk), *_hexagon(sdk), *_host(sdk), *_python(sdk)]
    if scripts:
        checks += _scripts(sdk)
    return checks


def _headers(sdk: QnnSdk) -> Iterator[Check]:
    if not (sdk.path / HEADER).is_file():
        yield Check("headers", BROKEN, f"{HEADER} missing", str(sdk.path), "reinstall the SDK")
        return
    header = sdk.path / "include/QNN/QnnSdkBuildId.h"
    built = (
        re.search(r'"v?(\d+\.\d+\.\d+)', header.read_text("utf-8", "replace")) if header.is_file() else None
    )
    if built and not sdk.version.startswith(built.group(1)):
        yield Check(
            "headers", WARNING, f"the headers are of {built.group(1)}, the SDK says {sdk.version}",
            str(header), "two SDKs were mixed in one folder: reinstall it",
        )  # fmt: skip
    else:
        yield Check("headers", OK, f"include/QNN of {sdk.version}")
    found = re.match(r"(\d+)\.(\d+)", sdk.version)
    if found and (int(found.group(1)), int(found.group(2))) < OLDEST_FOR_MNN:
        yield Check(
            "version", WARNING, f"{sdk.version} is older than MNN's QNN backend wants",
            "MNN is documented with 2.38; 2.30 fails to compile in one file",
            "devkit qnn sdk install 2.42.0.251225",
        )  # fmt: skip


def _phone_libraries(sdk: QnnSdk) -> Iterator[Check]:
    folder = sdk.path / "lib" / PHONE_TARGET
    missing = [name for name in PHONE_LIBRARIES if not (folder / name).is_file()]
    if not folder.is_dir():
        yield Check(
            "phone libraries", BROKEN, f"lib/{PHONE_TARGET} missing", str(sdk.path), "reinstall the SDK"
        )
    elif {"libQnnHtp.so", "libQnnSystem.so"} & set(missing):
        yield Check(
            "phone libraries", BROKEN, f"lib/{PHONE_TARGET} lacks {', '.join(missing)}", str(folder),
            "reinstall the SDK",
        )  # fmt: skip
    elif missing:
        yield Check("phone libraries", WARNING, f"lib/{PHONE_TARGET} lacks {', '.join(missing)}", str(folder),
                    "these backends will not run on the phone")  # fmt: skip
    else:
        yield Check("phone libraries", OK, f"lib/{PHONE_TARGET}: CPU, GPU and HTP")


def _hexagon(sdk: QnnSdk) -> Iterator[Check]:
    """Each HTP architecture needs a stub for the phone's CPU and a skel for its DSP."""
    stubs = {
        found.group(1)
        for file in (sdk.path / "lib" / PHONE_TARGET).glob("libQnnHtpV*Stub.so")
        if (found := re.fullmatch(r"libQnnHtpV(\d+)Stub\.so", file.name))
    }
    skels = {
        found.group(1)
        for file in (sdk.path / "lib").glob("hexagon-v*/unsigned/libQnnHtpV*Skel.so")
        if (found := re.fullmatch(r"libQnnHtpV(\d+)Skel\.so", file.name))
        and file.parts[-3] == f"hexagon-v{found.group(1)}"
    }
    both = sorted(stubs & skels, key=int)
    lonely = [f"v{v} has no skel" for v in sorted(stubs - skels, key=int)]
    lonely += [f"v{v} has no stub" for v in sorted(skels - stubs, key=int)]
    names = ", ".join(f"v{v}" for v in both)
    if not both:
        yield Check(
            "hexagon", BROKEN, "no HTP architecture has both a stub and a skel",
            "; ".join(lonely) or str(sdk.path / "lib"), "reinstall the SDK",
        )  # fmt: skip
    elif lonely:
        yield Check("hexagon", WARNING, f"HTP {names}; incomplete: {', '.join(lonely)}",
                    str(sdk.path / "lib"), "reinstall the SDK")  # fmt: skip
    else:
        yield Check("hexagon", OK, f"HTP {names}")


def _host(sdk: QnnSdk) -> Iterator[Check]:
    """Qualcomm's tools run on x86_64 only; building for the phone needs none of them."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        here = f"{platform.system()} {platform.machine()}"
        hint = "convert models on a Linux x86_64 machine"
        yield Check("host tools", NOT_NEEDED, f"the SDK's tools do not run on {here}", hint=hint)
        return
    groups = (("bin", HOST_TARGET, HOST_TOOLS), ("lib", HOST_TARGET, HOST_LIBRARIES),
              ("bin", PHONE_TARGET, PHONE_TOOLS))  # fmt: skip
    missing = [
        f"{kind}/{target}/{name}"
        for kind, target, names in groups
        for name in names
        if not (sdk.path / kind / target / name).is_file()
    ]
    if missing:
        yield Check("host tools", WARNING, f"missing: {', '.join(missing)}", str(sdk.path),
                    "needed for converting models, not for building the engine")  # fmt: skip
    else:
        yield Check("host tools", OK, f"bin/{HOST_TARGET}: " + ", ".join(HOST_TOOLS))
    yield from _loadable(sdk)


def _loadable(sdk: QnnSdk) -> Iterator[Check]:
    """Whether the dynamic linker finds everything that the SDK's programs load here."""
    candidates = [sdk.path / "bin" / HOST_TARGET / name for name in HOST_TOOLS]
    candidates += [sdk.path / "lib" / HOST_TARGET / name for name in HOST_LIBRARIES]
    candidates += sorted((sdk.path / "lib/python").rglob("linux-x86_64/*.so"))
    files = [file for file in candidates if _is_elf(file)]
    ldd = shutil.which("ldd")
    if not files or ldd is None:
        return
    done = process.run([ldd, *files], env=tool_environment(sdk), check=False, timeout_s=LDD_TIMEOUT_S)
    missing = sorted(set(re.findall(r"^\s*(\S+) => not found", done.text, re.MULTILINE)))
    # An interpreter's library comes with the interpreter: the Python check speaks of it.
    missing = [name for name in missing if not name.startswith("libpython")]
    said = done.text + done.stderr.decode("utf-8", "replace")
    too_new = sorted(set(re.findall(r"version `((?:GLIBC|GLIBCXX)_[\d.]+)' not found", said)))
    evidence = f"ldd of {len(files)} files of the SDK"
    if missing:
        packages = [_PACKAGES[name] for name in missing if name in _PACKAGES]
        hint = f"sudo apt install {' '.join(packages)}" if packages else "find the packages that bring them"
        text = f"not on this machine: {', '.join(missing)}"
        yield Check("host libraries", WARNING, text, evidence, hint)
    elif too_new:
        text = f"this machine's C or C++ library is too old: {', '.join(too_new)} missing"
        hint = "use a newer distribution (Ubuntu 22.04 or later) or a container"
        yield Check("host libraries", WARNING, text, evidence, hint)
    else:
        yield Check("host libraries", OK, "everything that the SDK's programs load is here")


def _python(sdk: QnnSdk) -> Iterator[Check]:
    versions = converter_python(sdk)
    if not versions:
        has_any = (sdk.path / "lib/python").is_dir()
        text = "lib/python does not tell which Python it wants" if has_any else "the SDK has no converters"
        yield Check("converters' python", NOT_NEEDED, text)
        return
    wanted, newest = " or ".join(versions), versions[-1]
    found = next((python for version in versions if (python := find_python(version))), None)
    if found is None:
        yield Check(
            "converters' python", WARNING, f"the converters want Python {wanted}, which is not here",
            ", ".join(f"python{v} is not on PATH" for v in versions),
            f"sudo apt install python{newest} python{newest}-venv   (or: uv python install {newest})",
        )  # fmt: skip
    else:
        yield Check("converters' python", OK, f"the converters want Python {wanted}: {found}",
                    hint="devkit qnn sdk venv   makes their environment")  # fmt: skip


def _scripts(sdk: QnnSdk) -> Iterator[Check]:
    try:
        dependencies = run_dependency_script(sdk)
    except DevkitError as error:
        yield Check("check-linux-dependency.sh", WARNING, error.what, error.evidence)
    else:
        if dependencies is None:
            yield Check("check-linux-dependency.sh", NOT_NEEDED, "this SDK has none")
        elif dependencies.would_install or dependencies.missing:
            wanted = ", ".join(dependencies.would_install or dependencies.missing)
            packages = " ".join(dependencies.would_install)
            yield Check(
                "check-linux-dependency.sh", WARNING, f"missing on this machine: {wanted}", dependencies.tail,
                f"sudo apt install {packages}" if packages else f"sudo {dependencies.script}",
            )  # fmt: skip
        elif dependencies.exit_code:
            yield Check("check-linux-dependency.sh", WARNING, f"it ended with {dependencies.exit_code}",
                        dependencies.tail, f"sudo {dependencies.script}")  # fmt: skip
        else:
            yield Check("check-linux-dependency.sh", OK, "nothing is missing", dependencies.tail)
    try:
        sections = run_envcheck(sdk)
    except DevkitError as error:
        yield Check("envcheck", WARNING, error.what, error.evidence)
        return
    if sections is None:
        yield Check("envcheck", NOT_NEEDED, "this SDK has none")
    for section in sections or ():
        state = OK if section.ok else WARNING
        yield Check(f"envcheck: {section.name}", state, section.text or "it says nothing",
                    hint=None if section.ok else "only needed for converting such models")  # fmt: skip


def first_broken(checks: Sequence[Check]) -> Check | None:
    """The first check that makes the SDK useless for building."""
    return next((check for check in checks if check.state == BROKEN), None)


def _is_elf(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(4) == b"\x7fELF"
    except OSError:
        return False
