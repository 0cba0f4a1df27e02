# Shared by script/demo and script/test: find a Python, make a virtual environment, install into it.
# POSIX sh; sourced, not run. Every path may hold blanks and letters outside ASCII.

MIN_MINOR=10

# Python up to 3.12 reads the path of an editable install in the locale's encoding: plain C has none
# for letters outside ASCII.
case "${LC_ALL:-}" in
C | POSIX)
    LC_ALL=C.UTF-8
    export LC_ALL
    ;;
esac

say() { printf '%s\n' "$*" >&2; }

# A Python is usable when it is 3.10 or later and can make virtual environments.
python_is_usable() {
    "$1" - "$MIN_MINOR" >/dev/null 2>&1 <<'PY'
import ensurepip, sys, venv
sys.exit(sys.version_info < (3, int(sys.argv[1])))
PY
}

# The lldb of PyPI loads this Python's shared library; some builds of Python have none.
python_has_libpython() {
    "$1" - >/dev/null 2>&1 <<'PY'
import os, sys, sysconfig
name = sysconfig.get_config_var("INSTSONAME") or ""
folders = [os.path.join(sys.base_exec_prefix, "lib"), sysconfig.get_config_var("LIBDIR") or "/"]
ok = (".so" in name or ".dylib" in name) and any(os.path.exists(os.path.join(f, name)) for f in folders)
sys.exit(not ok)
PY
}

have_system_lldb() {
    for suffix in "" -23 -22 -21 -20 -19 -18 -17 -16 -15 -14; do
        command -v "lldb$suffix" >/dev/null 2>&1 && command -v "lldb-server$suffix" >/dev/null 2>&1 && return 0
    done
    return 1
}

have_compiler() {
    [ -n "${CXX:-}" ] && return 0
    for compiler in c++ g++ clang++; do
        command -v "$compiler" >/dev/null 2>&1 && return 0
    done
    return 1
}

python_candidates() {
    [ -n "${PYTHON:-}" ] && printf '%s\n' "$PYTHON"
    for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
        command -v "$name" 2>/dev/null
    done
    for path in "$HOME"/.pyenv/versions/3.1[0-9]*/bin/python3; do
        [ -x "$path" ] && printf '%s\n' "$path"
    done
}

# Print the best Python: one with a shared library first (unless the machine has an lldb of its own).
find_python() {
    fallback=
    old_ifs=$IFS
    IFS='
'
    for candidate in $(python_candidates); do
        if python_is_usable "$candidate"; then
            if have_system_lldb || python_has_libpython "$candidate"; then
                IFS=$old_ifs
                printf '%s\n' "$candidate"
                return 0
            fi
            [ -n "$fallback" ] || fallback=$candidate
        fi
    done
    IFS=$old_ifs
    return 1
}

# make_venv DIR: with a Python of this machine, else uv, else conda; else say what brings one.
make_venv() {
    if [ -x "$1/bin/python" ] && "$1/bin/python" -c 'import pip' 2>/dev/null; then
        return 0
    fi
    rm -rf "$1"
    if python=$(find_python); then
        say "making a virtual environment with $python"
        "$python" -m venv "$1"
    elif command -v uv >/dev/null 2>&1; then
        say "making a virtual environment with uv"
        uv venv --seed --python 3.12 "$1"
    elif command -v conda >/dev/null 2>&1; then
        say "making a virtual environment with conda"
        conda create --yes --quiet --prefix "$1" python=3.12 pip >&2
    else
        say "error: no usable Python was found (3.10 or later, with venv and a shared libpython)."
        for candidate in python3 python; do
            command -v "$candidate" >/dev/null 2>&1 || continue
            version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
            say "  found: $(command -v "$candidate") ($version)"
            if [ -f /etc/debian_version ] && [ -n "$version" ]; then
                say "  try: sudo apt install python3-venv libpython$version"
            fi
        done
        say "  try: curl -LsSf https://astral.sh/uv/install.sh | sh     (brings uv, which brings a Python)"
        return 125
    fi
}

# install_into DIR EXTRAS: an editable install, skipped when nothing it depends on has changed.
install_into() {
    stamp=$(cat pyproject.toml | cksum)" $2 $(pwd)"
    if [ -f "$1/.devkit-stamp" ] && [ "$(cat "$1/.devkit-stamp")" = "$stamp" ]; then
        return 0
    fi
    say "installing devkit and what it needs into $1 (about a minute)"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$2]" >&2 || return 125
    printf '%s\n' "$stamp" >"$1/.devkit-stamp"
}
