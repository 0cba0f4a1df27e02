"""The scripts with which a deployment that has arrived takes its place on the phone: all of it or nothing.

The staging folder is renamed: from then on the deployment is decided, and its own script, which can be
repeated, moves the files. If the phone restarts in between, the next look at the folder (app_folder.py)
runs that script again. Until the renaming nothing of the deployment counts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence

STAGING_PREFIX = ".devkit-staging-"
COMMIT_PREFIX = ".devkit-commit-"
SCRIPT = "commit.sh"
# In the folder above those of the apps. Where a phone has no flock nothing keeps two deployments apart.
LOCK = ".devkit-lock"

# In the script: what follows is the content of the file that is moved last.
_CONTENT = "# content"

# Exit codes of the deciding script.
DAMAGED, OVERTAKEN = 98, 97

# Words of one command: a program is started for each command, and its arguments have a limit.
WORDS = 100

# It goes on when the link breaks. Files that an earlier run has moved are not there any more.
_PLACE = """\
trap '' HUP
place() {
  to=$1; shift
  mv -f "$@" "$to" 2>/dev/null && return
  for file; do [ ! -e "$file" ] || mv -f "$file" "$to" || exit 1; done
}
"""

# sha256sum puts a backslash before the hash of a file whose name holds one.
_VERIFY = """\
bad=
alone() { [ "$(sha256sum < "$2" | cut -c1-64)" = "$1" ] || { echo "$2"; bad=1; }; }
all() {
  want=$1; shift
  sha256sum "$@" | (
    while read -r sum file; do
      [ "${sum#\\\\}" = "${want%% *}" ] || exit 1
      want=${want#* }
    done
    [ -z "$want" ]
  )
}
same() {
  [ $# = 2 ] || ! all "$@" || return 0
  want=$1; shift
  for file; do alone "${want%% *}" "$file"; want=${want#* }; done
}
if command -v sha256sum >/dev/null 2>&1; then
"""

_DECIDE = """\
: >> {lock}
(
  ! command -v flock >/dev/null 2>&1 || flock -x 0
  for earlier in {commit_prefix}*/{script}; do [ ! -f "$earlier" ] || sh "$earlier" || exit 1; done
  id=$(sed -n 's/^ *"id": "\\([0-9a-f]*\\)".*/\\1/p' {manifest} 2>/dev/null)
  [ "$id" = "{expected}" ] || exit {overtaken}
{gather}  sed '1,/^{content}$/d' {staging}/{script} > {staging}/{manifest} || exit 1
  mv {staging} {commit} || exit 1
  sh {commit}/{script}
) < {lock}
"""

# Part of a look at the folder; `$dir` is the one above. Nothing is locked where nothing is to be done.
FINISH = f"""\
for commit in {COMMIT_PREFIX}*/{SCRIPT}; do
  [ ! -f "$commit" ] || (
    ! command -v flock >/dev/null 2>&1 || flock -x 0
    [ ! -f "$commit" ] || sh "$commit" >/dev/null
  ) < "$dir"/{LOCK}
done
"""


def commit_script(
    folder: str,
    commit: str,
    places: Mapping[str, Sequence[str]],
    removed: Sequence[str],
    last: str,
    content: str,
) -> str:
    """What moves the files of a decided deployment; it can be repeated.

    One file more would be one confirmation more: on a slow link each waits for what is on the way.

    Args:
        folder: the app's absolute folder.
        commit: the name of the decided folder in it.
        places: by absolute target folder, the paths of its files below `commit`.
        removed: files below `folder` that go away; folders that are empty then go, too.
        last: the file that is moved when all others are in place; the deciding script makes it.
        content: what is in it.
    """
    from devkit.device import quote

    lines = [_PLACE + f"cd {quote([folder])} || exit 1"]
    for target, files in places.items():
        if target != folder:
            staged = [posixpath.join(commit, file) for file in files]
            lines += _chunks(["place", target + "/"], staged)
    lines += _chunks(["rm", "-f"], [posixpath.join(folder, file) for file in removed])
    emptied = {parent for file in removed for parent in _parents(file)}
    lines += [
        f"rmdir {quote([posixpath.join(folder, parent)])} 2>/dev/null"
        for parent in sorted(emptied, key=lambda parent: -parent.count("/"))
    ]
    # mv takes them in this order.
    staged = [posixpath.join(commit, file) for file in (*places.get(folder, ()), last)]
    lines += _chunks(["place", folder + "/"], staged)
    lines += [quote(["rm", "-rf", commit]), "exit", _CONTENT, content]
    return "\n".join(lines)


def decide_script(
    folder: str,
    staging: str,
    hashes: Mapping[str, str],
    gather: Sequence[str],
    *,
    commit: str,
    manifest: str,
    expected: str,
) -> str:
    """Compare what has arrived with its hashes, decide the deployment, and have its script run.

    It ends with DAMAGED (and the files' paths on stdout), OVERTAKEN when somebody else has deployed since
    the folder was looked at, or 0. Any other exit code means that nothing was decided.

    Args:
        folder: the app's absolute folder.
        staging: the name of the folder in it where the files are.
        hashes: by path below `folder`, the SHA-256 in hexadecimal.
        gather: lines that bring there what is not below `staging` yet.
        commit: the name of the folder once it is decided.
        expected: the id in the manifest that was looked at; "" where there was none.
    """
    from devkit.device import quote

    # Until it is decided, a broken link ends it: what has been said to be unchanged must stay so.
    lines = [f"cd {quote([folder])} || exit 1", _VERIFY + ":"]
    # A line break in a name would be one in sha256sum's output.
    odd = [file for file in hashes if "\n" in file]
    plain = [file for file in hashes if "\n" not in file]
    groups = [plain[start : start + WORDS] for start in range(0, len(plain), WORDS)] + [[f] for f in odd]
    for group in groups:
        want = "".join(hashes[file] + " " for file in group)
        lines.append(quote(["same", want, *group]))
    lines += [f'fi\n[ -z "$bad" ] || exit {DAMAGED}']
    lines.append(
        _DECIDE.format(
            lock=quote([posixpath.join(posixpath.dirname(folder), LOCK)]), commit_prefix=COMMIT_PREFIX,
            script=SCRIPT, manifest=manifest, expected=expected, overtaken=OVERTAKEN, staging=staging,
            commit=commit, content=_CONTENT, gather="".join(f"  {line} || exit 1\n" for line in gather),
        )
    )  # fmt: skip
    return "\n".join(lines)


def _chunks(program: Sequence[str], words: Iterable[str]) -> list[str]:
    from devkit.device import quote

    listed = list(words)
    return [quote([*program, *listed[start : start + WORDS]]) for start in range(0, len(listed), WORDS)]


def _parents(file: str) -> list[str]:
    found = []
    while file := posixpath.dirname(file):
        found.append(file)
    return found
