"""An SDK for the virtual phone with tools that really convert, compile and run a matrix product."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
TARGET = "x86_64-linux-clang"
VERSION = "2.42.0.251225"
BUILD_ID = f"v{VERSION}120000_1"
LIBRARIES = (
    "libQnnCpu.so", "libQnnGpu.so", "libQnnHtp.so", "libHtpPrepare.so", "libQnnSystem.so",
    "libQnnHtpNetRunExtensions.so",
)  # fmt: skip

_HEAD = """#!/usr/bin/env python3
import json, os, subprocess, sys, tarfile
def option(name, default=None):
    found = [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == name]
    return found[0] if found else default
if os.environ.get("STANDIN_LOG"):
    open(os.environ["STANDIN_LOG"], "a").write(os.path.basename(sys.argv[0]) + "\\n")
if os.environ.get("STANDIN_FAIL") == os.path.basename(sys.argv[0]):
    print("Loading\\nError: something is wrong with the graph\\nBye")
    sys.exit(0)
"""
# Reads ModelProto far enough to find the initializers.
_CONVERTER = (
    _HEAD
    + '''
def fields(data):
    at = 0
    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]; at += 1
            value |= (byte & 127) << shift; shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            size = number()
            yield key >> 3, data[at:at + size]; at += size
model = open(option("--input_network"), "rb").read()
graph = next(value for field, value in fields(model) if field == 7)
tensors = {}
for field, value in fields(graph):
    if field == 5:
        parts = list(fields(value))
        name = next(v for f, v in parts if f == 8).decode()
        tensors[name] = ([v for f, v in parts if f == 1], next(v for f, v in parts if f == 9))
inner, columns = tensors["B"][0]
target = option("--output_path")
folder = os.path.dirname(target)
for name, (_, data) in tensors.items():
    open(os.path.join(folder, name + ".raw"), "wb").write(data)
subprocess.run(["tar", "-cf", target[:-4] + ".bin", *(n + ".raw" for n in tensors)], cwd=folder, check=True)
open(target, "w").write(f"""#include <cstddef>
#include "weights.inc"
extern "C" size_t compute(const float* a, size_t count, float* y) {{
  if (count != {inner}) return 0;
  for (int j = 0; j < {columns}; ++j) {{
    y[j] = 0;
    for (int k = 0; k < {inner}; ++k) y[j] += a[k] * B[k * {columns} + j];
    y[j] += bias[j];
  }}
  return {columns};
}}
""")
'''
)
_GENERATOR = (
    _HEAD
    + """
import array
code, out = option("-c"), os.path.join(option("-o"), option("-t"))
name = os.path.basename(code)[:-4]
os.makedirs(out, exist_ok=True)
with tarfile.open(option("-b")) as archive, open(os.path.join(out, "weights.inc"), "w") as include:
    for member in archive:
        values = array.array("f", archive.extractfile(member).read())
        include.write(f"static const float {member.name[:-4]}[] = {{{','.join(map(repr, values))}}};\\n")
target = os.path.join(out, f"lib{name}.so")
subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-I", out, code, "-o", target], check=True)
"""
)
_COMPILER = (
    _HEAD
    + """
outer = json.load(open(option("--config_file")))["backend_extensions"]
assert os.path.isfile(outer["shared_library_path"])
inner = json.load(open(outer["config_file_path"]))
device, graph = inner["devices"][0], inner["graphs"][0]
assert option("--model").endswith("lib%s.so" % graph["graph_names"][0])
chip = {57: "SM8650", 69: "SM8750"}[device["soc_id"]]
options = f"soc_type={chip};arch={device['dsp_arch'][1:]};vtcm_size={graph['vtcm_mb'] << 20};"
head = b"\\0\\0\\0\\2".ljust(820, b"\\0") + b"v2.42.0.251225120000_1"
os.makedirs(option("--output_dir"), exist_ok=True)
with open(os.path.join(option("--output_dir"), option("--binary_file") + ".bin"), "wb") as file:
    file.write(head + b"\\0" * 99 + options.encode() + b"\\0LIBRARY:" + open(option("--model"), "rb").read())
"""
)
_VIEWER = (
    _HEAD
    + """
level = open(option("--input_log"), "rb").read().partition(b"profile\\0")[2].decode()
open(option("--output"), "w").write(
    "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\\n"
    f"1,NODE,6000,CYCLES,BACKEND,SUB-EVENT,MatMul_{level}:OpId_1 (cycles)\\n"
)
"""
)


def net_run_sdk(root: Path) -> Path:
    """Build it; takes some seconds."""
    for folder in ("include/QNN", f"lib/{TARGET}", f"bin/{TARGET}"):
        (root / folder).mkdir(parents=True)
    (root / "include/QNN/QnnInterface.h").write_text("#pragma once\n")
    (root / "sdk.yaml").write_text(f"version: 2.42.0\nbuild_id: {VERSION}\n")
    for name, text in (
        ("qnn-onnx-converter", _CONVERTER),
        ("qnn-model-lib-generator", _GENERATOR),
        ("qnn-context-binary-generator", _COMPILER),
        ("qnn-profile-viewer", _VIEWER),
    ):
        (root / "bin" / TARGET / name).write_text(text)
        (root / "bin" / TARGET / name).chmod(0o755)
    compiler = shutil.which("g++")
    assert compiler, "script/test installs a compiler"
    source = root / "library.c"
    source.write_text(
        f'__attribute__((used)) static const char build[] = "{BUILD_ID}";\nvoid nothing(void) {{}}\n'
    )
    first, *others = (root / "lib" / TARGET / name for name in LIBRARIES)
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", source, "-o", first], check=True, timeout=60)
    for other in others:
        shutil.copy(first, other)
    program = root / "bin" / TARGET / "qnn-net-run"
    subprocess.run([compiler, DATA / "qnn/net_run.cpp", "-o", program, "-ldl"], check=True, timeout=60)
    os.unlink(source)
    return root
