"""The GPUs: their driver, NVML and CUDA, whether they are free, and how they are set up."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil

from orchestrator.config.naming import plural
from orchestrator.doctor import Finding, Level, said
from orchestrator.errors import DeviceError
from orchestrator.gpu import cuda_probe, devices, environment, gpu_users, inventory
from orchestrator.gpu.gpu_users import Busy
from orchestrator.gpu.inventory import Inventory, NvmlStatus, Seen
from orchestrator.system import host
from orchestrator.system.subprocess_query import Silence
from protocol.cell import Device, DeviceKind

_BUS: Final = Path("/sys/bus/pci/devices")
_NVIDIA: Final = "0x10de"
_DISPLAY: Final = "0x03"
"""PCI class of VGA and 3D controllers; a board's sound and USB have others."""
_INSTALL: Final = (
    "install the NVIDIA driver, or load it (modprobe nvidia); with Secure Boot its module must be signed; in a "
    "container, start it with the NVIDIA runtime (docker run --gpus all)"
)
_GIVE_A_GPU: Final = (
    "give a container or virtual machine a GPU (docker run --gpus all); without any, everything can be tried with "
    "--gpu-ids cpu:0,cpu:1"
)
_MPS_DAEMON: Final = "nvidia-cuda-mps"
_EXCLUSIVE: Final = {1: "exclusive-thread", 3: "exclusive-process"}
_PROHIBITED: Final = 2


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the GPUs. on_bus: NVIDIA GPUs on the PCI bus, None where unreadable.

    chosen: the GPUs of `gpu_ids`, empty with `why_none`. heard: CUDA's answers in the order of cuda_probe.together.
    modes: compute mode by UUID.
    """

    inventory: Inventory
    gpu_ids: str = "all"
    on_bus: int | None = 0
    chosen: tuple[Device, ...] = ()
    why_none: str = ""
    heard: tuple[cuda_probe.Finding | Silence, ...] = ()
    modes: Mapping[str, int] = {}
    busy: tuple[Busy, ...] = ()
    mps: bool = False
    environment: tuple[tuple[str, str], ...] = ()


def names_gpus(gpu_ids: str) -> bool:
    """Whether a GPU is among them. Raises DeviceError for what names no device."""
    return any(not word.startswith("cpu:") for word in devices.require_words(gpu_ids, "--gpu-ids"))


def look(gpu_ids: str = "all") -> Facts:
    """Read the facts. Takes two minutes at most, where NVML and CUDA both hang."""
    shown = inventory.look()
    chosen, busy, why_none = _chosen(shown, gpu_ids)
    return Facts(
        inventory=shown.inventory,
        gpu_ids=gpu_ids,
        on_bus=_on_bus(),
        chosen=chosen,
        why_none=why_none,
        heard=tuple(cuda_probe.look([gpu.uuid for gpu in gpus]) for gpus in cuda_probe.together(chosen)),
        modes=shown.modes,
        busy=busy,
        mps=_mps_runs(),
        environment=environment.set_in(os.environ),
    )


def _chosen(shown: Seen, gpu_ids: str) -> tuple[tuple[Device, ...], tuple[Busy, ...], str]:
    """The requested GPUs, who uses them, and why there is none."""
    if shown.inventory.nvml is not NvmlStatus.OK:
        return (), (), ""
    try:
        resolved = devices.on_this_machine(gpu_ids, lambda: shown)
        chosen = tuple(device for device in resolved if device.kind is DeviceKind.CUDA)
        return chosen, gpu_users.busy(chosen, lambda: shown), ""
    except DeviceError as error:
        return (), (), str(error)


def judge(facts: Facts) -> Iterator[Finding]:
    """Judge the GPUs. Pure."""
    yield from _driver(facts)
    if facts.why_none:
        yield said(Level.BROKEN, "GPUs", facts.why_none.replace(". ", "; ", 1))
    yield from _cuda(facts)
    yield from _modes(facts)
    refusal = gpu_users.refusal(facts.chosen, facts.busy)
    if refusal is not None:
        yield said(Level.BROKEN, "Users", refusal.replace(". Nothing was started. ", "; ", 1))
    yield from _persistence(facts)
    for name, value in facts.environment:
        yield Finding(Level.WARNING, "Settings", environment.words(name, value), fix=f"unset {name}")


def _driver(facts: Facts) -> Iterator[Finding]:
    found = facts.inventory
    match found.nvml:
        case NvmlStatus.ABSENT if facts.on_bus:
            words = f"{plural(facts.on_bus, 'GPU')} on the PCI bus, and no driver for it: {found.reason}"
            yield Finding(Level.BROKEN, "Driver", words, _INSTALL)
        case NvmlStatus.ABSENT:
            yield Finding(Level.BROKEN, "Driver", f"no NVIDIA GPU in this machine: {found.reason}", _GIVE_A_GPU)
        case NvmlStatus.BROKEN:
            yield said(Level.BROKEN, "Driver", found.reason)
        case NvmlStatus.OK:
            cuda = found.cuda_driver_version or "unknown"
            there = _number_of_each((*found.gpus, *found.slices))
            words = f"{found.driver_version or 'of unknown version'}, CUDA up to {cuda}, {there}"
            yield Finding(Level.OK, "Driver", words)
    needed = facts.gpu_ids == "all"  # for named ones see why_none
    for index, reason in found.unreadable.items():
        yield said(Level.BROKEN if needed else Level.WARNING, "Driver", f"GPU {index} cannot be used: {reason}")


def _cuda(facts: Facts) -> Iterator[Finding]:
    asked = zip(cuda_probe.together(facts.chosen), facts.heard, strict=True)
    wrong = [words for gpus, heard in asked if (words := cuda_probe.trouble(heard, gpus)) is not None]
    yield from (said(Level.BROKEN, "CUDA", words) for words in wrong)
    if facts.heard and not wrong:
        yield Finding(Level.OK, "CUDA", f"works on {_number_of_each(facts.chosen)}")
    if facts.mps:
        words = "an MPS daemon runs: processes share the GPUs through it, and a fault in one can end the others"
        fix = "echo quit | nvidia-cuda-mps-control (as its user), and unset CUDA_MPS_PIPE_DIRECTORY"
        yield Finding(Level.WARNING, "CUDA", words, fix)


def _modes(facts: Facts) -> Iterator[Finding]:
    """Compute modes other than the default: CUDA says 46 when a process may not have the GPU."""
    for gpu in facts.chosen:
        mode = facts.modes.get(gpu.uuid, 0)
        if mode == _PROHIBITED:
            words = f"{gpu.label} is in prohibited mode: CUDA refuses every process (error 46)"
            yield Finding(Level.BROKEN, "Mode", words, fix=_default_mode(gpu))
        elif mode in _EXCLUSIVE:
            words = f"{gpu.label} is in {_EXCLUSIVE[mode]} mode: while another process has it, CUDA says 46"
            yield Finding(Level.WARNING, "Mode", words, fix=_default_mode(gpu))


def _persistence(facts: Facts) -> Iterator[Finding]:
    off = [gpu.label for gpu in facts.chosen if gpu.persistence_mode is False]
    if off:
        yield Finding(
            Level.WARNING,
            "Setup",
            f"persistence mode is off on {', '.join(off)}: the driver lets the GPU sleep between processes, "
            "each start is slower, and power limits and volatile error counters are forgotten",
            fix="start nvidia-persistenced, or nvidia-smi -pm 1 (as root)",
        )


def _default_mode(gpu: Device) -> str:
    return f"nvidia-smi -i {gpu.uuid} -c DEFAULT (as root)"


def _number_of_each(devices: Sequence[Device]) -> str:
    slices = sum(device.slice_of is not None for device in devices)
    whole = len(devices) - slices
    words = [plural(whole, "GPU")] if whole or not slices else []
    return " and ".join([*words, plural(slices, "MIG slice")] if slices else words)


def _on_bus() -> int | None:
    """Count the NVIDIA GPUs on the PCI bus, with or without a driver."""
    try:
        slots = list(_BUS.iterdir())
    except OSError:
        return None
    return sum(
        host.text(slot / "vendor").strip() == _NVIDIA and host.text(slot / "class").startswith(_DISPLAY)
        for slot in slots
    )


def _mps_runs() -> bool:
    if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        return True
    return any((process.info["name"] or "").startswith(_MPS_DAEMON) for process in psutil.process_iter(["name"]))
