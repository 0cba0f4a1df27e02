"""Stands for MNN's npu_convert.py of summer 2026: argument lists, a config for each graph (for tests)."""

import json
import os
import subprocess
import sys

sdk = os.environ["QNN_SDK_ROOT"]
print(sdk)
with open(sys.argv[1]) as file:
    plan = json.load(file)
soc_id, arch, vtcm = int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
print("soc_id:", soc_id, "; dsp_arch:", arch, "; vtcm_mb:", vtcm)
tools = os.path.join(sdk, "bin", "x86_64-linux-clang")


def call(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    print(done.stdout + done.stderr, flush=True)
    if done.returncode:
        raise RuntimeError("failed: " + " ".join(command))


for index, (key, sources) in enumerate(plan["merge"].items()):
    libraries, names = [], []
    for source in sources:
        name, folder = source.split("/")[-1], os.path.abspath(source)
        raws = sorted(f for f in os.listdir(folder) if f.endswith(".raw"))
        call("tar", "-cf", name + ".bin", *raws, cwd=folder)
        call("rm", *raws, cwd=folder)
        command = ["-c", f"{folder}/{name}.cpp", "-b", f"{folder}/{name}.bin", "-t", "x86_64-linux-clang"]
        call("python3", os.path.join(tools, "qnn-model-lib-generator"), *command, "-o", folder)
        libraries.append(f"{folder}/x86_64-linux-clang/lib{name}.so")
        names.append(name)
    inner, outer = os.path.abspath(f"htp_{index}.json"), os.path.abspath(f"context_{index}.json")
    devices = [{"soc_id": soc_id, "dsp_arch": arch}]
    with open(inner, "w") as file:
        json.dump({"graphs": [{"graph_names": names, "vtcm_mb": vtcm}], "devices": devices}, file)
    with open(outer, "w") as file:
        json.dump({"backend_extensions": {"config_file_path": inner}}, file)
    call(
        os.path.join(tools, "qnn-context-binary-generator"),
        "--model", ",".join(libraries),
        "--backend", os.path.join(sdk, "lib/x86_64-linux-clang/libQnnHtp.so"),
        "--binary_file", key.split("/")[-1].replace(".bin", ""),
        "--config_file", outer,
        "--output_dir", plan["cache"],
    )  # fmt: skip
    for source in sources:
        call("rm", "-rf", os.path.abspath(source))
