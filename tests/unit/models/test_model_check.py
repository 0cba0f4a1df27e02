"""`devkit model check`: a real model folder, broken in every way that has been seen, one at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devkit.errors import UsageError
from devkit.models import Finding, check_model
from devkit.models.keys import load_table

DATA = Path(__file__).parents[2] / "data/models"
TALKER = ("talker.mnn", "talker.mnn.weight", "talker_embeddings_bf16.bin")
QWEN3_TTS = (
    "talker_text_embeddings_bf16.bin", "code_predictor.mnn", "code_predictor.mnn.weight",
    "codec_embedder.mnn", "codec_embedder.mnn.weight", "speech_decoder.mnn", "speech_decoder.mnn.weight",
)  # fmt: skip


class Model:
    """A copy of the model folder, and short ways to change it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def set(self, file: str = "config.json", /, **values: Any) -> None:
        path = self.folder / file
        content = json.loads(path.read_text(encoding="utf-8"))
        for key, value in values.items():
            if value is ...:
                content.pop(key, None)
            else:
                content[key] = value
        path.write_text(json.dumps(content), encoding="utf-8")

    def findings(self, severity: str | None = None) -> list[Finding]:
        return [f for f in check_model(self.folder).findings if severity in (None, f.severity)]

    def only(self, severity: str) -> Finding:
        """The one finding there is, of this severity."""
        [finding] = self.findings()
        assert finding.severity == severity, finding
        return finding

    def cut(self, name: str, size: int) -> None:
        path = self.folder / name
        path.write_bytes(path.read_bytes()[:size])


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(Path(shutil.copytree(DATA / "tiny-llm", tmp_path / "我的 model")))


@pytest.fixture
def npu(model: Model) -> Model:
    """The same model as generate_llm_qnn.py leaves it."""
    shutil.copytree(DATA / "qnn", model.folder / "qnn")
    for number in (0, 1):
        (model.folder / f"qnn/graphllm{number}.bin").write_bytes(b"context" * 1000)
    config = json.loads((model.folder / "config.json").read_text())
    config |= {"llm_model": "qnn/llm.mnn", "llm_weight": "llm.mnn.weight", "chunk_limits": [128, 1]}
    (model.folder / "config_qnn.json").write_text(json.dumps(config))
    return model


def test_a_real_model_has_nothing_to_say(model: Model) -> None:
    report = check_model(model.folder)
    assert (report.findings, report.broken, report.configs) == ((), False, ("config.json",))
    assert report.as_dict()["status"] == "ok"


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("llm.mnn", "llm_model"),
        ("llm.mnn.weight", "llm_weight"),
        ("tokenizer.mtok", "tokenizer_file"),
        ("embeddings_bf16.bin", "embedding_file"),
        ("llm_config.json", "llm_config"),
    ],
)
def test_every_needed_file_is_missed(model: Model, file: str, key: str) -> None:
    (model.folder / file).unlink()
    missing = [f for f in model.findings("error") if f.key == key]
    assert [(f.file, "does not exist" in f.what) for f in missing] == [(file, True)]


def test_the_default_of_the_tokenizer_is_the_old_name(model: Model) -> None:
    # What llm_demo then prints: "[Error]: tokenizer file not found: …/tokenizer.txt", with exit code 0.
    model.set(tokenizer_file=...)
    finding = model.only("error")
    assert (finding.file, finding.key) == ("tokenizer.txt", "tokenizer_file")
    assert "where tokenizer_file is not set" in finding.what
    assert finding.hint == 'tokenizer.mtok is there: add "tokenizer_file": "tokenizer.mtok" in config.json'


