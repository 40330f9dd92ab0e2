"""End of a measuring command: survive a closed terminal, run --on-failure and --on-finish.

    signals caught (stop_signals.py) ─▶ the command, which fills an Ending in ─▶ --on-failure, --on-finish

--on-finish runs at every end, even if the run is refused; --on-failure runs if the exit code is not 0. Neither runs
after a mistyped option or --dry-run.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from orchestrator.cli.decorators import SessionParams
from orchestrator.cli.streams import complain, say
from orchestrator.errors import StorageError, UserError
from orchestrator.system.stop_signals import StopSignals
from protocol.exit_codes import ExitCode

if TYPE_CHECKING:
    from orchestrator.config.run_configuration import StoredRun
    from orchestrator.engine.display_events import Display
    from orchestrator.figures.report import CellCounts, Report
    from orchestrator.metrics.exporters import Exporters
    from protocol.paths import RunPaths


NAMED: Final = 3  # devices named for each verdict that is not PASS


class Ending:
    """How a command ended, filled in while it runs.

    paths: of the run, None until it is known. report, report_path: the report and its file in the first requested
    format, None until it is written. why: reason for the exit code `code`, "" if it is 0. metrics: Prometheus metrics
    of the run, None if not requested.
    """

    def __init__(self, stop_signals: StopSignals) -> None:
        self.stop_signals = stop_signals
        self.paths: RunPaths | None = None
        self.report: Report | None = None
        self.report_path: Path | None = None
        self.code = ExitCode.PASSED
        self.why = ""
        self.metrics: Exporters | None = None

    def followed(self, stored: "StoredRun", display: "Display") -> "Display":
        """Return `display`, or if Prometheus metrics are requested, a display that also updates them."""
        return display if self.metrics is None else self.metrics.follow(stored, display)

    def reported(self, report: "Report", path: Path | None, code: ExitCode, why: str) -> None:
        """Store the attributes of this Ending, and update the metrics. path: None if no report could be written."""
        self.report, self.report_path, self.code, self.why = report, path, code, why
        if self.metrics is not None:
            self.metrics.judged(report)

    def line(self) -> str:
        """Return how the run ended, in one line for standard output and --on-finish; "" without a report."""
        if self.paths is None or self.report is None:
            return ""
        from orchestrator.report.device_labels import label_of

        verdict, cells = self.report.verdict.word, self.report.summary.cells
        gpus = () if self.report.burn_in is None else self.report.burn_in.gpus
        judged = {label_of(gpu.gpu_uuid, self.report): gpu.verdict for gpu in gpus}
        name, code = self.paths.folder.name, int(self.code)
        return in_one_line(name, verdict, cells, code, self.report_path, burn_in=judged, why=self.why)

    def environment(self, error: BaseException | None) -> dict[str, str]:
        """Return the variables GPUBENCH_* of the user's commands (hooks.py). error: what ended gpubench, or None."""
        return {
            "GPUBENCH_EXIT_CODE": str(int(self.code if error is None else exit_code_of(error))),
            "GPUBENCH_VERDICT": "" if self.report is None else self.report.verdict.word,
            "GPUBENCH_SUMMARY": self.line() if error is None else str(error) or type(error).__name__,
            "GPUBENCH_RUN_FOLDER": "" if self.paths is None else str(self.paths.folder.absolute()),
            "GPUBENCH_REPORT": "" if self.report_path is None else str(self.report_path.absolute()),
        }


def in_one_line(
    run: str,
    verdict: str,
    cells: "CellCounts",
    code: int,
    report: Path | str | None,
    *,
    burn_in: Mapping[str, str] = MappingProxyType({}),
    why: str = "",
) -> str:
    """Return how a run ended, in one line: "NAME: complete, 8 of 8 cells ok, exit code 0; report: PATH".

    run: name of its folder. report: its file. burn_in: label of a device → verdict. why: reason for the exit code.
    """
    missed = {
        **{"failed": cells.failed, "missing": cells.missing},
        **{"dropped because of the time limit": cells.dropped, "degraded": cells.degraded},
        **{"unsupported": cells.unsupported},
    }
    well = "measured at least once" if burn_in else "ok"  # the verdicts say what cells of a burn-in found
    counts = [f"{cells.ok} of {cells.planned} cells {well}", *(f"{n} {word}" for word, n in missed.items() if n)]
    where = "" if report is None else f"; report: {report}"
    judged = f"; burn-in: {', '.join(_judged(burn_in))};" if burn_in else ","
    because = f": {why}" if why else ""
    return f"{run}: {verdict}, {', '.join(counts)}{judged} exit code {code}{because}{where}"


