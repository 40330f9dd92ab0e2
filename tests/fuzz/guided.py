"""The process that `python -m tests.fuzz` starts: a target under atheris, with the options of libFuzzer."""

import functools
import random
import sys

import atheris

# What is imported here is instrumented, and nothing else: coverage of the code that reads is what guides.
with atheris.instrument_imports(include=["protocol", "orchestrator", "yaml", "tests.fuzz.targets"]):
    from tests.fuzz.target import Target
    from tests.fuzz.targets import TARGETS


def mutated(target: Target, data: bytes, longest: int, seed: int) -> bytes:
    """Changes of libFuzzer's own, which it guides best, and in turn those that leave a message whole."""
    chance = random.Random(seed)
    if chance.random() < 0.5:
        return bytes(atheris.Mutate(data, longest))
    return target.mutated(data, chance)[:longest]


def main(name: str, words: list[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    target = TARGETS[name]
    atheris.Setup([name, *words], target.check, custom_mutator=functools.partial(mutated, target))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
