"""THE quoting for the phone's shell: every word that devkit sends to a phone goes through here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from devkit.errors import UsageError

# ASCII only and without `~`, `=` or `,`: words made of these mean the same to every shell.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:./-]+\Z")


def quote(argv: Sequence[str]) -> str:
    """Make the command line that the phone's sh splits into exactly these words.

    adb joins its arguments with blanks and the phone's shell parses the result again, so devkit
    hands over one string in which each word is in POSIX single quotes where it needs them.

    Raises:
        UsageError: a word holds a NUL, which no command line can carry.
    """
    return " ".join(quote_word(word) for word in argv)


def quote_word(word: str) -> str:
    """One word, as `quote` writes it.

    Raises:
        UsageError: it holds a NUL.
    """
    if "\0" in word:
        raise UsageError(
            f"an argument holds a NUL character: {word!r}",
            hints=["put the data into a file and push it: a command line cannot carry NUL"],
        )
    if _PLAIN.match(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"
