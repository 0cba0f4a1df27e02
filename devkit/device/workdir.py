"""Finding a folder on the phone in which files can be written AND run; the phone is asked."""

from __future__ import annotations

from collections.abc import Sequence

from devkit.device.quoting import quote_word
from devkit.errors import PHONE, DeviceError

FALLBACK_FOLDERS = ("/data/local/tmp/devkit",)

# A shell script as the trial program: on a noexec mount (/sdcard) its execve fails with EACCES,
# which no shell works around. cat writes it: a shell's own echo says "I/O error" for a full disk.
# Folders made only for the trial go away again.
_SCRIPT = """\
try() {
  made=; [ -d "$1" ] || made=1
  if ! said=$(mkdir -p "$1" 2>&1); then echo "no $1: $said"; return 1; fi
  trial=$1/.devkit-trial-$$
  if said=$( { { echo "#!$(command -v sh)"; echo 'exit 7'; } | cat >"$trial"; } 2>&1); then
    chmod 755 "$trial" 2>/dev/null
    said=$("$trial" 2>&1); code=$?
    rm -f "$trial"
    if [ $code = 7 ]; then echo "yes $1"; dir=$1; return 0; fi
    echo "no $1: files there cannot be run: $said"
  else
    rm -f "$trial" 2>/dev/null
    echo "no $1: $said"
  fi
  [ -z "$made" ] || rmdir "$1" 2>/dev/null
  return 1
}
"""


def trial_script(preferred: str) -> str:
    """The script that tries folders in order and prints `yes FOLDER`, or `no FOLDER: why`, for each.

    `$dir` is then the folder that will do.
    """
    words = [quote_word(folder) for folder in dict.fromkeys((preferred, *FALLBACK_FOLDERS))]
    tries = [f"try {word}" for word in words]
    tries.append('{ [ -n "$TMPDIR" ] && try "$TMPDIR/devkit"; }')
    return _SCRIPT + " || ".join(tries)


def choose(serial: str, lines: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The folder that works, by what the trial said, and why those before it do not.

    Raises:
        DeviceError: none does; carries what the phone said of each.
    """
    folder, refused = parse_trial(lines)
    if folder is None:
        raise DeviceError(
            f"the phone {serial} has no folder in which programs can be put and run",
            where=PHONE,
            evidence="\n".join(refused) or "\n".join(lines),
            hints=["set device.dir to a folder that the shell user may write", "free space on the phone"],
        )
    return folder, refused


def parse_trial(lines: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """The folder that works, if any, and why those before it do not."""
    refused: list[str] = []
    for line in lines:
        if line.startswith("yes "):
            return line[4:], tuple(refused)
        if line.startswith("no "):
            refused.append(line[3:])
        elif refused:
            refused[-1] += " " + line.strip()
    return None, tuple(refused)
