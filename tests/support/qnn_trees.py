"""QNN SDKs of small files in the layout of QAIRT 2.3x and later, with scripts that really run."""

from __future__ import annotations

from pathlib import Path

VERSION = "2.42.0.251225"
ARCHITECTURES = ("68", "73", "75", "79", "81")

TOOLS = ("qnn-context-binary-generator", "qnn-onnx-converter", "qnn-model-lib-generator", "qnn-net-run")

# The shape of envcheck's output as users have published it; the parts are this machine's.
ENVCHECK = """#!/bin/bash
line=--------------------------------------------------------------
[ "$1" = -a ] || exit 2
printf 'Checking Android NDK Environment\\n%s\\n' $line
echo "[INFO] Found ndk-build at /opt/ndk/ndk-build and ANDROID_NDK_ROOT is also set."
printf '%s\\n\\nChecking Clang Environment\\n%s\\n' $line $line
printf '\\033[32m[INFO] Found clang++ at /usr/bin/clang++\\033[0m\\n'
printf '%s\\n\\nChecking ONNX Environment\\n%s\\n' $line $line
echo "[ERROR] Unable to import onnx using python3."
printf '%s\\n\\nChecking PyTorch Environment\\n%s\\n' $line $line
echo "PyTorch is set-up successfully"
echo $line
"""

# As the SDK's: it looks with dpkg and installs what is missing with sudo apt-get, asking nobody.
DEPENDENCIES = """#!/bin/bash
for package in devkit-no-such-package another-one; do
  if ! dpkg -s "$package" > /dev/null 2>&1; then
    echo "$package is missing, installing"
    sudo apt-get install -y "$package" || exit 1
  fi
done
apt-get update
echo 'Done!!'
"""


def make_sdk(root: Path, version: str = VERSION, *, build_id: str | None = None) -> Path:
    """A complete SDK in `root`."""
    phone, host = root / "lib/aarch64-android", root / "lib/x86_64-linux-clang"
    files = {
        "sdk.yaml": f"version: {'.'.join(version.split('.')[:3])}\nbuild_id: {build_id or version}\n",
        "include/QNN/QnnInterface.h": "#pragma once\n",
        "include/QNN/QnnSdkBuildId.h": f'#define QNN_SDK_BUILD_ID "v{version}_110000"\n',
        "bin/envsetup.sh": "# sourced\n",
        "bin/aarch64-android/qnn-net-run": "phone's\n",
        "benchmarks/QNN/README": "\n",
        "lib/python/qti/aisw/converters/common/linux-x86_64/libPyIrGraph310.so": "module\n",
        "lib/python/qti/aisw/converters/common/windows-x86_64/libPyIrGraph312.so": "module\n",
    }
    for name in ("libQnnHtp", "libQnnSystem", "libQnnHtpPrepare", "libQnnCpu", "libQnnGpu"):
        files[f"lib/aarch64-android/{name}.so"] = "phone's\n"
    for name in ("libQnnHtp", "libHtpPrepare", "libQnnSystem", "libQnnCpu"):
        files[f"lib/x86_64-linux-clang/{name}.so"] = "host's\n"
    for v in ARCHITECTURES:
        files[f"lib/aarch64-android/libQnnHtpV{v}Stub.so"] = "stub\n"
        files[f"lib/hexagon-v{v}/unsigned/libQnnHtpV{v}Skel.so"] = "skel\n"
    for tool in (
        "qnn-context-binary-generator",
        "qnn-onnx-converter",
        "qnn-model-lib-generator",
        "qnn-net-run",
    ):
        files[f"bin/x86_64-linux-clang/{tool}"] = f"#!/bin/sh\necho {tool}\n"
    files["bin/envcheck"] = ENVCHECK
    files["bin/check-linux-dependency.sh"] = DEPENDENCIES
    for folder in (phone, host):
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(0o755)
    return root