@pytest.mark.parametrize(
    ("written", "there", "key"),
    [
        ("llm.mnn.weigth", "llm.mnn.weight", "llm_weight"),
        ("LLM.mnn", "llm.mnn", "llm_model"),
        ("lm.mnn", "llm.mnn", "llm_model"),
        ("tokeniser.mtok", "tokenizer.mtok", "tokenizer_file"),
        ("embeddings.bin", "embeddings_bf16.bin", "embedding_file"),
    ],
)
def test_the_nearest_file_is_named(model: Model, written: str, there: str, key: str) -> None:
    model.set(**{key: written})
    finding = model.only("error")
    assert (finding.file, finding.key) == (written, key)
    assert there in finding.hint
    if written.lower() == there:
        assert "case-sensitive" in finding.hint


def test_weights_that_are_cut_short_by_one_byte(model: Model) -> None:
    size = (model.folder / "llm.mnn.weight").stat().st_size
    model.cut("llm.mnn.weight", size - 1)
    finding = model.only("error")
    assert finding.file == "llm.mnn.weight"
    assert f"has {size - 1} bytes, but llm.mnn reads {size}" in finding.what


def test_a_graph_that_is_cut_short(model: Model) -> None:
    for size in (1, 3, 40, 5000, 100_000, 159_000):
        shutil.copy(DATA / "tiny-llm/llm.mnn", model.folder)
        model.cut("llm.mnn", size)
        [finding] = model.findings("error")
        assert finding.file == "llm.mnn", size
        assert not any(word in finding.what for word in ("unpack", "struct", "Error", "b'")), finding.what


def test_no_cut_of_the_graph_makes_devkit_fail(model: Model) -> None:
    whole = (DATA / "tiny-llm/llm.mnn").read_bytes()
    for size in range(0, len(whole), 997):
        (model.folder / "llm.mnn").write_bytes(whole[:size])
        check_model(model.folder)


def test_another_kind_of_file_in_place_of_the_graph(model: Model) -> None:
    (model.folder / "llm.mnn").write_bytes(b"\x7fELF\x02\x01\x01\0" + bytes(range(256)) * 40)
    [finding] = [f for f in model.findings("error") if f.file == "llm.mnn"]
    assert finding.what == (
        "is no MNN model, or not all of it (it points beyond its end (10248 bytes); "
        "its first bytes are 7f 45 4c 46 02 01 01 00)"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3300000000\n", "which has 3.3 GB"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("file", ["llm.mnn", "llm.mnn.weight", "tokenizer.mtok", "embeddings_bf16.bin"])
def test_what_is_no_file_of_the_model(model: Model, file: str, content: bytes, said: str) -> None:
    (model.folder / file).write_bytes(content)
    finding = model.only("error")
    assert (finding.file, said in finding.what) == (file, True), finding


def test_embeddings_of_another_size(model: Model) -> None:
    model.cut("embeddings_bf16.bin", 24575)
    assert "no whole number of rows of 128 bytes" in model.only("error").what
    model.cut("embeddings_bf16.bin", 12800)
    assert "embeddings of 100 tokens, but the model knows 192" in model.only("error").what
    shutil.copy(DATA / "tiny-llm/embeddings_bf16.bin", model.folder)
    model.set("llm_config.json", hidden_size=96)
    assert "embeddings of 128 tokens" in model.only("error").what


def test_embeddings_inside_the_weights_need_no_file(model: Model) -> None:
    (model.folder / "embeddings_bf16.bin").unlink()
    tied = {
        "weight_offset": 48000,
        "alpha_offset": 56000,
        "alpha_size": 600,
        "quant_bit": 8,
        "quant_block": 64,
    }
    model.set("llm_config.json", tie_embeddings=tied)
    assert model.findings() == []
    model.set("llm_config.json", tie_embeddings=[48000, 56000, 600, 8, 64])
    assert model.findings() == []
    model.set("llm_config.json", tie_embeddings=[48000, 56000, 700, 8, 64])
    assert "up to byte 56700" in model.only("error").what


def test_quantized_embeddings_without_their_numbers(model: Model) -> None:
    (model.folder / "embeddings_bf16.bin").rename(model.folder / "embeddings_int8.bin")
    model.set(embedding_file="embeddings_int8.bin")
    assert "without tie_embeddings they are read as bf16" in model.only("error").what


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"430 9\n", "type 9"),
        (b"{}\n", "Hugging Face"),
        (b"PK\x03\x04", "begin with 430"),
        (b"430 1\n", "text tokenizer"),
    ],
)
def test_tokenizers_of_other_kinds(model: Model, first: bytes, said: str) -> None:
    (model.folder / "tokenizer.mtok").write_bytes(first + b"x" * 100)
    [finding] = model.findings()
    assert finding.file == "tokenizer.mtok" and said in finding.what
    assert finding.severity == ("warning" if first == b"430 1\n" else "error")


