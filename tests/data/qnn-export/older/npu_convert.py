"""Stands for MNN's npu_convert.py of winter 2025: shell strings, one config for all graphs (for tests)."""

import json
import os
import sys

sdk = os.environ["QNN_SDK_ROOT"]
print(sdk)
with open(sys.argv[1]) as file:
    plan = json.load(file)
soc_id, arch = int(sys.argv[2]), sys.argv[3]
print("soc_id:", soc_id, "; dsp_arch:", arch)
tools = sdk + "/bin/x86_64-linux-clang/"
for key, sources in plan["merge"].items():
    libraries, names = [], []
    for source in sources:
        name, folder = source.split("/")[-1], os.getcwd() + "/" + source
        os.system(f"cd {folder} && tar -cf {name}.bin *.raw && rm *.raw")
        command = f"-c {folder}/{name}.cpp -b {folder}/{name}.bin -t x86_64-linux-clang -o {folder}"
        print(os.popen(f"python3 {tools}qnn-model-lib-generator {command} 2>&1").read())
        libraries.append(f"{folder}/x86_64-linux-clang/lib{name}.so")
        names.append(name)
    with open("htp_backend_extensions.json", "w") as file:
        json.dump(
            {"graphs": [{"graph_names": names}], "devices": [{"soc_id": soc_id, "dsp_arch": arch}]}, file
        )
    with open("context_config.json", "w") as file:
        json.dump({"backend_extensions": {"config_file_path": "./htp_backend_extensions.json"}}, file)
    binary = key.split("/")[-1].replace(".bin", "")
    command = f"--model {','.join(libraries)} --backend {sdk}/lib/x86_64-linux-clang/libQnnHtp.so"
    command += f" --binary_file {binary} --config_file context_config.json --output_dir {plan['cache']}"
    print(os.popen(f"{tools}qnn-context-binary-generator {command} 2>&1").read())
    for source in sources:
        os.system("rm -rf " + os.getcwd() + "/" + source)
