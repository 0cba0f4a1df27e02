"""MNN's llm_demo: the statistics between the two lines of # at the end."""

from __future__ import annotations

import re
from collections.abc import Sequence

from devkit.results.model import NUMBER, WARNING, Finding, number
from devkit.results.parser import Parser

_FENCE = re.compile(r"^#{30,}\s*$")
_STAT = re.compile(rf"^\s*(?P<key>[A-Za-z_]+(?: [A-Za-z_]+)*)\s*=\s*(?P<value>{NUMBER})\s*(?P<unit>\S*)\s*$")
# The keys of llm_demo.cpp, today's and those up to 2025 ("output tokens num").
_NAMES = {
    "prompt tokens num": ("prompt_tokens", "tokens"),
    "decode tokens num": ("decode_tokens", "tokens"),
    "output tokens num": ("decode_tokens", "tokens"),
    "total tokens num": ("total_tokens", "tokens"),
    "vision time": ("vision_time", "s"),
    "pixels_mp": ("vision_pixels", "MP"),
    "audio process time": ("audio_process_time", "s"),
    "audio input time": ("audio_input_time", "s"),
    "total time": ("total_time", "s"),
    "prefill time": ("prefill_time", "s"),
    "decode time": ("decode_time", "s"),
    "sample time": ("sample_time", "s"),
    "total speed": ("total_speed", "tok/s"),
    "prefill speed": ("prefill_speed", "tok/s"),
    "decode speed": ("decode_speed", "tok/s"),
    "chat speed": ("chat_speed", "tok/s"),
    "vision speed": ("vision_speed", "MP/s"),
    "audio RTF": ("audio_rtf", ""),
}
_STEP = re.compile(r"^main, +\d+, +cost time: +(?P<ms>[\d.]+) ms")
_ANSWER_BEGINS = re.compile(r"^(?:prompt file is |User: )")


class LlmDemo(Parser):
    """A model may write anything, even a block like the statistics: only the last block counts."""

    name = "llm_demo"
    logcat_tag = "MNNJNI"
    programs = (r"llm_demo(?:\.exe)?",)
    signature = re.compile(r"^config path is \S|^ ?(?:prompt|total) tokens num +=")
    headline = ("load_time", "prompt_tokens", "decode_tokens", "prefill_speed", "decode_speed")
    free_text = True

    def __init__(self) -> None:
        super().__init__()
        self._block: dict[str, tuple[float | None, str]] | None = None
        self._last: dict[str, tuple[float | None, str]] = {}
        self._steps: list[float] = []
        self._answering = False
        self._chat = False
        self._failed = False

    def line(self, text: str) -> None:
        if _FENCE.match(text):
            self._fence()
        elif self._block is not None and (stat := _STAT.match(text)):
            self._stat(stat)
        elif not self._answering:
            if step := _STEP.match(text):
                self._steps = [*self._steps, float(step["ms"])][:2]
            elif _ANSWER_BEGINS.match(text):
                self._answering = True
                self._chat = text.startswith("User: ")
            elif text.startswith("LLM init error"):
                # It goes on and times what it did not do.
                self._failed = True

    def _fence(self) -> None:
        if self._block:
            self._last = self._block
        # This fence may also be the first of the next block.
        self._block = {}

    def _stat(self, stat: re.Match[str]) -> None:
        known = _NAMES.get(stat["key"])
        if known is None or self._block is None or (stat["unit"] and stat["unit"] != known[1]):
            return
        name, unit = known
        self._block[name] = (number(stat["value"]), unit)

    def finish(self) -> None:
        if not self._failed:
            for name, ms in zip(("load_time", "tuning_time"), self._steps, strict=False):
                self.add(name, ms, "ms")
        for name, (value, unit) in self._last.items():
            self.add(name, value, unit)

    @property
    def in_free_text(self) -> bool:
        return self._answering

    @property
    def may_have_none(self) -> bool:
        return self._chat

    def findings(self) -> Sequence[Finding]:
        if self._last and self._last.get("decode_tokens", (None, ""))[0] == 0:
            return [
                Finding(
                    "no-tokens",
                    WARNING,
                    "the model produced no token, so there is no decode speed",
                    "the answer ended at once: max_new_tokens, the stop tokens or the prompt template of "
                    "the model's config",
                    ("raise the third argument of llm_demo (max_tokens), or look at llm_config.json",),
                )
            ]
        if self._block is not None and self._block and not self._last:
            return [
                Finding(
                    "truncated-output",
                    WARNING,
                    "the output breaks off inside the statistics, so they do not count",
                    "the program was ended, or the log was cut",
                )
            ]
        return ()
