#!/bin/sh
# Is .venv complete, and if not, how is it made so? `make setup`, and every target that needs .venv, runs this.
#
# The stamp is written last and removed first, so it is there only where .venv is whole. With no stamp (a first time,
# or a set-up that was ended anywhere) everything is made from nothing: a package that was half unpacked looks installed
# to an installer. With the stamp of other inputs (a changed lock, a moved clone) only the difference is installed.
# Needs Python 3.11, 3.12 or 3.13; PYTHON=/path/to/python3.12 chooses one. uv comes from its pinned and hashed stanza.
set -eu
cd "$(dirname "$0")/.."

venv=.venv
python=$venv/bin/python
stamp=$venv/.complete

# bytecode is wanted (Airflow starts in a third of the time), and no other environment's settings
unset PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH VIRTUAL_ENV CONDA_PREFIX PIP_USER PIP_TARGET PIP_PREFIX

# everything that .venv depends on: where it stands and what is to be in it
inputs=$({ pwd -P; cat requirements.lock pyproject.toml infra/setup.sh; } | cksum)

is_complete() {
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$inputs" ] && [ -x "$venv/bin/stepwatch" ] && runs "$python"
}

runs() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

# a name on PATH may be a shim with nothing behind it, or a Python without venv: each is tried
suitable_python() {
    for name in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3 python; do
        if runs "$name" && "$name" -c 'import ensurepip, ssl, venv' >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    echo "setup: no suitable Python: one of python3.11, python3.12, python3.13 with its venv module is needed" \
        "(Debian and Ubuntu: apt-get install python3-venv), or say which: make setup PYTHON=/path/to/python3.12" >&2
    return 1
}

say() {
    echo "setup: $*"
}

if is_complete; then
    exit 0
fi

# one set-up at a time: the second waits and then finds it done
if command -v flock >/dev/null 2>&1; then
    exec 9<requirements.lock
    flock --nonblock 9 || { say "waiting for another set-up of this folder"; flock 9; }
    if is_complete; then
        exit 0
    fi
fi

if [ ! -f "$stamp" ] || ! runs "$python"; then
    name=$(suitable_python)
    say "making .venv with $("$name" -c 'import platform, sys; print("Python", platform.python_version(), "at", sys.executable)')"
    rm -rf "$venv"
    "$name" -m venv "$venv"
    say "installing uv, pinned and hashed"
    awk '/^[^ #]/ { inside = /^uv==/ } inside' requirements.lock >"$venv/uv.txt"
    "$python" -m pip install -qq --no-deps --no-input --disable-pip-version-check --require-hashes \
        -r "$venv/uv.txt"
fi

rm -f "$stamp"
say "installing $(grep -c '^[a-z0-9].*==' requirements.lock) packages of requirements.lock (a minute or two)"
"$venv/bin/uv" pip sync --quiet --python "$python" --require-hashes --compile-bytecode requirements.lock
say "installing stepwatch itself"
"$venv/bin/uv" pip install --quiet --python "$python" --no-deps --no-build-isolation --editable .
echo "$inputs" >"$stamp.new"
mv "$stamp.new" "$stamp"
say "done: .venv/bin/stepwatch"
