#!/bin/sh
# Measures a baseline of this machine's GPUs, checks it with a second run, and puts it among those that ship.
#
#   run ──▶ make-baseline ──▶ NAME.json     run again ──▶ compare with it ──▶ configs/baselines/NAME.json
#
# $1       NAME, such as h200-141gb-bf16
# others   options of `run`, in place of all phases and precisions
set -eu
cd "$(dirname "$0")/.."

name=${1:-}
if [ -z "$name" ] || [ -e "configs/baselines/$name.json" ]; then
    echo "error: expected a new name, got '$name'. Type: make baseline NAME=<gpu>-<memory>, such as h200-141gb-bf16" >&2
    exit 2
fi
shift
[ $# -gt 0 ] || set -- --phases load,inference,training,generation -p fp32,tf32,bf16,fp16

python=.venv/bin/python
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
$python -m orchestrator run --profile rigorous --solo "$@" -o "$folder/first.json"
$python -m orchestrator make-baseline "$folder/first.json" -o "$folder/$name.json" --gpu-bound
$python -m orchestrator run --profile rigorous --solo "$@" -o "$folder/second.json"
$python -m orchestrator compare "$folder/$name.json" "$folder/second.json" || true
# The exit code of `compare` allows what a baseline may not have.
$python -m orchestrator compare "$folder/$name.json" "$folder/second.json" --format json >"$folder/compared.json" || true
$python - "$folder/compared.json" <<'EOF'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    [compared] = json.load(file)["comparisons"]
verdicts = [cell["verdict"] for cell in compared["cells"]]
same, changed = verdicts.count("SAME"), verdicts.count("FASTER") + verdicts.count("SLOWER")
print(f"A second run is SAME in {same} of {len(verdicts)} cells, and FASTER or SLOWER in {changed}.")
if 5 * same < 4 * len(verdicts) or 100 * changed > len(verdicts):
    sys.exit(
        "error: a baseline needs SAME in four cells of five, and FASTER or SLOWER in at most one of a hundred. "
        "Nothing was put into configs/baselines. End other programs, or choose larger batches: OPTIONS='-b 64'."
    )
EOF
mv "$folder/$name.json" configs/baselines/
echo "configs/baselines/$name.json is ready. configs/baselines/README.md says how to send it in."
