"""Files that the config leads to: missing, under another name, empty, not downloaded, cut short."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path

from devkit.errors import FileError
from devkit.models.findings import ERROR, NOTE, WARNING, Finding
from devkit.models.folder import ModelConfig, relative
from devkit.models.keys import Key, load_table
from devkit.models.mnn_file import MnnFile, read_mnn
from devkit.output import human_bytes

_LFS = b"version https://git-lfs.github.com/spec/"
# What downloaders leave beside, or in place of, a file that is not complete.
_UNFINISHED = (".incomplete", ".aria2", ".part", ".partial", ".crdownload", ".tmp", ".download")
# Files whose presence without its switch means that a part of the model stays off: name → key, value.
_SWITCHES = {
    "visual.mnn": ("is_visual", True),
    "audio.mnn": ("is_audio", True),
    "talker.mnn": ("has_talker", True),
    "eagle.mnn": ("speculative_type", "eagle"),
    "mtp.mnn": ("speculative_type", "mtp"),
    "dflash.mnn": ("speculative_type", "dflash"),
}


def check_files(config: ModelConfig) -> tuple[list[Finding], dict[str, MnnFile]]:
    """All findings about the files of one config, and the models that could be read, by their key."""
    found: list[Finding] = []
    models: dict[str, MnnFile] = {}
    for key in load_table().keys.values():
        if key.type != "file":
            continue
        path = config.file(key.name)
        named = bool(config.value(key.name))
        needed = is_needed(key, config)
        if not named or not _is_there(path):
            if needed:
                found.append(_missing(key, config, path))
            elif key.name in config.merged and named and key.when == "never":
                found.append(_missing(key, config, path, severity=NOTE))
            continue
        problem = what_is_wrong(path)
        if problem:
            severity = ERROR if needed else WARNING
            found.append(Finding(severity, relative(path, config.folder), key.name, *problem))
        elif (
            path.suffix == ".mnn"
            and (needed or key.when != "never")
            and key.name not in ("eagle_d2t", "spk_dict")
        ):
            try:
                models[key.name] = read_mnn(path)
            except FileError as error:
                severity = ERROR if needed else WARNING
                what = error.what.removeprefix(f"{path} ") + (
                    f" ({error.evidence})" if error.evidence else ""
                )
                found.append(
                    Finding(severity, relative(path, config.folder), key.name, what, *error.hints[:1])
                )
    found += _weights(config, models)
    found += _switched_off(config)
    found += _unfinished(config)
    return found, models


def is_needed(key: Key, config: ModelConfig) -> bool:
    """Whether the engine fails, or answers nonsense, without the file of this key."""
    when = key.when
    if when in ("", "never"):
        return False
    if when == "always":
        return True
    if when == "set":
        return key.name in config.merged
    if when == "embedding":
        return not embeds_in_weights(config)
    if when == "talker=omni":
        return bool(config.value("has_talker")) and config.value("talker_type") != "qwen3_tts"
    setting, _, value = when.partition("=")
    actual = config.value(setting)
    return str(actual).lower() == value if isinstance(actual, bool) else actual == value


def embeds_in_weights(config: ModelConfig) -> bool:
    """Whether the embeddings lie in the weight file (tie_embeddings with an offset)."""
    tied = config.merged.get("tie_embeddings")
    if isinstance(tied, list):
        return len(tied) >= 5 and tied[0] != 0
    return isinstance(tied, dict) and tied.get("weight_offset", 0) != 0


def what_is_wrong(path: Path) -> tuple[str, str] | None:
    """What and hint of a file whose first bytes or size show that it is not what its name says."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        return f"it cannot be read: {error.strerror}", f"ls -l '{path}'"
    if size == 0:
        return "it is empty", "copy or download it again"
    if head.startswith(_LFS):
        true_size = next(
            (line[5:] for line in head.decode("utf-8", "replace").splitlines() if line.startswith("size ")),
            "",
        )
        what = "it is a pointer of Git LFS, not the file itself"
        if true_size.isdigit():
            what += f", which has {human_bytes(int(true_size))}"
        return what, "git lfs pull, or devkit model get"
    if head.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return (
            "it is a web page, not the file",
            "the download was answered with an error page: download it again",
        )
    return None


def _is_there(path: Path) -> bool:
    """Letter for letter: on macOS and Windows a name of another case opens, on the phone it does not."""
    try:
        return path.name in os.listdir(path.parent) and path.is_file()
    except OSError:
        return False


