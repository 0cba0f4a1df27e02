"""Sizes and contents that must agree: embeddings with the vocabulary, the tokenizer's first line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from devkit.models.files_check import embeds_in_weights, what_is_wrong
from devkit.models.findings import ERROR, WARNING, Finding
from devkit.models.folder import ModelConfig, relative
from devkit.models.mnn_file import MnnFile

_BF16_BYTES = 2
# Tokenizer::MAGIC_NUMBER and the number of TokenizerType (tokenizer.hpp of MNN, August 2026).
_TOKENIZER_MAGIC, _TOKENIZER_TYPES, _BINARY_TYPE = 430, 5, 4


def check_sizes(config: ModelConfig, models: Mapping[str, MnnFile]) -> list[Finding]:
    """All findings about sizes and contents of one config's files."""
    return [*_embeddings(config, models), *_tokenizer(config)]


@dataclass(frozen=True)
class _Tied:
    """tie_embeddings, from the list or the object (LlmConfig::tie_embeddings_info)."""

    weight_offset: int
    alpha_offset: int
    alpha_size: int
    bits: int
    block: int


def _tied(config: ModelConfig) -> _Tied | None:
    raw = config.merged.get("tie_embeddings")
    if isinstance(raw, list):
        numbers = [value if isinstance(value, int) else 0 for value in raw]
        return _Tied(*numbers[:5]) if len(numbers) >= 5 else None
    if isinstance(raw, dict):
        names = ("weight_offset", "alpha_offset", "alpha_size", "quant_bit", "quant_block")
        values = [raw.get(name, 0) for name in names]
        return _Tied(*(value if isinstance(value, int) else 0 for value in values))
    return None


def _embeddings(config: ModelConfig, models: Mapping[str, MnnFile]) -> list[Finding]:
    tied = _tied(config)
    path = config.file("llm_weight" if embeds_in_weights(config) else "embedding_file")
    if not path.is_file() or what_is_wrong(path):
        return []
    shown, size = relative(path, config.folder), path.stat().st_size
    if tied is not None:
        end = tied.alpha_offset + tied.alpha_size
        if size < end:
            return [
                Finding(
                    ERROR, shown, "tie_embeddings",
                    f"it has {size} bytes, but tie_embeddings places the embeddings' scales up to byte {end}",
                    "llm_config.json and this file are of different exports, or it is cut short",
                )
            ]  # fmt: skip
        if tied.bits not in (2, 3, 4, 8, 16):
            return [
                Finding(
                    ERROR, config.model_name, "tie_embeddings", f"quant_bit is {tied.bits}",
                    "2, 3, 4, 8 or 16; export again",
                )
            ]  # fmt: skip
        return []
    if "_int" in path.name:
        return [
            Finding(
                ERROR, shown, "embedding_file",
                "it holds quantized embeddings, but without tie_embeddings they are read as bf16",
                f"take {config.model_name} of the same export",
            )
        ]  # fmt: skip
    return _bf16(config, shown, size, models.get("llm_model"))


def _bf16(config: ModelConfig, shown: str, size: int, model: MnnFile | None) -> list[Finding]:
    width = config.value("hidden_size")
    if not isinstance(width, int) or width < 1:
        return [Finding(ERROR, config.model_name, "hidden_size", f"hidden_size is {width!r}", "export again")]
    row = width * _BF16_BYTES
    rows = size // row
    if size % row:
        return [
            Finding(
                ERROR, shown, "embedding_file",
                f"its {size} bytes are no whole number of rows of {row} bytes (hidden_size {width}, bf16): "
                "cut short, or of another model",
                f"check hidden_size in {config.model_name}; copy or download it again",
            )
        ]  # fmt: skip
    if (
        model is not None
        and model.logits is not None
        and rows < model.logits
        and config.value("is_embedding") is not True
    ):
        return [
            Finding(
                ERROR if rows < model.logits * 0.9 else WARNING, shown, "embedding_file",
                f"it has embeddings of {rows} tokens, but the model knows {model.logits}",
                "cut short, or of another model: copy or download it again",
            )
        ]  # fmt: skip
    return []


def _tokenizer(config: ModelConfig) -> list[Finding]:
    path = config.file("tokenizer_file")
    if not path.is_file() or what_is_wrong(path):
        return []
    with path.open("rb") as file:
        head = file.readline(256).decode("utf-8", "replace")
    words = head.split()
    place = relative(path, config.folder)

    def broken(what: str, hint: str) -> list[Finding]:
        return [Finding(ERROR, place, "tokenizer_file", what, hint)]

    if not words or words[0] != str(_TOKENIZER_MAGIC):
        if head.lstrip().startswith("{"):
            return broken(
                "it is a tokenizer.json of Hugging Face, not MNN's",
                "take tokenizer.mtok or tokenizer.txt of the export",
            )
        return broken(
            f"it is no tokenizer of MNN: it must begin with {_TOKENIZER_MAGIC}", "copy or export it again"
        )
    kind = int(words[1]) if len(words) > 1 and words[1].isdigit() else -1
    if not 0 <= kind < _TOKENIZER_TYPES:
        return broken(
            f"its type {words[1] if len(words) > 1 else '?'} is unknown to the MNN of August 2026",
            "a newer MNN may know it",
        )
    if (kind == _BINARY_TYPE) != (path.suffix == ".mtok"):
        form = "binary" if kind == _BINARY_TYPE else "text"
        what = f"it is a {form} tokenizer (type {kind}) under a name of the other form"
        return [
            Finding(
                WARNING, place, "tokenizer_file", what, "the engine goes by the content; people by the name"
            )
        ]
    return []
