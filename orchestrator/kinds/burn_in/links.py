"""Launches on several devices: each device's share in them, and their rates. Pure."""

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

LATER: Final = ": in later rounds"
"""Suffix of links that were tested, but not until the end of the burn-in."""
_NONE = "it has none in this run"
_SLICE = "a slice of a GPU has no links of its own"


class Accused(NamedTuple):
    """Devices that explain wrong copies (blame.culprits), and the labels of all devices."""

    culprits: Mapping[str, int]
    labels: Mapping[str, str]


class Attributed(NamedTuple):
    """What one device of a launch verified, with the mismatches that count against it. None: nothing.

    doubts: for each mismatch why it may be no fault of this device, or "". unclear: more of them without details.
    """

    verification: Verification | None
    doubts: tuple[str, ...] = ()
    unclear: int = 0


def seen_by(cell: Cell, evidence: LaunchEvidence) -> dict[str, Verification]:
    """Return what each device found in a launch with a result."""
    result = evidence.result
    own = {} if result.verification is None else {cell.devices[0]: result.verification}
    return own | result.others


def accused(
    launches: Sequence[tuple[Cell, Mapping[str, Verification]]],
    deviations: Iterable[Deviation],
    devices: Iterable[Device],
) -> Accused:
    """Return the devices that explain wrong copies. A device with errors while it works alone is proven faulty."""
    transfers = [seen for cell, seen in launches if cell.workload is Workload.LINKS]
    proven = {one.sample.device for one in deviations}
    for cell, seen in launches:
        if len(cell.devices) == 1:
            proven.update(device for device, one in seen.items() if _is_proof(one))
    return Accused(blame.culprits(transfers, proven), {device.uuid: device.label for device in devices})


def _is_proof(found: Verification) -> bool:
    return found.mismatches > 0 and not (found.kept and all(map(verdict.another_algorithm, found.kept)))


def attributed(
    seen: Mapping[str, Verification], cell: Cell, device: str, accused: Accused, *, cut_off: bool = False
) -> Attributed:
    """Return what a launch says of one of its devices. cut_off: the launch ended before all devices had a result."""
    own = seen.get(device)
    if own is None or len(cell.devices) == 1:
        return Attributed(own, () if own is None else ("",) * len(own.kept))
    mine = [one for one in blame.blamed(seen, accused.culprits, cut_off=cut_off) if one.device == device]
    more = sum(one.mismatches - len(one.kept) for one in (seen.values() if mine else (own,)))
    kept = tuple(_in_words(one, accused) for one in mine)
    doubts = tuple(_doubt(one, accused, cut_off=cut_off) for one in mine)
    verified = msgspec.structs.replace(own, mismatches=len(kept) + more, kept=kept)
    return Attributed(verified, doubts, 0 if mine else more)


def found_wrong(launches: Iterable[tuple[Cell, Mapping[str, Verification]]]) -> int:
    """Count wrong copies, sums and own numbers, each once. Each may count against two devices."""
    return sum(
        found.mismatches for cell, seen in launches if cell.workload is Workload.LINKS for found in seen.values()
    )


def not_tested(device: Device, run: StoredRun, taken_out: Collection[str]) -> dict[str, str]:
    """Return why links of a device are not tested, or no longer. taken_out: quarantined devices."""
    if not linked(device, run.devices):
        return {Workload.LINKS: _NONE if device.slice_of is None else _SLICE}
    labels = {other.uuid: other.label for other in run.devices}
    found = {}
    for cell in run.plan.cells:
        out = [labels[uuid] for uuid in cell.devices if uuid in taken_out and uuid != device.uuid]
        if cell.workload is Workload.LINKS and device.uuid in cell.devices and out:
            what = f"{cell.workload} {cell.model} {cell.precision}{LATER}"
            found[what] = f"{' and '.join(out)} was taken out, and all of them are needed"
    return found


def rates(good: Sequence[tuple[Cell, LaunchEvidence]]) -> Iterator[LinksReport]:
    """Return the rates of each link cell: medians over its launches."""
    cells = {cell.id: cell for cell, _ in good if cell.workload is Workload.LINKS}
    for cell_id, cell in cells.items():
        launches = [evidence for one, evidence in good if one.id == cell_id]
        size = len(cell.devices)
        added_up = _rate(launches, SeriesName.ALL_REDUCE)
        yield LinksReport(
            gpu_uuids=cell.devices,
            precision=cell.precision,
            connection=next(
                (one.result.verification.method for one in launches if one.result.verification is not None), ""
            ),
            launches=len(launches),
            copies_gb_per_second=_rate(launches, SeriesName.COPIES),
            all_reduce_gb_per_second=added_up,
            all_reduce_bus_gb_per_second=None if added_up is None else added_up * 2 * (size - 1) / size,
            to_host_gb_per_second=_rate(launches, SeriesName.TO_HOST),
            to_device_gb_per_second=_rate(launches, SeriesName.TO_DEVICE),
        )


def _in_words(one: Blamed, accused: Accused) -> Mismatch:
    if one.ends is None:
        way = " (the device is at fault, or the way to it)" if one.mismatch.of_all and not one.doubtful else ""
        return msgspec.structs.replace(one.mismatch, what=f"{one.mismatch.what}{way}")
    sender, receiver = (accused.labels[end] for end in one.ends)
    whose = " (one of the two is at fault, or what lies between them)" if one.link else ""
    if one.culprit == one.device:
        whose = f" ({_fault_of(one.device, accused)})"
    return msgspec.structs.replace(one.mismatch, what=f"copy from {sender} to {receiver}{whose}")


def _doubt(one: Blamed, accused: Accused, *, cut_off: bool) -> str:
    if not one.doubtful:
        return ""
    if one.culprit is not None:
        told = _fault_of(one.culprit, accused)
        if one.ends is None:
            return f"{told}; but a wrong sum does not tell from whom it has that, so this one is not cleared"
        return f"{told}; but a wrong copy does not tell at which end, so this one is not cleared"
    when = "were wrong too, or not looked at yet" if cut_off else "were wrong too"
    return f"sums, copies or numbers of others {when}, so it may be one of them, or what lies between"


def _fault_of(culprit: str, accused: Accused) -> str:
    why = "which had numbers wrong without any other device"
    if others := accused.culprits[culprit]:
        why = f"whose copies with {plural(others, 'device')} were wrong, or of a way that these copies share"
    return f"probably the fault of {accused.labels[culprit]}, {why}"


def _rate(launches: Sequence[LaunchEvidence], series: SeriesName) -> float | None:
    """Return GB/s (1e9 bytes), or None without such a series."""
    found = [
        one.result.bytes_per_iteration[series] / one.figures.means_ms[series] / 1e6
        for one in launches
        if series in one.result.bytes_per_iteration and one.figures.means_ms.get(series)
    ]
    return median(found) if found else None