@pytest.mark.parametrize(
    ("key", "value", "severity", "said"),
    [
        ("thread_num", "4", "error", 'write "thread_num": 4'),
        ("use_mmap", "true", "error", 'write "use_mmap": true'),
        ("use_mmap", "false", "warning", 'write "use_mmap": false'),
        ("temperature", "0.8", "error", 'write "temperature": 0.8'),
        ("max_new_tokens", 1.5, "error", 'write "max_new_tokens": 1.5'),
        ("temperature", 1, None, ""),
        ("tokenizer_file", 3, "error", ""),
        ("backend_type", "opencll", "error", "did you mean opencl?"),
        ("backend_type", "OpenCL", "error", "one of: cpu"),
        ("precision", "fp16", "warning", "one of: low, normal, high"),
        ("speculative_type", "eagel", "error", "did you mean eagle?"),
        ("sampler_type", "top_k", "warning", "did you mean topK?"),
        ("quant_qkv", 8, "note", "use attention_mode"),
        ("thread_num", 0, "error", "1 up to"),
        ("metal_device", 1, "note", ""),
        ("is_batch_quant", 1, None, ""),
        ("mixed_samplers", ["topK", "top_p"], "warning", "one of: penalty"),
    ],
)  # fmt: skip
def test_values(model: Model, key: str, value: Any, severity: str | None, said: str) -> None:
    model.set(**{key: value})
    found = [f for f in model.findings() if f.key == key]
    assert [f.severity for f in found][:1] == ([severity] if severity else []), found
    assert not severity or said in found[0].hint


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("backend", "backend_type"), ("threads_num", "thread_num"), ("threadNum", "thread_num"),
        ("max_new_token", "max_new_tokens"), ("chunk_limit", "chunk_limits"),
        ("tokenizer_files", "tokenizer_file"),
        ("reuse-kv", "reuse_kv"), ("llm_weights", "llm_weight"),
    ],
)  # fmt: skip
def test_unknown_keys_that_mean_another(model: Model, wrong: str, right: str) -> None:
    model.set(**{wrong: "x"})
    finding = model.only("warning" if wrong != "backend" else "note")
    assert finding.key == wrong
    if finding.severity == "warning":
        assert finding.hint == f"did you mean {right}?"


def test_what_is_read_below_mllm(model: Model) -> None:
    model.set(mllm={"backend_type": "cpu", "thread_num": "2", "max_new_tokens": 5, "precison": "low"})
    found = {f.key: f for f in model.findings()}
    assert found["mllm.thread_num"].severity == "error"
    assert "not read below mllm" in found["mllm.max_new_tokens"].what
    assert found["mllm.precison"].hint == "did you mean precision?"
    assert len(found) == 3


def test_llm_config_wins(model: Model) -> None:
    model.set("llm_config.json", thread_num=2)
    finding = model.only("warning")
    assert finding.what == "llm_config.json says 2 for thread_num, and wins over 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"llm_model": "llm.mnn",}', "line 1"),
        ('{\n // the model\n "llm_model": "llm.mnn"}', "line 2"),
        ("\ufeff{}", "byte order mark"),
        ("[]", "no object"),
        ("", "line 1"),
        ("[" * 100_000, ""),
    ],
)
def test_json_that_the_engine_cannot_read(model: Model, text: str, said: str) -> None:
    (model.folder / "config.json").write_text(text, encoding="utf-8")
    finding = model.only("error")
    assert finding.file == "config.json" and said in finding.what


