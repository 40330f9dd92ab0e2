"""Looks at GPUs that are not there, for tests of what they mean: values of a GPU that is well, and how to spoil them.

verdict.of_gpu(case(course({}, {"rows_failed": 1})), ())        # well at the first look, then a row that failed
"""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.config.health_signals import Board, BoardClass
from orchestrator.gpu.health import limits
from orchestrator.gpu.health.clocks import ClockUse
from orchestrator.gpu.health.course import Course
from orchestrator.gpu.health.judges import Case, State
from orchestrator.gpu.health.records import NodeVitals, Vitals, Watch
from orchestrator.gpu.health.verdict import Opinion
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.gpu.telemetry.samples import SampleFile
from protocol import codec
from protocol.messages import Sample
from protocol.paths import RunPaths

SECOND_NS = 1_000_000_000
H200 = Board("NVIDIA H200", "Hopper", BoardClass.PROFESSIONAL, nvlinks=18, bridged=True)
RTX = Board("NVIDIA GeForce RTX 4090", "Ada", BoardClass.CONSUMER)
V100 = Board("Tesla V100-PCIE-16GB", "Volta", BoardClass.PROFESSIONAL)
WELL = {
    **dict.fromkeys(("ecc_uncorrected", "ecc_corrected", "ecc_uncorrected_lifetime", "sram_threshold"), 0),
    **dict.fromkeys(("rows_pending", "rows_failed", "retired_pages", "recovery_action", "thermal_violation_ns"), 0),
    **dict.fromkeys(("pcie_replays", "nvlink_errors", "fabric_status"), 0),
    **{"gpu_margin_c": 40, "memory_margin_c": 40, "gpu_percent": 99, "nvlinks_up": 18, "fabric_state": 3},
    **{"power_limit_mw": 700_000, "power_default_mw": 700_000},
    **{"pcie_generation": 5, "pcie_generation_max": 5, "pcie_width": 16, "pcie_width_max": 16},
}
LINKS = ("nvlinks_up", "nvlink_errors", "fabric_state", "fabric_status")
UNLINKED = {name: value for name, value in WELL.items() if name not in LINKS} | {"peers": 0}
"""A GPU that is the only one of a virtual machine, where the driver calls all of its LINKS unsupported."""
RULES = limits.load()


def course(*looks: dict[str, int], refusals: dict[str, str] | None = None) -> Course:
    """A minute of looks at one GPU, ten seconds apart; the last of those that are given lasts."""
    given = [WELL | look for look in looks] or [WELL]
    made = Course()
    for number in range(7):
        values = given[min(number, len(given) - 1)]
        values = {name: value for name, value in values.items() if name not in (refusals or {})}
        made.take(values, refusals or {}, 10.0 if number else 0.0)
    return made


def case(seen: Course, board: Board = H200, **others: object) -> Case:
    """What is known of one GPU that is well but for what is said."""
    use = others.pop("use", ClockUse(readings=600))
    return Case(board=board, course=seen, limits=RULES.limits, use=use, **others)  # type: ignore[arg-type]  # Case's own


def state(opinion: Opinion, signal: str) -> State:
    return next(one.judgement.state for one in opinion.findings if one.name == signal)


@dataclass
class Span:
    boot_id: str
    begin_ns: int
    end_ns: int


def sound(paths: RunPaths, uuids: Sequence[str], spans: Sequence[Span]) -> None:
    """Write telemetry of healthy GPUs: a look every ten seconds, and samples unless a test has written them."""
    if not uuids:
        return
    paths.telemetry.mkdir(exist_ok=True)
    silent = [uuid for uuid in uuids if not paths.samples(uuid).exists()]
    file = FrameFile(paths.health)
    for span in spans:
        file.append(codec.encode(Watch(at_ns=span.begin_ns, boot_id=span.boot_id, kernel_log=True)))
        moments = [*range(span.begin_ns, span.end_ns, 10 * SECOND_NS), span.end_ns]
        for at_ns in moments:
            for uuid in uuids:
                file.append(codec.encode(Vitals(at_ns=at_ns, uuid=uuid, values=WELL)))
            file.append(codec.encode(NodeVitals(at_ns=at_ns, values={"aer_fatal": 0})))
        for uuid in silent:
            samples = SampleFile(paths.samples(uuid), span.boot_id)
            samples.append([Sample(at_ns=at_ns, reasons=0) for at_ns in moments])
            samples.close()
    file.close()
