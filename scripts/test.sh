#!/bin/sh
# Runs every test but the slow ones, with the linters beside them. Fails if any of these fails, and says which.
#
#   make lint              at low priority   ──▶ a file, printed after pytest if something is wrong
#   pytest                 a process a core, and two more ──▶ the terminal
#   pytest, tests of GPUs  one process ──▶ the terminal, where there is an NVIDIA driver
#
# Many tests wait for other processes: two more of them than cores take a tenth less time than one more. Files run in
# alphabetical order: ordered by their number of tests, the longest would come last.
set -u
cd "$(dirname "$0")/.."
python=.venv/bin/python
unset PYTHONDONTWRITEBYTECODE # tests start hundreds of processes, each of which would compile all modules again
failed=
driver=false
fast='not slow'
if command -v nvidia-smi >/dev/null 2>&1 || [ -e /proc/driver/nvidia/version ]; then
    driver=true
    fast='not slow and not gpu' # those fill the memory of the GPU: they run one at a time
fi

lint=$(mktemp)
nice -n 5 make --no-print-directory lint >"$lint" 2>&1 &
linter=$!
trap 'kill "$linter" 2>/dev/null; rm -f "$lint"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

$python -m pytest -m "$fast" --numprocesses $(($(nproc) + 2)) --dist loadfile --no-loadscope-reorder || failed="$failed pytest"
if $driver; then
    # Reading all files takes longer than these tests: only those that name the mark are read.
    grep -rl --include='*.py' 'mark\.gpu' tests | xargs $python -m pytest -m 'not slow and gpu' ||
        failed="$failed pytest (GPU)"
fi
if ! wait "$linter"; then
    failed="$failed lint"
    cat "$lint"
fi
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
