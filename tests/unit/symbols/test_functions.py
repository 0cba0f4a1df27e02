"""Names of functions in symbol tables, held against what c++filt says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.errors import FileError
from devkit.symbols.functions import Functions, qualified_name, read_functions

SOURCE = r"""
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
enum class Kind { A, B };
namespace MNN {
template <Kind K, int N> struct Table { int at(std::vector<std::string> v) { return (int)v.size() + N; } };
namespace Transformer {
class Llm {
public:
    Llm(int x);
    ~Llm();
    bool load();
    bool operator==(const Llm&) const;
    std::string response(const std::map<int, std::function<void(int)>>& m) const;
    template <typename T> T get(std::unique_ptr<T> p) { return *p; }
    int x;
};
Llm::Llm(int x) : x(x) {}
Llm::~Llm() {}
bool Llm::load() { return get<int>(std::make_unique<int>(x)) > 3; }
bool Llm::operator==(const Llm& o) const { return x == o.x; }
std::string Llm::response(const std::map<int, std::function<void(int)>>& m) const {
    auto f = [&](int y) { return std::to_string(y + (int)m.size()); };
    return f(x);
}
}
namespace QNN { static int createQnnContext(int x) { return x * 3; }
int use(int x) { return createQnnContext(x); } }
namespace { int hidden(int x) { return x + 1; } }
int visible(int x) { Table<Kind::B, 4> t; return hidden(x) + t.at({}); }
}
static int plain(int x) { return x - 1; }
int call(int x) { return plain(x) + MNN::visible(x); }
extern "C" int with_c_name(int x) { return call(x); }
"""


def compiled(folder: Path, *options: str) -> Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler
    (folder / "a.cpp").write_text(SOURCE)
    library = folder / "liba.so"
    subprocess.run(
        [compiler, "-O0", "-fPIC", "-shared", *options, "-o", library, folder / "a.cpp"], check=True
    )
    return library


@pytest.mark.parametrize(
    "name",
    ["Llm::load", "MNN::Transformer::Llm::load", "Transformer::Llm::response", "Llm::Llm", "Llm::~Llm",
     "Llm::get", "QNN::createQnnContext", "createQnnContext", "hidden", "plain", "call",
     "with_c_name", "Table::at"],
)  # fmt: skip
def test_what_is_there_is_found(tmp_path: Path, name: str) -> None:
    assert read_functions([compiled(tmp_path)]).has(name)


@pytest.mark.parametrize(
    "name",
    [
        "Llm::loadx",
        "lm::load",
        "load::Llm",
        "Mnn::Transformer::Llm::load",
        "Kind::load",
        "Transformer",
        "printf",
    ],
)
def test_what_is_not_there_is_not_found(tmp_path: Path, name: str) -> None:
    assert not read_functions([compiled(tmp_path)]).has(name)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Llm::loads", "MNN::Transformer::Llm::load"),
        ("LLm::load", "MNN::Transformer::Llm::load"),
        ("QnnWrapper::createQnnContext", "MNN::QNN::createQnnContext"),
        ("Nothing::zzzzzz", None),
    ],
)
def test_the_nearest_function(tmp_path: Path, name: str, nearest: str | None) -> None:
    assert read_functions([compiled(tmp_path)]).nearest(name) == nearest


def test_every_name_is_what_cxxfilt_says(tmp_path: Path) -> None:
    tool = shutil.which("c++filt") or shutil.which("llvm-cxxfilt")
    assert tool
    functions = read_functions([compiled(tmp_path)])
    symbols = sorted(s for s in functions.mangled if s.startswith("_Z"))
    done = subprocess.run([tool, "-p"], input="\n".join(symbols), text=True, capture_output=True, check=True)
    compared = 0
    for symbol, text in zip(symbols, done.stdout.splitlines(), strict=True):
        own = qualified_name(symbol)
        if own is not None:
            plain = re.sub(r"\[abi:\w+\]", "", text.partition(" [clone")[0])
            while (shorter := re.sub(r"<[^<>]*>", "", plain)) != plain:
                plain = shorter
            plain = plain.split(" ")[-1].replace("(anonymous namespace)", "_GLOBAL__N_1")
            assert own.split("::")[-1] == plain.split("::")[-1], (symbol, text)
            compared += 1
    assert compared > 0.8 * len(symbols) and compared > 50


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN3MNN11Transformer3Llm4loadEv", "MNN::Transformer::Llm::load"),
        ("_ZN3MNN3QNNL16createQnnContextEv.constprop.0", "MNN::QNN::createQnnContext"),
        ("_ZN3MNN3QNNL16createQnnContextEv.cold", None),
        ("_ZN3MNN12_GLOBAL__N_14nameB5cxx11Ev", "MNN::_GLOBAL__N_1::name"),
        ("_ZN1AIL4Kind3ELb1ELin5EE3getIcEEvv", "A::get"),
        ("_ZNK3MNN1AcvbEv", None),
        ("_ZZ4mainENKUlvE_clEv", None),
        ("_ZThn16_N3MNN1A3runEv", None),
        ("main", "main"),
        ("_Z", None),
        ("_ZN3", None),
        ("_ZN99abcE", None),
        ("_ZN1AI", None),
        ("", None),
    ],
)
def test_mangled_names(symbol: str, name: str | None) -> None:
    assert qualified_name(symbol) == name


def test_a_stripped_file_shows_only_what_it_exports(tmp_path: Path) -> None:
    whole, stripped = compiled(tmp_path), tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    functions = read_functions([stripped])
    assert functions.stripped == [stripped]
    assert functions.has("Llm::load") and not functions.has("plain")
    assert read_functions([whole]).stripped == []


def test_what_is_no_elf_file(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no")
    for file in (text, tmp_path / "none"):
        with pytest.raises(FileError, match=file.name):
            read_functions([file])
    assert not Functions().has("main") and Functions().nearest("main") is None
