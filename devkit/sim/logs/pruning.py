"""The prune list of logd (`logcat -p`, `-P`): parsed and printed as logd/PruneList.cpp does.

It is kept and told, and changes nothing: the buffers of this phone, as those of Android 12 and later, lose
their oldest entries first.
"""

from __future__ import annotations

import re

_DEFAULT = "~! ~1000/!"
_RULE = re.compile(r"(\d*)(?:/(\d*))?")


class PruneList:
    """The rules in force."""

    def __init__(self) -> None:
        self._worst_user = self._worst_of_system = False
        self._low: list[str] = []
        self._high: list[str] = []
        self.set("default")

    def set(self, text: str) -> bool:
        """Replace the rules; False when the text is wrong; what stands before the mistake holds then."""
        text = {"default": _DEFAULT, "disable": ""}.get(text, text)
        self._worst_user = self._worst_of_system = False
        self._low, self._high = [], []
        return all(self._add(word) for word in text.split())

    def text(self) -> str:
        """As `logcat -p` shows them."""
        special = ["~!"] * self._worst_user + ["~1000/!"] * self._worst_of_system
        return " ".join([*special, *self._low, *(f"~{rule}" for rule in self._high)])

    def _add(self, word: str) -> bool:
        if word[0] not in "~!":
            return self._add_rule(word, self._low)
        if word[1:] == "!":
            self._worst_user = True
        elif word[1:] == "1000/!":
            self._worst_of_system = True
        else:
            return self._add_rule(word[1:], self._high)
        return True

    @staticmethod
    def _add_rule(word: str, rules: list[str]) -> bool:
        found = _RULE.fullmatch(word)
        if found is None or not (found[1] or found[2]):
            return False
        user = str(int(found[1])) if found[1] else ""
        rules.append(user + (f"/{int(found[2])}" if found[2] else ""))
        return True
