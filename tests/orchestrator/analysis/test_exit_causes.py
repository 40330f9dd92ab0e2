"""The exit code of a run: each code other than 0 comes with a cause, in words and of a kind."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.analysis import evidence
from orchestrator.analysis.report_builder import merge
from orchestrator.compare import references
from orchestrator.compare.references import Against
from orchestrator.compare.thresholds import Threshold
from orchestrator.figures.exit_code import CODES, Cause, CauseKind, RunVerdict, run_verdict
from orchestrator.figures.report import Report
from orchestrator.figures.table import LimitName
from orchestrator.gpu.health.records import LOOK_NS, Vitals, Watch
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.kinds import registry
from protocol import codec
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from protocol.failure import Category
from tests.fakes.health import WELL
from tests.fakes.runs import BOOT, SECOND_NS, FakeRun, gpus

CODE_GRAVEST_FIRST = (ExitCode.INTERNAL, ExitCode.HARDWARE, ExitCode.MISSED, ExitCode.INCOMPLETE)


def assert_explained(verdict: RunVerdict) -> None:
    """The first cause is of the exit code; 0 has none, every other code has one, in words."""
    assert (verdict.exit_code == ExitCode.PASSED) == (not verdict.causes)
    assert bool(verdict.why) == bool(verdict.causes)
    assert all(cause.text.strip() for cause in verdict.causes)
    assert [cause.text for cause in verdict.causes] == list(verdict.reasons[: len(verdict.causes)])
    if verdict.causes:
        assert CODES[verdict.causes[0].kind] == verdict.exit_code
        injected = [cause for cause in verdict.causes if cause.kind is CauseKind.TAINTED]
        first = injected if verdict.exit_code != ExitCode.INTERNAL else []
        assert verdict.why.startswith([*first, *verdict.causes][0].text)


CAUSES = st.lists(st.builds(Cause, kind=st.sampled_from(CauseKind), text=st.text("abc", min_size=1)), max_size=5)


@given(causes=CAUSES, remarks=st.lists(st.text("abc", min_size=1), max_size=3))
def test_the_gravest_cause_decides(causes: list[Cause], remarks: list[str]) -> None:
    """Whatever counts against a run, its code is that of the gravest cause, which comes first; nothing is lost."""
    verdict = run_verdict(causes, remarks)
    assert_explained(verdict)
    codes = [CODES[cause.kind] for cause in verdict.causes]
    assert all(CODE_GRAVEST_FIRST.index(one) <= CODE_GRAVEST_FIRST.index(other) for one, other in pairwise(codes))
    assert sorted(verdict.reasons) == sorted([*(cause.text for cause in causes), *remarks])
    assert list(verdict.remarks) == remarks


@given(causes=CAUSES)
def test_a_test_is_called_one_first(causes: list[Cause]) -> None:
    """A run with injected faults may not read as one of faulty hardware; its exit code stays."""
    others = [cause for cause in causes if cause.kind is not CauseKind.TAINTED]
    verdict, real = (run_verdict([*others, *more], ()) for more in ((Cause(kind=CauseKind.TAINTED, text="it"),), ()))
    assert verdict.why.startswith("it") == (verdict.exit_code != ExitCode.INTERNAL)
    assert (verdict.word == real.word) == (verdict.exit_code == ExitCode.INTERNAL)
    assert verdict.exit_code == (real.exit_code or ExitCode.INCOMPLETE)


END = st.sampled_from(["finished", "interrupted", "broken", "died", "goes on"])
CELL = st.sampled_from(["measured", "failed", "missing", "dropped", "one launch", "out of memory"])


@given(
    cells=st.tuples(CELL, CELL, CELL, CELL),
    end=END,
    health=st.sampled_from(["well", "fault", "warning", "unread", "none"]),
    limit=st.sampled_from([None, 1e-9, 1e9, "absent"]),
)
@settings(max_examples=40)
@example(cells=("one launch",) * 4, end="finished", health="well", limit=None)
@example(cells=("measured",) * 4, end="finished", health="unread", limit=None)
def test_every_code_but_0_has_a_cause(cells: tuple[str, ...], end: str, health: str, limit: float | str | None) -> None:
    """Of runs whose cells, end, health and thresholds vary. All cells may be ok, and the code 4: then it says why."""
    with TemporaryDirectory() as folder:
        report = made(Path(folder) / "run", cells, end, health)
    if limit is not None:
        least, models = (1.0, ("absent",)) if isinstance(limit, str) else (limit, ())
        wanted = {"name": "a limit", "figure": LimitName.THROUGHPUT, "phase": Workload.INFERENCE}
        report = references.hold(report, Against(thresholds=(Threshold(**wanted, at_least=least, models=models),)))
    assert_explained(report.verdict)
    if end == "finished" and health == "well" and limit is None and set(cells) == {"one launch"}:
        assert report.summary.cells.ok == 4
        assert [cause.kind for cause in report.verdict.causes] == [CauseKind.LAUNCHES]


def made(folder: Path, cells: tuple[str, ...], end: str, health: str) -> Report:
    """The report of a run of two launches of two cells on two GPUs."""
    run = FakeRun(folder, devices=gpus(2), batch_sizes=(1, 8), launches=2, watched=health == "well")
    for cell, what in zip(run.stored.plan.cells, cells, strict=True):
        if what == "one launch":
            run.failed(cell)
            run.measured(cell, number=1)
            continue
        for number in range(2):
            if what == "measured":
                run.measured(cell, number=number)
            elif what == "dropped":
                run.dropped(cell, "no time was left", number=number)
            elif what != "missing":
                category = Category.EXCEPTION if what == "failed" else Category.OUT_OF_MEMORY
                run.failed(cell, category, number=number, batch_size=1 if what == "out of memory" else None)
    if health in HEALTH:
        for number in range(2):
            run.samples(number)
        look(run, HEALTH[health])
    if end in ("finished", "interrupted", "broken"):
        stopped = end != "finished"
        run.finish(interrupted=stopped, reason="no room" if stopped else "", broken=end == "broken")
    loaded = run.archive()
    found = evidence.gather(loaded, goes_on=end == "goes on")
    return merge(loaded, found, registry.of(loaded.stored.configuration).report)


HEALTH = {"fault": {"rows_failed": 1}, "warning": {"ecc_corrected": 99}, "unread": {"gpu_margin_c": None}}


def look(run: FakeRun, changes: dict[str, int | None]) -> None:
    """Looks at both GPUs over the whole run, with other values of GPU 1 in the end; None: it cannot be read."""
    run.paths.telemetry.mkdir(exist_ok=True)
    file = FrameFile(run.paths.health)
    file.append(codec.encode(Watch(at_ns=1_000 * SECOND_NS, boot_id=BOOT, kernel_log=True)))
    for at_ns in (*range(1_000 * SECOND_NS, run.now_ns, LOOK_NS), run.now_ns):
        for number, device in enumerate(run.stored.devices):
            shown = WELL | (changes if number == 1 and at_ns == run.now_ns else {})
            values = {name: value for name, value in shown.items() if value is not None}
            refusals = {name: "NVML error 999" for name, value in shown.items() if value is None}
            file.append(codec.encode(Vitals(at_ns=at_ns, uuid=device.uuid, values=values, refusals=refusals)))
    file.close()
