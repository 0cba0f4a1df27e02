"""A checkout with MNN's export script of two generations, and an SDK whose tools for this machine really run.

The tools read and write the files of Qualcomm's: a library says which sources it was made of, a context
binary which chip and libraries. STANDIN_FAIL makes them fail, STANDIN_LOG takes a line of each call.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.support.qnn_trees import make_sdk

DATA = Path(__file__).parents[1] / "data"

_COMMON = """#!/usr/bin/env python3
import hashlib, json, os, sys, tarfile, time
def option(*names):
    return next(sys.argv[i + 1] for i, word in enumerate(sys.argv) if word in names)
def log(what):
    if os.environ.get("STANDIN_LOG"):
        with open(os.environ["STANDIN_LOG"], "a") as file:
            file.write(f"{time.time():.6f} {what}\\n")
def fails(what):
    return what in os.environ.get("STANDIN_FAIL", "").split()
assert os.environ["QNN_SDK_ROOT"] in os.path.abspath(sys.argv[0]), "another SDK's variables"
"""
_LIBRARY = (
    _COMMON
    + """
code, weights = option("-c"), option("-b")
name = os.path.basename(code)[:-4]
log("library " + name)
if fails("library:" + name):
    print("error: no matching function for call to 'addNode'")
    sys.exit(1)
with tarfile.open(weights) as archive:
    content = b"".join(archive.extractfile(member).read() for member in archive)
folder = os.path.join(option("-o"), option("-t"))
os.makedirs(folder, exist_ok=True)
said = hashlib.sha256(open(code, "rb").read() + content).hexdigest()
with open(os.path.join(folder, "lib" + name + ".so"), "w") as file:
    file.write(json.dumps({"graph": name, "of": said, "bytes": len(content)}))
"""
)
_CONTEXT = (
    _COMMON
    + """
CHIPS = {57: "SM8650", 69: "SM8750", 43: "SM8550"}
name = option("--binary_file")
log("begin " + name)
with open(option("--config_file")) as file:
    inner = json.load(file)["backend_extensions"]["config_file_path"]
with open(inner) as file:
    config = json.load(file)
device, graphs = config["devices"][0], config["graphs"][0]
libraries = [json.load(open(path)) for path in option("--model").split(",")]
assert [library["graph"] for library in libraries] == graphs["graph_names"], (libraries, graphs)
if fails("context:" + name):
    print("[ERROR] Failed to finalize graph (id: 1) with err 1002")
    sys.exit(1)
if os.environ.get("STANDIN_WAIT"):
    # Until somebody else has begun, or for long.
    end = time.monotonic() + float(os.environ["STANDIN_WAIT"])
    while time.monotonic() < end and open(os.environ["STANDIN_LOG"]).read().count("begin") < 2:
        time.sleep(0.01)
arch = "68" if fails("arch:" + name) else device["dsp_arch"].lstrip("v")
vtcm = graphs.get("vtcm_mb", 8) << 20
options = f"soc_type={CHIPS[device['soc_id']]};arch={arch};num_nsps=1;l2tcm_kb=0;vtcm_size={vtcm};"
content = json.dumps(libraries).encode()
head = b"\\0\\0\\0\\2\\0\\0\\0\\3".ljust(820, b"\\0") + b"v2.42.0.251225120000_1"
os.makedirs(option("--output_dir"), exist_ok=True)
with open(os.path.join(option("--output_dir"), name + ".bin"), "wb") as file:
    if not fails("empty:" + name):
        file.write(head + b"\\0" * 9000 + options.encode() + b"\\0" * 64 + content)
log("end " + name)
"""
)


def export_sdk(root: Path) -> Path:
    """An SDK with stand-ins for the tools of this machine."""
    make_sdk(root)
    for name, text in (("qnn-model-lib-generator", _LIBRARY), ("qnn-context-binary-generator", _CONTEXT)):
        (root / "bin/x86_64-linux-clang" / name).write_text(text)
    (root / "lib/x86_64-linux-clang/libQnnHtpNetRunExtensions.so").write_text("host's\n")
    return root


def checkout(folder: Path, generation: str) -> Path:
    """A checkout whose script is of one generation, and whose host programs can be built."""
    source = DATA / "qnn-export"
    for name, place in (
        ("CMakeLists.txt", "CMakeLists.txt"),
        ("tools.cpp", "tools.cpp"),
        ("../models/qnn/llm.mnn", "plugin-model.mnn"),
        (f"{generation}/generate_llm_qnn.py", "transformers/llm/export/npu/generate_llm_qnn.py"),
        (f"{generation}/npu_convert.py", "source/backend/qnn/npu_convert.py"),
    ):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, folder / place)
    return folder


def model_folder(folder: Path) -> Path:
    """The tiny model as llmexport.py leaves it."""
    shutil.copytree(DATA / "models/tiny-llm", folder)
    return folder


def libraries_of(context: Path) -> list[dict[str, object]]:
    """What a stand-in's context binary says that it was made of."""
    data = context.read_bytes()
    found: list[dict[str, object]] = json.loads(data[data.rindex(b'[{"graph"') :])
    return found