def _missing(key: Key, config: ModelConfig, path: Path, severity: str = ERROR) -> Finding:
    name = relative(path, config.folder) if config.value(key.name) else key.name
    what = "it does not exist" if config.value(key.name) else f"no {key.name} is named"
    if key.name not in config.merged and config.value(key.name):
        what += f" (the engine takes this name where {key.name} is not set)"
    if key.name == "embedding_file":
        what += "; llm_demo starts all the same and answers nonsense"
    candidate = _candidate(key, config, path)
    place = config.place(key.name) if key.name in config.merged else config.name
    hint = f'"{key.name}": "{candidate}" in {place}' if candidate else ""
    if candidate and candidate.lower() == name.lower():
        hint = f"the file is called {candidate}: names are case-sensitive on the phone"
    elif candidate and key.name not in config.merged:
        hint = f"{candidate} is there: add {hint}"
    elif candidate:
        hint = f"{candidate} is there: {hint}"
    return Finding(severity, name, key.name, what, hint)


def _candidate(key: Key, config: ModelConfig, path: Path) -> str | None:
    """The file that is most likely the missing one: of its kind, then of a similar name."""
    taken = {
        config.file(other.name)
        for other in load_table().keys.values()
        if other.type == "file" and other.name != key.name and other.name in config.merged
    }
    there = [
        relative(file, config.base)
        for folder in dict.fromkeys((path.parent, config.base))
        if folder.is_dir()
        for file in sorted(folder.iterdir())
        if file.is_file() and file not in taken and not file.name.endswith(_UNFINISHED)
    ]
    wanted = str(config.value(key.name) or key.default or key.name)
    kind = {"tokenizer_file": "tokenizer.", "embedding_file": "embeddings_", "llm_config": "llm_config"}.get(
        key.name
    )
    if kind:
        same = [name for name in there if Path(name).name.startswith(kind)]
        if same:
            return max(same, key=lambda name: (name.endswith(".mtok"), -same.index(name)))
    lower = {name.lower(): name for name in there}
    alike = [name for name in lower if _ending(name) == _ending(wanted)] or list(lower)
    for names in (alike, list(lower)):
        close = difflib.get_close_matches(wanted.lower(), names, n=1, cutoff=0.6)
        if close:
            return lower[close[0]]
    return None


def _ending(name: str) -> str:
    return ".mnn.weight" if name.endswith(".mnn.weight") else Path(name).suffix


def _weights(config: ModelConfig, models: dict[str, MnnFile]) -> list[Finding]:
    """Weight files against what their graphs read from them: exact, whatever the model."""
    found: list[Finding] = []
    for name, model in models.items():
        rule = load_table().keys[name].weight
        if not rule and name != "mtp_model" and not name.startswith(("eagle_", "dflash_", "draft_")):
            continue
        own = model.path.with_name(model.path.name + ".weight")
        weight = config.file(rule) if rule and rule != "+" else own
        if model.weight_end == 0:
            continue
        shown = relative(weight, config.folder)
        if not _is_there(weight):
            # Keys of their own are reported where they are looked at.
            if not rule or rule == "+":
                what = f"it does not exist, but {model.path.name} reads its weights from there"
                found.append(Finding(ERROR, shown, None, what, "copy or export it again"))
            continue
        if what_is_wrong(weight):
            if not rule or rule == "+":
                found.append(Finding(ERROR, shown, None, *(what_is_wrong(weight) or ("", ""))))
            continue
        size = weight.stat().st_size
        if size < model.weight_end:
            found.append(
                Finding(
                    ERROR, shown, rule if rule != "+" else None,
                    f"it has {size} bytes, but {model.path.name} reads {model.weight_end}: "
                    "it is cut short, or of another export",
                    "copy or download it again",
                )
            )  # fmt: skip
    return found


def _switched_off(config: ModelConfig) -> list[Finding]:
    found = []
    for name, (key, value) in _SWITCHES.items():
        if (config.base / name).is_file() and config.value(key) != value:
            written = json.dumps(value)
            place = config.name if key == "speculative_type" else config.model_name
            what = f"it is there but not used: {key} is not {written}"
            found.append(Finding(NOTE, name, key, what, f'"{key}": {written} in {place}'))
    return found


def _unfinished(config: ModelConfig) -> list[Finding]:
    if not config.base.is_dir():
        return []
    return [
        Finding(
            WARNING, file.name, None, "a download left this: it is not finished", "finish it, or remove it"
        )
        for file in sorted(config.base.iterdir())
        if file.is_file() and file.name.endswith(_UNFINISHED)
    ]