def _judged(burn_in: Mapping[str, str]) -> Iterator[str]:
    """Yield "7 PASS", then for each other verdict "GPU 3 FAIL" for each device, or "5 FAIL" if more than NAMED have it.

    burn_in: label of a device, such as "GPU 3" → verdict.
    """
    from orchestrator.gpu.health.verdict import GRAVEST_FIRST, HealthVerdict

    for verdict in (HealthVerdict.PASS, *(other for other in GRAVEST_FIRST if other is not HealthVerdict.PASS)):
        having = [label for label, found in burn_in.items() if found == verdict]
        if having and (verdict is HealthVerdict.PASS or len(having) > NAMED):
            yield f"{len(having)} {verdict}"
        else:
            yield from (f"{label} {verdict}" for label in having)


@contextmanager
def announced(params: SessionParams, *, rehearsal: bool = False) -> Iterator[Ending]:
    """Catch stop signals within `with`, then run --on-failure (unless the run passed) and --on-finish.

    Yields the Ending that the body fills in. rehearsal: for --dry-run, which does not run the commands. Raises
    ConfigError for a command that cannot be run, or an unusable --metrics-file or --metrics-port.
    """
    from orchestrator.cli import hooks

    on_finish = hooks.parse(params["on_finish"], "--on-finish")
    on_failure = hooks.parse(params["on_failure"], "--on-failure")
    with StopSignals() as stop_signals:
        stop_signals.spare(0)
        ending, error = Ending(stop_signals), None
        try:
            ending.metrics = _metrics(params, rehearsal=rehearsal)
            yield ending
        except BaseException as caught:
            error = caught
            raise
        finally:
            stop_signals.spare(0)
            if ending.metrics is not None:
                ending.metrics.close()
                if ending.metrics.problem:
                    complain(f"warning: the file of --metrics-file is outdated: {ending.metrics.problem}")
            if error is not None:
                _broke_off(ending, error)
            if not rehearsal:
                failed = error is not None or ending.code is not ExitCode.PASSED
                environment = ending.environment(error)
                _notify("--on-failure", on_failure if failed else (), environment, ending.paths)
                _notify("--on-finish", on_finish, environment, ending.paths)


def _metrics(params: SessionParams, *, rehearsal: bool) -> "Exporters | None":
    file, port = params["metrics_file"], params["metrics_port"]
    if file is None and port is None:
        return None
    from orchestrator.metrics import exporters

    if rehearsal:
        exporters.require(file, port)
        return None
    return exporters.opened(file, port)


def _broke_off(ending: Ending, error: BaseException) -> None:
    if ending.paths is None or ending.report is not None or isinstance(error, UserError):
        return  # a refused command never started
    folder = ending.paths.folder
    try:
        say(f"{folder.name}: ended early, exit code {int(exit_code_of(error))}; run: {folder}")
    except StorageError as unsaid:
        complain(f"warning: {unsaid}")


def _notify(option: str, words: tuple[str, ...], environment: Mapping[str, str], paths: "RunPaths | None") -> None:
    from orchestrator.cli import hooks

    if not words:
        return
    log = None if paths is None else paths.log(option.strip("-"))
    wrong = hooks.call(words, environment, log)
    if wrong:
        printed = "" if log is None or not log.exists() else f"; its output is in {log}"
        complain(f"warning: the command of {option} {wrong}{printed}")


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code of gpubench if `error` ends it: the same as program.py gives."""
    match error:
        case UserError():
            return ExitCode.USAGE
        case KeyboardInterrupt():
            return ExitCode.INCOMPLETE
        case _:
            return ExitCode.INTERNAL
