"""Chaos by hand: `python -m tests.e2e.chaos --faults 2000 --seed 1`; one storm again: `--seed N --faults 1 --keep`."""

import argparse
import sys

from tests.e2e.chaos import campaign, figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="how many, at least (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first storm; the next has the next number")
    parser.add_argument("--at-once", type=int, default=3, help="storms at the same time (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of storms with findings")
    chosen = parser.parse_args()
    found = campaign.carry_out(chosen.faults, chosen.seed, chosen.at_once, say, keep=chosen.keep)
    say("\n" + figures.table(found.figures))
    for seed, sentences in found.findings.items():
        say(f"\nseed {seed}: python -m tests.e2e.chaos --faults 1 --seed {seed} --keep")
        for sentence in sentences:
            say(f"  {sentence}")
    return 1 if found.findings else 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
