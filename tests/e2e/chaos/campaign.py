"""Storm after storm until enough faults have happened: what was found, and the figures."""

import itertools
import shutil
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from tests.e2e.chaos import checker, figures, storm
from tests.e2e.chaos.figures import Figures
from tests.e2e.chaos.ledger import Ledger
from tests.fakes import cuda, nvml


@dataclass
class Found:
    """findings: by the seed that makes them. faults: how many happened. kinds: which, from outside or of a cell."""

    figures: Figures = field(default_factory=Figures)
    findings: dict[int, list[str]] = field(default_factory=dict)
    faults: int = 0
    kinds: set[str] = field(default_factory=set)


def carry_out(faults: int, seed: int, at_once: int, tell: Callable[[str], None], *, keep: bool = False) -> Found:
    """Make storms with the seeds seed, seed + 1, …, `at_once` of them together. keep: folders with findings."""
    nvml.library_folder(), cuda.library_folder()
    found, seeds = Found(), itertools.count(seed)
    with ThreadPoolExecutor(at_once) as pool:
        running: set[Future[tuple[Ledger, Figures, list[str], str]]] = set()
        while found.faults < faults or running:
            while len(running) < at_once and found.faults + len(running) * storm.HITS < faults:
                running.add(pool.submit(_one, next(seeds), keep=keep))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                ledger, sums, sentences, words = future.result()
                found.faults += ledger.faults
                found.kinds |= {hit.kind for hit in ledger.hits} | {ledger.planted[model] for model in ledger.sprung}
                found.figures.add(sums)
                if sentences:
                    found.findings[ledger.seed] = sentences
                tell(words)
    return found


def _one(seed: int, *, keep: bool) -> tuple[Ledger, Figures, list[str], str]:
    place = storm.place(seed)
    sentences: list[str] = []
    try:
        ledger = storm.Storm(seed, place).run()
        sentences = ledger.findings + checker.check(ledger)
        sums = Figures() if any("cannot be read" in one for one in sentences) else figures.of(ledger)
    finally:
        kept = keep and bool(sentences)
        if not kept:
            shutil.rmtree(place)
    words = f"seed {seed}: {ledger.faults} faults, {len(ledger.lives)} lives, {len(sentences)} findings"
    return ledger, sums, sentences, words + (f", kept in {place}" if kept else "")