def test_a_key_given_twice(model: Model) -> None:
    text = (model.folder / "config.json").read_text().replace("{", '{"thread_num": 3,', 1)
    (model.folder / "config.json").write_text(text)
    assert "given twice; the first one counts" in model.only("warning").what


@pytest.mark.parametrize(
    ("setting", "files"),
    [
        ({"is_visual": True}, ["visual.mnn"]),
        ({"is_audio": True}, ["audio.mnn"]),
        ({"speculative_type": "mtp"}, ["mtp.mnn"]),
        ({"speculative_type": "eagle"}, ["eagle.mnn", "eagle_fc.mnn", "eagle_d2t.mnn"]),
        ({"speculative_type": "dflash"}, ["dflash.mnn", "dflash_fc.mnn", "dflash_kvmat.mnn"]),
        ({"speculative_type": "draftmodel"}, ["draft_model"]),
        ({"has_talker": True}, [*TALKER, "predit.mnn", "dit.mnn", "bigvgan.mnn", "spk_dict.mnn"]),
        ({"has_talker": True, "talker_type": "qwen3_tts"}, [*TALKER, *QWEN3_TTS]),
        ({"ple_embed_file": "ple.bin"}, ["ple.bin"]),
        ({"speculative_type": "lookahead"}, []),
    ],
)  # fmt: skip
def test_parts_that_are_switched_on_need_their_files(
    model: Model, setting: dict[str, Any], files: list[str]
) -> None:
    model.set("llm_config.json", **setting)
    assert sorted(f.file for f in model.findings("error")) == sorted(files)


def test_a_part_that_lies_there_unused(model: Model) -> None:
    shutil.copy(model.folder / "llm.mnn", model.folder / "eagle.mnn")
    shutil.copy(model.folder / "llm.mnn", model.folder / "visual.mnn")
    found = {f.file: f.hint for f in model.findings("note")}
    assert found == {
        "eagle.mnn": '"speculative_type": "eagle" in config.json',
        "visual.mnn": '"is_visual": true in llm_config.json',
    }


def test_a_part_with_weights_of_its_own(model: Model) -> None:
    model.set("llm_config.json", is_visual=True)
    shutil.copy(model.folder / "llm.mnn", model.folder / "visual.mnn")
    assert [(f.file, f.severity) for f in model.findings()] == [("visual.mnn.weight", "error")]
    shutil.copy(model.folder / "llm.mnn.weight", model.folder / "visual.mnn.weight")
    assert model.findings() == []
    model.cut("visual.mnn.weight", 56_000)
    assert "reads 56650" in model.only("error").what


def test_what_a_download_left(model: Model) -> None:
    (model.folder / "llm.mnn.weight.aria2").write_bytes(b"x")
    assert "not finished" in model.only("warning").what


def test_npu_models_as_exported(npu: Model) -> None:
    assert check_model(npu.folder).configs == ("config.json", "config_qnn.json")
    assert npu.findings() == []


@pytest.mark.parametrize(
    ("limits", "severity", "said"),
    [
        (..., "error", "take only 128 or 1 tokens"),
        ([64, 1], "error", "64 is no shape"),
        ([128, 64, 1], "error", "64 is no shape"),
        ([1, 128], None, ""),
        ([128], "error", "at least two"),
        (128, "error", "at least two"),
        ([128, "1"], "error", "at least two"),
    ],
)
def test_chunk_limits_against_the_exported_shapes(
    npu: Model, limits: Any, severity: str | None, said: str
) -> None:
    npu.set("config_qnn.json", chunk_limits=limits)
    if severity is None:
        assert npu.findings() == []
        return
    finding = npu.only(severity)
    assert (finding.file, finding.key) == ("config_qnn.json", "chunk_limits") and said in finding.what
    assert "[128, 1]" in finding.hint


