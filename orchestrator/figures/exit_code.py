"""Exit code of a run, derived from the causes that count against the run. Pure."""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.parts import Part
from protocol.exit_codes import MEANING, ExitCode


class CauseKind(enum.StrEnum):
    """Kinds of causes that count against a run. Of several causes, the kind listed first decides the exit code.

    SLOWER, UNDECIDED: a gate's comparison found a regression, or gave no verdict on a cell. MISSED, NOT_HELD: a figure
    missed a threshold, or could not be judged by it. WRONG: wrong output of an operator or a compiled model. STOPPED:
    also a run that is still running. CELLS: cells failed or were not measured, or operators failed at some shapes.
    MEMORY: a cell ran out of memory on one GPU, and fits on another of the same kind. TIME: the time limit left no
    time.
    """

    BROKEN = "gpubench failed"
    FAULT = "hardware fault"
    MISSED = "threshold missed"
    SLOWER = "slower"
    WRONG = "wrong result"
    UNPROVEN = "injected fault never came"
    TAINTED = "faults were injected"
    STOPPED = "stopped early"
    CELLS = "cells without a result"
    MEMORY = "out of memory on one GPU of several"
    LAUNCHES = "fewer launches than planned"
    TIME = "no time for any cell"
    HEALTH = "health unknown"
    BURN_IN = "burn-in unknown"
    NOT_HELD = "threshold not judged"
    UNDECIDED = "not every cell compared"


CODES: Final[Mapping[CauseKind, ExitCode]] = {
    **dict.fromkeys(CauseKind, ExitCode.INCOMPLETE),
    CauseKind.BROKEN: ExitCode.INTERNAL,
    CauseKind.FAULT: ExitCode.HARDWARE,
    CauseKind.MISSED: ExitCode.MISSED,
    CauseKind.SLOWER: ExitCode.MISSED,
    CauseKind.WRONG: ExitCode.MISSED,
}
COMPARED: Final = frozenset({CauseKind.MISSED, CauseKind.NOT_HELD, CauseKind.SLOWER, CauseKind.UNDECIDED})
"""Kinds of causes from thresholds or other runs. They do not show how the run itself ended."""
_WORDS: Final[Mapping[ExitCode | CauseKind, str]] = {
    ExitCode.PASSED: "complete",
    ExitCode.HARDWARE: "hardware fault",
    ExitCode.MISSED: "threshold missed",
    ExitCode.INCOMPLETE: "incomplete",
    ExitCode.INTERNAL: "incomplete",
    CauseKind.SLOWER: "slower",
    CauseKind.WRONG: "wrong",
    CauseKind.UNDECIDED: "undecided",
    CauseKind.TAINTED: "test with injected faults",
}
_IMPORTANCE: Final = tuple(CauseKind)


class Cause(Part, frozen=True, kw_only=True):
    """A reason why the exit code of the run is not 0."""

    kind: CauseKind
    text: str


class RunVerdict(Part, frozen=True, kw_only=True):
    """Exit code of the run, its meaning, and every reason for it.

    word: the verdict in a word, such as "complete". causes: most important first; empty for exit code 0 and in reports
    of earlier versions. reasons: texts of the causes, then remarks without influence on the exit code.
    """

    exit_code: int
    word: str
    meaning: str
    reasons: tuple[str, ...]
    causes: tuple[Cause, ...] = ()

    @property
    def why(self) -> str:
        """Most important reason: "1 cell failed (and 2 more reasons for exit code 4)"; empty for exit code 0.

        A fault of gpubench itself comes first, then injected faults, then the other causes in the order of CauseKind.
        The number of further reasons is omitted after injected faults, because the other causes are their effects.
        """
        first = {CauseKind.BROKEN: 0, CauseKind.TAINTED: 1}
        ordered = sorted(self.causes, key=lambda cause: first.get(cause.kind, 2))
        texts = [cause.text for cause in ordered] or list(self.reasons)
        if self.exit_code == ExitCode.PASSED or not texts:
            return ""
        more = 0 if ordered and ordered[0].kind is CauseKind.TAINTED else len(texts) - 1
        return texts[0] + (f" (and {plural(more, 'more reason')} for exit code {self.exit_code})" if more else "")

    @property
    def remarks(self) -> tuple[str, ...]:
        """Reasons that do not change the exit code; in reports of earlier versions, all reasons."""
        return self.reasons[len(self.causes) :]


def run_verdict(causes: Iterable[Cause], remarks: Iterable[str]) -> RunVerdict:
    """Return the verdict. The most important of `causes` (any order) decides. remarks: texts that do not affect it."""
    ordered = tuple(sorted(causes, key=lambda cause: _IMPORTANCE.index(cause.kind)))
    code = CODES[ordered[0].kind] if ordered else ExitCode.PASSED
    test = any(cause.kind is CauseKind.TAINTED for cause in ordered) and code != ExitCode.INTERNAL
    decisive = CauseKind.TAINTED if test else ordered[0].kind if ordered else code
    return RunVerdict(
        exit_code=int(code),
        word=_WORDS.get(decisive, _WORDS[code]),
        meaning=MEANING[code],
        reasons=(*(cause.text for cause in ordered), *remarks),
        causes=ordered,
    )
