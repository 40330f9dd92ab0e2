"""`python -m tests.fuzz TARGET --seconds N`: look for a defect with atheris, guided by the lines that an input reaches.

    python -m tests.fuzz journal --input out/fuzz/journal/crash-…      run one input again, with its traceback

What was learnt stays in out/fuzz/TARGET/corpus, and what raised is put beside it. Ends with 0 when nothing was found.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.targets import TARGETS


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="how long to look (default: 60)")
    parser.add_argument("--folder", type=Path, default=Path("out/fuzz"), help="where to keep what was learnt and found")
    parser.add_argument("--input", type=Path, help="run this file alone")
    asked = parser.parse_args(words)
    if asked.input is not None:
        TARGETS[asked.target].check(asked.input.read_bytes())
        return 0
    if find_spec("atheris") is None:
        parser.error("atheris is not installed; it has wheels for Linux on x86-64. The tests do without it.")
    folder: Path = asked.folder / asked.target
    seeds = TARGETS[asked.target].seeds()
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (folder / "corpus" / f"seed-{number}").write_bytes(seed)
    return _guided(asked.target, folder, asked.seconds, max(map(len, seeds)))


def _guided(target: str, folder: Path, seconds: int, longest_seed: int) -> int:
    """Run guided.py in a process of its own, which libFuzzer ends without giving its temporary files back."""
    # Without a disk behind them where that can be: a journal is synced whenever it is opened.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    options = {
        "max_total_time": seconds,
        "max_len": max(4096, longest_seed),
        "timeout": 20,  # an input that takes longer is a finding too
        "rss_limit_mb": 4096,
        "print_final_stats": 1,
        "artifact_prefix": f"{folder}/",
    }
    words = [f"-{name}={value}" for name, value in options.items()]
    with tempfile.TemporaryDirectory(prefix="gpubench-fuzz-", dir=memory) as scratch:
        command = [sys.executable, "-m", "tests.fuzz.guided", target, *words, str(folder / "corpus")]
        return subprocess.run(command, env={**os.environ, "TMPDIR": scratch}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
