"""Checks of links (launches on several devices): mismatches of each device, and rates. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

import msgspec

from orchestrator.analysis.evidence import LaunchEvidence
from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import StoredRun
from orchestrator.figures.burn_in import LinksReport
from orchestrator.kinds.burn_in import blame, verdict
from orchestrator.kinds.burn_in.bit_comparison import Deviation
from orchestrator.kinds.burn_in.blame import Blamed
from orchestrator.kinds.burn_in.planning import linked
from protocol.cell import Cell, Device, Workload
from protocol.result import SeriesName
from protocol.verification import Mismatch, Verification

LATER: Final = ": later rounds"  # Suffix of links that were tested, but not until the end of the burn-in
_NONE = "the device has none in this run"
_SLICE = "a slice of a GPU has no links of its own"


class Accused(NamedTuple):
    """Devices that explain wrong copies. labels: UUID of any device → "GPU 0".

    culprits: UUID → number of devices with which its copies were wrong; 0 for a device proven faulty in another way.
    """

    culprits: Mapping[str, int]
    labels: Mapping[str, str]


class Attributed(NamedTuple):
    """What one device verified in a launch, with only those mismatches that count against it.

    verification: None if the device verified nothing. doubts: for each mismatch with details, why another device may be
    at fault, or "". unclear: in a launch on several devices, number of mismatches without details, if none with details
    counts against this device; else 0.
    """

    verification: Verification | None
    doubts: tuple[str, ...] = ()
    unclear: int = 0


def seen_by(cell: Cell, evidence: LaunchEvidence) -> dict[str, Verification]:
    """Return device UUID → what it verified in a launch with a result. Devices that verified nothing are missing."""
    result = evidence.result
    own = {} if result.verification is None else {cell.devices[0]: result.verification}
    return own | result.others


def accused(
    launches: Sequence[tuple[Cell, Mapping[str, Verification]]],
    deviations: Iterable[Deviation],
    devices: Iterable[Device],
) -> Accused:
    """Return the devices that explain wrong copies. launches: (cell, device UUID → what it verified) of each.

    A device is proven faulty if it had wrong results when it worked alone, or if it is in `deviations`, the launches
    with unexpected bits. Wrong results that suggest another algorithm prove nothing. devices: all devices of the run.
    """
    transfers = [seen for cell, seen in launches if cell.workload is Workload.LINKS]
    proven = {one.sample.device for one in deviations}
    for cell, seen in launches:
        if len(cell.devices) == 1:
            proven.update(device for device, one in seen.items() if _is_proof(one))
    return Accused(blame.culprits(transfers, proven), {device.uuid: device.label for device in devices})


def _is_proof(verification: Verification) -> bool:
    return verification.mismatches > 0 and not (
        verification.kept and all(map(verdict.another_algorithm, verification.kept))
    )


def attributed(
    seen: Mapping[str, Verification], cell: Cell, device: str, accused: Accused, *, cut_off: bool = False
) -> Attributed:
    """Return what one device verified in a launch, with only the mismatches that count against it.

    seen: device UUID → what it verified. accused: devices that explain wrong copies. cut_off: the launch ended before
    all devices had a result, which makes the origin of a wrong sum doubtful.
    """
    own = seen.get(device)
    if own is None or len(cell.devices) == 1:
        return Attributed(own, () if own is None else ("",) * len(own.kept))
    mine = [one for one in blame.blamed(seen, accused.culprits, cut_off=cut_off) if one.device == device]
    more = sum(one.mismatches - len(one.kept) for one in (seen.values() if mine else (own,)))
    kept = tuple(_describe(one, accused) for one in mine)
    doubts = tuple(_doubt(one, accused, cut_off=cut_off) for one in mine)
    verified = msgspec.structs.replace(own, mismatches=len(kept) + more, kept=kept)
    return Attributed(verified, doubts, 0 if mine else more)


def count_wrong(launches: Iterable[tuple[Cell, Mapping[str, Verification]]]) -> int:
    """Count the mismatches in checks of links, each once. launches: (cell, device UUID → what it verified) of each."""
    return sum(
        verification.mismatches
        for cell, seen in launches
        if cell.workload is Workload.LINKS
        for verification in seen.values()
    )


def not_tested(device: Device, run: StoredRun, quarantined: Collection[str]) -> dict[str, str]:
    """Return check of links → why the device was not tested by it. quarantined: UUIDs of devices.

    A device without links has the key "links". Other keys name a check that was cut short by the quarantine of another
    device: "peers links fp32: later rounds".
    """
    if not linked(device, run.devices):
        return {Workload.LINKS: _NONE if device.slice_of is None else _SLICE}
    labels = {other.uuid: other.label for other in run.devices}
    reasons = {}
    for cell in run.plan.cells:
        out = [labels[uuid] for uuid in cell.devices if uuid in quarantined and uuid != device.uuid]
        if cell.workload is Workload.LINKS and device.uuid in cell.devices and out:
            what = f"{cell.model} {cell.workload} {cell.precision}{LATER}"
            were = "was" if len(out) == 1 else "were"
            reasons[what] = f"{' and '.join(out)} {were} quarantined, and this check needs all devices"
    return reasons


def rates(good: Sequence[tuple[Cell, LaunchEvidence]]) -> Iterator[LinksReport]:
    """Yield the rates of each check of links in `good` (valid launches): medians over launches, None if unmeasured."""
    cells = {cell.id: cell for cell, _ in good if cell.workload is Workload.LINKS}
    for cell_id, cell in cells.items():
        launches = [evidence for of, evidence in good if of.id == cell_id]
        size = len(cell.devices)
        added_up = _rate(launches, SeriesName.ALL_REDUCE)
        yield LinksReport(
            gpu_uuids=cell.devices,
            precision=cell.precision,
            connection=next(
                (launch.result.verification.method for launch in launches if launch.result.verification is not None), ""
            ),
            launches=len(launches),
            copies_gb_per_second=_rate(launches, SeriesName.COPIES),
            all_reduce_gb_per_second=added_up,
            all_reduce_bus_gb_per_second=None if added_up is None else added_up * 2 * (size - 1) / size,
            to_host_gb_per_second=_rate(launches, SeriesName.TO_HOST),
            to_device_gb_per_second=_rate(launches, SeriesName.TO_DEVICE),
        )


def _describe(blamed: Blamed, accused: Accused) -> Mismatch:
    if blamed.ends is None:
        way = " (the device or the path to it is at fault)" if blamed.mismatch.of_all and not blamed.doubtful else ""
        return msgspec.structs.replace(blamed.mismatch, what=f"{blamed.mismatch.what}{way}")
    sender, receiver = (accused.labels[end] for end in blamed.ends)
    cause = " (one of the two or the path between them is at fault)" if blamed.link else ""
    if blamed.culprit == blamed.device:
        cause = f" ({_fault_of(blamed.device, accused)})"
    return msgspec.structs.replace(blamed.mismatch, what=f"copy from {sender} to {receiver}{cause}")


def _doubt(blamed: Blamed, accused: Accused, *, cut_off: bool) -> str:
    if not blamed.doubtful:
        return ""
    if blamed.culprit is not None:
        clue = "sum does not show which device" if blamed.ends is None else "copy does not show which end"
        return f"Cannot be attributed: a wrong {clue} caused it. It is {_fault_of(blamed.culprit, accused)}"
    when = "were wrong too, or not checked yet" if cut_off else "were wrong too"
    return f"Cannot be attributed: results of other devices {when}. One of them, or the path between, may be at fault"


def _fault_of(culprit: str, accused: Accused) -> str:
    why = "which also had wrong results in checks without transfers"
    if others := accused.culprits[culprit]:
        why = f"whose copies with {plural(others, 'device')} were wrong, or the fault of a path that these copies share"
    return f"probably the fault of {accused.labels[culprit]}, {why}"


def _rate(launches: Sequence[LaunchEvidence], series: SeriesName) -> float | None:
    rates_gb = [
        launch.result.bytes_per_iteration[series] / launch.figures.means_ms[series] / 1e6
        for launch in launches
        if series in launch.result.bytes_per_iteration and launch.figures.means_ms.get(series)
    ]
    return median(rates_gb) if rates_gb else None