def test_npu_graphs_that_did_not_come_along(npu: Model) -> None:
    (npu.folder / "qnn/graphllm1.bin").unlink()
    finding = npu.only("error")
    assert (finding.file, "runs its graph on the NPU" in finding.what) == ("qnn/graphllm1.bin", True)
    npu.set("config_qnn.json", npu_model_dir="elsewhere")
    assert [f.file for f in npu.findings()] == ["elsewhere/qnn/graphllm0.bin", "elsewhere/qnn/graphllm1.bin"]


def test_an_export_that_broke_off(npu: Model) -> None:
    (npu.folder / "qnn/graphllm0.bin").write_bytes(b"x" * 100)
    finding = npu.only("error")
    assert finding.file == "qnn/graphllm0.bin" and "100 bytes cannot hold" in finding.what
    shutil.rmtree(npu.folder / "qnn")
    assert [f.file for f in npu.findings("error")] == ["qnn/llm.mnn"]


def test_npu_models_and_another_backend(npu: Model) -> None:
    npu.set("config_qnn.json", backend_type="opencl")
    assert npu.only("warning").key == "backend_type"


def test_an_npu_model_that_no_config_uses(npu: Model) -> None:
    (npu.folder / "config_qnn.json").unlink()
    assert npu.only("note").file == "qnn/llm.mnn"


def test_chunk_limits_of_a_model_for_the_cpu(model: Model) -> None:
    model.set(chunk_limits=[128, 64])
    assert "has no 1" in model.only("warning").what
    model.set(chunk_limits=[128, 1], chunk=64)
    assert model.only("note").key == "chunk"


def test_a_base_dir_that_does_not_follow_the_config(model: Model) -> None:
    model.set(base_dir="models")
    assert "working folder" in model.findings("warning")[0].what
    model.set(base_dir=str(model.folder))
    assert "without a slash" in model.only("warning").what
    model.set(base_dir=f"{model.folder}/")
    assert model.findings() == []


def test_a_folder_from_hugging_face(model: Model) -> None:
    (model.folder / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"], "hidden_size": 64}')
    finding = model.only("error")
    assert "original (Hugging Face) model" in finding.what and "llmexport.py" in finding.hint


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda f: (f / "config.json").rename(f / "Config.json"), "case-sensitive"),
        (lambda f: (f / "config.json").unlink(), "llm_weight"),
        (lambda f: [p.unlink() for p in f.iterdir()], "is this the model folder?"),
    ],
)
def test_no_config(model: Model, change: Callable[[Path], object], hint: str) -> None:
    change(model.folder)
    finding = model.only("error")
    assert finding.file == "config.json" and hint in finding.hint


def test_one_folder_too_high(model: Model, tmp_path: Path) -> None:
    [finding] = check_model(tmp_path).findings
    assert str(model.folder) in finding.hint


def test_one_config_by_its_path(npu: Model) -> None:
    npu.set(thread_num="4")
    assert check_model(npu.folder / "config_qnn.json").findings == ()
    assert check_model(npu.folder / "config.json").broken


def test_what_is_no_model_folder(tmp_path: Path) -> None:
    (tmp_path / "llm.mnn").write_bytes(b"x")
    for place in (tmp_path / "nowhere", tmp_path / "llm.mnn"):
        with pytest.raises(UsageError):
            check_model(place)


def test_the_table_fits_the_engine() -> None:
    table = load_table()
    assert len(table.keys) > 150
    for key in table.keys.values():
        assert key.type in ("text", "file", "integer", "number", "boolean", "list", "map", "any"), key
        setting = key.when.partition("=")[0]
        assert setting in ("", "always", "never", "set", "embedding", "talker") or setting in table.keys, key
        assert key.weight in ("", "+") or key.weight in table.keys, key
        assert not key.replaced_by or key.replaced_by in table.keys
    # Facts that are easily got wrong: the old name is still the default, and top_k falls back on topK.
    assert table.keys["tokenizer_file"].default == "tokenizer.txt"
    assert (table.keys["thread_num"].default, table.keys["max_all_tokens"].default) == (4, 2048)
