#!/bin/sh
# Makes .venv and installs gpubench into it, with the versions that suit this machine's NVIDIA driver.
#
#   python3 (>= 3.11)  ──▶ .venv
#   driver: CUDA >= 13, or none ──▶ constraints-cu13.txt        CUDA 12 ──▶ constraints-cu12.txt
#
# PYTHON   the interpreter to build on, and no other; python3, the default, also means the next one where it does not do
# WHEELS   a folder of wheels; nothing is taken from the network then
# `scripts/install.sh --constraints` only says which file would be taken.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

# The major version of CUDA that the driver reads; empty where there is no driver, or it does not answer.
driver_cuda() {
    # Drivers from 590 on write "CUDA UMD Version".
    if command -v nvidia-smi >/dev/null 2>&1; then
        # A broken driver can hang its own tool.
        timeout 60 nvidia-smi 2>/dev/null | sed -n 's/.*CUDA [A-Za-z ]*Version: *\([0-9][0-9]*\)\..*/\1/p' | head -n 1
    elif [ -r /proc/driver/nvidia/version ]; then # a container without the driver's tools
        sed -n 's/^NVRM version:.* \([0-9][0-9]*\)\.[0-9.]* .*/\1/p' /proc/driver/nvidia/version | head -n 1 |
            while read -r driver; do
                if [ "$driver" -ge 580 ]; then echo 13; elif [ "$driver" -ge 525 ]; then echo 12; else echo 11; fi
            done
    fi
}

# Whether "$1" is a Python that the chosen versions exist for.
usable() {
    "$1" -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $newest_minor))" >/dev/null 2>&1
}

cuda=$(driver_cuda)
newest_minor=99
case "$cuda" in
'') constraints=constraints-cu13.txt ;;
[0-9] | 10 | 11) fail "the NVIDIA driver of this machine reads CUDA $cuda only. gpubench needs a driver from 535 on" \
    "(CUDA 12.2). Update the driver, or install into an environment that has a torch for it (docs/installing.md)." ;;
12)
    constraints=constraints-cu12.txt
    newest_minor=13 # torch 2.8.0 has no wheel for a newer Python
    ;;
*) constraints=constraints-cu13.txt ;;
esac
if [ "${1:-}" = --constraints ]; then
    echo "$constraints"
    exit 0
fi

if [ -n "${WHEELS:-}" ]; then
    [ -d "$WHEELS" ] || fail "WHEELS: there is no folder $WHEELS. docs/installing.md says how one is filled."
    set -- "$WHEELS"/*.whl
    [ -e "$1" ] || fail "WHEELS: there are no wheels in $WHEELS. docs/installing.md says how it is filled."
fi

# make hands python3 on where nobody named one; whoever names another means that one.
named=${PYTHON:-python3}
if [ "$named" = python3 ]; then set -- python3 python3.12 python3.11 python3.13; else set -- "$named"; fi
python=
for candidate in "$@"; do
    if usable "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    found=$("$named" --version 2>/dev/null) || found="no $named"
    wanted="3.11 or newer"
    [ "$newest_minor" = 99 ] || wanted="3.11 to 3.$newest_minor"
    fail "gpubench needs Python $wanted for $constraints; found: $found. Install one, or name it:" \
        "make PYTHON=/path/to/python3.12"
fi

origin="made before; after \`make clean\` another can be taken"
if ! usable .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        fail "$python cannot make virtual environments: its module venv or ensurepip is missing." \
            "On Debian and Ubuntu: apt-get install python$version-venv"
    fi
    "$python" -m venv --clear .venv
    origin="from $(command -v "$python")"
fi

echo "Installing into .venv ($(.venv/bin/python --version), $origin)"
echo "with $constraints${cuda:+ (the driver reads CUDA $cuda)}${WHEELS:+, wheels from $WHEELS}"
set -- --constraint "$constraints"
[ -z "${WHEELS:-}" ] || set -- "$@" --no-index --find-links "$WHEELS"
# The build backend first and under the constraints as well: pip would otherwise fetch the newest one for the build.
.venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" setuptools
.venv/bin/python -m pip install --disable-pip-version-check --progress-bar off "$@" \
    --no-build-isolation --editable '.[models,jax,dev]'
