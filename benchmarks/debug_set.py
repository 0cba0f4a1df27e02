"""A debug build as an engine's is, without the engine: generated sources, real compiler, real DWARF.

Its proportions are those of MNN's Debug libMNN.so for Android: 217 MB, of which 33.8 MB are left without
debug information and 20.2 MB without symbols; `adb push` of it sends less than half of its bytes.
What makes them: a header of thousands of structs in every unit (MNN: its schema), small functions with
long names, and hidden symbols.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devkit import paths

LIBRARIES, UNITS, STRUCTS, FUNCTIONS = 4, 9, 4500, 2200
_HEADERS_TEXT = """\
algorithm cmath functional map memory mutex sstream string unordered_map vector"""
_HEADERS = _HEADERS_TEXT.split()
_WORDS_TEXT = """\
accumulate align anchor attention axis backend batch bias block bound buffer cache channel clamp
column compute config convert data decode depth dequant dilate dim dispatch dtype embed encode
epsilon expand feature fill filter flatten fuse gate gather gemm grad group half head height hidden
host index inner input iter kernel key layer layout length linear load local loop loss mask matmul
matrix max mean memory merge min mode neon norm offset output outer pack pad param plane pointer
pool prefix proto quant query queue raster region reduce relu reorder repeat reshape resize row
runtime sample scale schedule seed shape shift sigmoid size slice softmax sort source split stack
stage state step stride sum target temp tensor thread tile token top total transpose update value
vector view weight width window winograd zero"""
_WORDS = _WORDS_TEXT.split()
_TYPES = (
    "int", "float", "double", "bool", "const char*", "std::string", "std::vector<int>", "std::vector<float>",
    "std::shared_ptr<int>", "std::map<std::string, int>", "unsigned char", "int16_t", "uint64_t",
    "std::function<void(int)>",
)  # fmt: skip
_FLAGS = ("-std=c++17", "-g", "-O0", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden")


def build() -> Path:
    """The program; its libraries libpart0.so … are beside it. Made once: compiling takes minutes."""
    folder = paths.cache_dir() / f"benchmarks/debug-set-{LIBRARIES}-{UNITS}-{STRUCTS}-{FUNCTIONS}"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "program"
    structs = _write(folder / "schema.h", _header(random.Random(1)))
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for unit in range(LIBRARIES * UNITS):
            workers.submit(_compile, folder, unit, structs, 0)
    for library in range(LIBRARIES):
        _link(folder, library)
    calls = [f"part_{unit}" for unit in range(LIBRARIES * UNITS)]
    source = "".join(f'extern "C" int {call}(int);\n' for call in calls)
    source += "int main() { return (" + " + ".join(f"{call}(1)" for call in calls) + ") == 0; }\n"
    _write(folder / "main.cpp", (source, []))
    names = [f"-lpart{number}" for number in range(LIBRARIES)]
    subprocess.run([compiler(), "-g", folder / "main.cpp", "-o", program, f"-L{folder}", *names], check=True)
    return program


def change(folder: Path, library: int, *, salt: int) -> Path:
    """Change one function of one source of a library and build it again; returns the library."""
    structs = _header(random.Random(1))[1]
    _compile(folder, library * UNITS, structs, salt)
    return _link(folder, library)


def compiler() -> str:
    """The C++ compiler of this machine."""
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise SystemExit("this benchmark needs a C++ compiler")
    return found


def _compile(folder: Path, unit: int, structs: list[str], salt: int) -> None:
    source, made = folder / f"part{unit}.cpp", folder / f"part{unit}.o"
    text = _unit(random.Random(unit + 100), unit, structs, salt)
    if made.exists() and source.exists() and source.read_text() == text:
        return
    source.write_text(text)
    subprocess.run([compiler(), *_FLAGS, "-c", source, "-o", made], check=True)


def _link(folder: Path, library: int) -> Path:
    objects = [folder / f"part{library * UNITS + unit}.o" for unit in range(UNITS)]
    file = folder / f"libpart{library}.so"
    if not file.exists() or file.stat().st_mtime < max(made.stat().st_mtime for made in objects):
        subprocess.run(
            [compiler(), "-shared", *objects, "-o", file, f"-Wl,-soname,{file.name}", "-Wl,--build-id"],
            check=True,
        )
    return file


def _write(file: Path, made: tuple[str, list[str]]) -> list[str]:
    if not file.exists() or file.read_text() != made[0]:
        file.write_text(made[0])
    return made[1]


def _name(rng: random.Random, words: int) -> str:
    return "".join(word.capitalize() for word in rng.choices(_WORDS, k=words))


def _header(rng: random.Random) -> tuple[str, list[str]]:
    names: list[str] = []
    parts = ["#pragma once\n", *(f"#include <{header}>\n" for header in _HEADERS)]
    for number in range(STRUCTS):
        name = f"{_name(rng, 3)}{number}"
        body = [
            f"  {rng.choice(_TYPES)} m{_name(rng, rng.randint(1, 3))}{field};\n"
            for field in range(rng.randint(4, 14))
        ]
        body += [
            f"  {rng.choice(_TYPES)} {_name(rng, rng.randint(2, 3))}{method}"
            f"({rng.choice(_TYPES)} x{_name(rng, 1)}, {rng.choice(_TYPES)} y{_name(rng, 1)}) const;\n"
            for method in range(rng.randint(2, 9))
        ]
        if names:
            body.append(f"  {rng.choice(names)}* m{_name(rng, 1)}Next;\n")
        kinds = ", ".join(
            f"{_name(rng, 2)}{kind} = {rng.randint(0, 9999)}" for kind in range(rng.randint(2, 8))
        )
        parts.append(f"struct {name} {{\n{''.join(body)}  enum Kind {{ {kinds} }};\n}};\n")
        names.append(name)
    return "".join(parts), names


def _unit(rng: random.Random, unit: int, structs: list[str], salt: int) -> str:
    members = "".join(f"  {struct}* v{number};\n" for number, struct in enumerate(structs))
    parts = [f'#include "schema.h"\nnamespace Engine {{ namespace Unit{unit} {{\n']
    # A compiler writes nothing of types that are not used.
    parts.append(f"struct Everything {{\n{members}}};\n")
    names = []
    for number in range(FUNCTIONS):
        name = f"{_name(rng, 3)}{number}"
        names.append(name)
        data, all_, sum_ = (f"x{_name(rng, 2)}{end}" for end in "abc")
        parts.append(
            f"int {name}(const std::vector<float>& {data}, Everything* {all_}) {{\n"
            f"  float {sum_} = {rng.random()}f; int steps = {rng.randint(1, 999)};\n"
        )
        for _ in range(rng.randint(0, 2)):
            parts.append(_statement(rng, data, all_, sum_, len(structs)))
        parts.append(f"  return steps + int({sum_});\n}}\n")
    calls = " + ".join(f"{name}(in, &all)" for name in names)
    parts.append(
        f"}} }}\nusing namespace Engine::Unit{unit};\n"
        f'extern "C" __attribute__((visibility("default"))) int part_{unit}(int n) {{\n'
        f"  std::vector<float> in(n, 1.f); Everything all{{}}; return {calls} + {salt};\n}}\n"
    )
    return "".join(parts)


def _statement(rng: random.Random, data: str, all_: str, sum_: str, structs: int) -> str:
    value = f"v{_name(rng, 2)}"
    return rng.choice(
        [
            f"  for (size_t i = {rng.randint(0, 9)}; i < {data}.size(); i += {rng.randint(1, 9)}) {{ "
            f"float {value} = {data}[i] * {rng.randint(2, 999)}.f; {sum_} += {value}; "
            f"steps ^= {rng.randint(1, 99999)}; }}\n",
            f"  if ({sum_} > {rng.randint(1, 99999)}.f) {{ int {value} = steps * {rng.randint(3, 99)}; "
            f"{sum_} -= {value}; }}\n",
            f"  {sum_} = std::fabs({sum_} * {rng.random()}f - steps);\n",
            f"  if ({all_} != nullptr && {all_}->v{rng.randrange(structs)} != nullptr) "
            f"steps += {rng.randint(1, 99999)};\n",
        ]
    )
