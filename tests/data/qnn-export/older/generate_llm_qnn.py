"""Stands for MNN's script of winter 2025: few arguments, goes on after failures, ends with 0 (for tests)."""

import argparse
import json
import os
import shutil


def main():
    parser = argparse.ArgumentParser(description="generate_llm_qnn")
    parser.add_argument("--model", required=True)
    parser.add_argument("--soc_id", type=int, required=True)
    parser.add_argument("--dsp_arch", required=True)
    parser.add_argument("--mnn_path", default="../../../build/")
    parser.add_argument("--cache_path", default="tmp")
    parser.add_argument("--chunk_size", type=int, default=128)
    args = parser.parse_args()
    work = os.getcwd()
    cache = os.path.join(work, args.cache_path)
    os.makedirs(cache, exist_ok=True)

    def run(command):
        # As there: what it printed comes at its end, and its exit code is thrown away.
        print(os.popen(f"cd {cache}; {command} 2>&1").read())

    exe = os.path.join(work, args.mnn_path, "generateLlmIO")
    print("Step1: Make IO")
    run(f"{exe} {work}/{args.model} {cache}/testdir {args.chunk_size}")
    print("Step2: Seperate Model")
    wanted = {"type": "QNN", "testdir": ["testdir/1", f"testdir/{args.chunk_size}"], "cache": "qnn"}
    with open(os.path.join(cache, "qnn.json"), "w") as file:
        json.dump(wanted, file)
    exe = os.path.join(work, args.mnn_path, "compilefornpu")
    run(f"{exe} {work}/{args.model}/llm.mnn qnn/llm.mnn qnn.json")
    print("Step3: Compile to QNN")
    exe = os.path.join(work, args.mnn_path, "..", "source", "backend", "qnn", "npu_convert.py")
    run(f"python3 {exe} npu_postreat.json {args.soc_id} {args.dsp_arch}")
    print("Step4: Move result file to ", args.model)
    target = os.path.join(args.model, "qnn")
    if os.path.exists(target):
        shutil.rmtree(target)
    if os.path.exists(os.path.join(cache, "qnn")):
        shutil.move(os.path.join(cache, "qnn"), target)
    config = {"llm_model": "qnn/llm.mnn", "backend_type": "cpu", "chunk_limits": [args.chunk_size, 1]}
    with open(os.path.join(args.model, "config_qnn.json"), "w") as file:
        json.dump(config, file)
    shutil.rmtree(cache)
    print("End")


main()
