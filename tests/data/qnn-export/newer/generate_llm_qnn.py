"""Stands for MNN's script of summer 2026: its arguments, steps, files and traps (written for tests)."""

import argparse
import json
import os
import shutil
import subprocess
import time


def here(*parts):
    return os.path.join(os.getcwd(), *parts)


def call(command, cwd):
    # As there: one unquoted string for a shell.
    child = subprocess.Popen(
        command, shell=True, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    for line in child.stdout:
        print(line, end="")
    return child.wait()


def step(number, title, command, cwd, program):
    began = time.time()
    print(f"Step{number}: {title}")
    if call(command, cwd) != 0:
        raise RuntimeError(program + " failed")
    print("Cost: ", time.time() - began, " s")


def main():
    parser = argparse.ArgumentParser(description="generate_llm_qnn")
    parser.add_argument("--model", required=True)
    parser.add_argument("--soc_id", type=int, required=True)
    parser.add_argument("--dsp_arch", required=True)
    parser.add_argument("--mnn_path", default="../../../build/")
    parser.add_argument("--cache_path", default="tmp")
    parser.add_argument("--chunk_size", type=int, default=128)
    parser.add_argument("--vtcm_mb", type=int, default=8)
    parser.add_argument("--max_history_token", type=int, default=0)
    parser.add_argument("--model_name", default="llm.mnn")
    parser.add_argument("--reuse_config_qnn_json", type=bool, default=False)
    args = parser.parse_args()

    cache = here(args.cache_path)
    os.makedirs(cache, exist_ok=True)
    with open(here(args.model, "llm_config.json")) as file:
        hidden = json.load(file).get("hidden_size")
    if hidden is None:
        print("no hidden_size")
        return
    shapes = [{"inputs": [{"name": "input_ids", "shape": [n, 1, hidden]}]} for n in (args.chunk_size, 1)]
    with open(os.path.join(cache, "input.json"), "w") as file:
        json.dump({"configs": shapes}, file)
    model = here(args.model, args.model_name)
    exe = here(args.mnn_path, "generateIO")
    weight = model + ".weight"
    outputs = os.path.join(cache, "testdir")
    step(1, "Make IO", f"{exe} {model} {cache}/input.json {outputs} {weight}", cache, "generateIO")
    wanted = {
        "type": "QNN",
        "testdir": ["testdir/0", "testdir/1"],
        "KVCACHE_SIZE_LIMIT": args.max_history_token,
        "cache": "qnn",
        "graph_name": "graphllm" if args.model_name == "llm.mnn" else "graphvisual",
    }
    with open(os.path.join(cache, "qnn.json"), "w") as file:
        json.dump(wanted, file)
    exe = here(args.mnn_path, "compilefornpu")
    step(2, "Seperate Model", f"{exe} {model} qnn/{args.model_name} qnn.json", cache, "compilefornpu")
    exe = here(args.mnn_path, "..", "source", "backend", "qnn", "npu_convert.py")
    command = f"python3 {exe} npu_postreat.json {args.soc_id} {args.dsp_arch} {args.vtcm_mb}"
    step(3, "Compile to QNN", command, cache, "npu_convert.py")
    print("Step4: Move result file to ", args.model)
    target = os.path.join(args.model, "qnn")
    if os.path.exists(target):
        shutil.rmtree(target)
        shutil.move(os.path.join(args.cache_path, "qnn"), target)
    else:
        raise SystemExit("gigabytes would be copied here: the result's folder was to be there")
    with open(os.path.join(args.model, "config.json")) as file:
        config = json.load(file)
    config.pop("tokenizer_file", None)
    if args.model_name == "llm.mnn":
        config["llm_model"] = "qnn/llm.mnn"
        config["chunk_limits"] = [args.chunk_size, 1]
    else:
        config["visual_model"] = "qnn/" + args.model_name
    with open(os.path.join(args.model, "config_qnn.json"), "w") as file:
        json.dump(config, file)
    shutil.rmtree(args.cache_path)
    print("End")


main()
