"""Examine the GPUs: driver, NVML, CUDA, other processes and settings."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil

from orchestrator.config.naming import plural
from orchestrator.doctor import Finding, Level, finding_of
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
"""PCI class of graphics controllers. Sound and USB controllers on a GPU board have other classes."""
_INSTALL: Final = (
    "Install the NVIDIA driver, or load it (modprobe nvidia). With Secure Boot, its module must be signed. Start a "
    "container with the NVIDIA runtime (docker run --gpus all)"
)
_GIVE_A_GPU: Final = (
    "In a container or virtual machine: pass a GPU to it (docker run --gpus all). On the host: run lspci. If it shows "
    "the GPU, install the driver, else check the slot and power of the GPU. To run without a GPU: --gpu-ids cpu:0,cpu:1"
)
_MPS_DAEMON: Final = "nvidia-cuda-mps"
_EXCLUSIVE: Final = {1: "exclusive-thread", 3: "exclusive-process"}
_PROHIBITED: Final = 2


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the GPUs. on_bus: number of NVIDIA GPUs on the PCI bus, None if unreadable.

    chosen: GPUs that `gpu_ids` names. why_none: why `chosen` is empty although NVML works, or "". cuda_answers: answers
    of the CUDA probe, or Silence where it gave none: one for all whole GPUs together, then one for each MIG slice.
    modes: device UUID → NVML's compute mode. busy: foreign processes on the chosen GPUs. mps: an MPS daemon runs, or
    CUDA_MPS_PIPE_DIRECTORY is set. environment: (name, value) of each environment variable that changes what is
    measured.
    """

    inventory: Inventory
    gpu_ids: str = "all"
    on_bus: int | None = 0
    chosen: tuple[Device, ...] = ()
    why_none: str = ""
    cuda_answers: tuple[cuda_probe.Finding | Silence, ...] = ()
    modes: Mapping[str, int] = {}
    busy: tuple[Busy, ...] = ()
    mps: bool = False
    environment: tuple[tuple[str, str], ...] = ()


def names_gpus(gpu_ids: str) -> bool:
    """Whether `gpu_ids` includes a GPU, as "all" does. Raises DeviceError for a word that names no device ("gpu")."""
    return any(not word.startswith("cpu:") for word in devices.require_words(gpu_ids, "--gpu-ids"))


def look(gpu_ids: str = "all") -> Facts:
    """Read the facts about the GPUs. Takes up to two minutes, if both NVML and CUDA hang. Errors become facts."""
    shown = inventory.look()
    chosen, busy, why_none = _chosen(shown, gpu_ids)
    return Facts(
        inventory=shown.inventory,
        gpu_ids=gpu_ids,
        on_bus=_on_bus(),
        chosen=chosen,
        why_none=why_none,
        cuda_answers=tuple(cuda_probe.look([gpu.uuid for gpu in gpus]) for gpus in cuda_probe.visible_together(chosen)),
        modes=shown.modes,
        busy=busy,
        mps=_mps_runs(),
        environment=environment.set_in(os.environ),
    )


def _chosen(shown: Seen, gpu_ids: str) -> tuple[tuple[Device, ...], tuple[Busy, ...], str]:
    if shown.inventory.nvml is not NvmlStatus.OK:
        return (), (), ""
    try:
        resolved = devices.on_this_machine(gpu_ids, lambda: shown)
        chosen = tuple(device for device in resolved if device.kind is DeviceKind.CUDA)
        return chosen, gpu_users.busy(chosen, lambda: shown), ""
    except DeviceError as error:
        return (), (), str(error)


def judge(facts: Facts) -> Iterator[Finding]:
    """Yield findings about the GPUs, good ones too. Pure."""
    yield from _driver(facts)
    if facts.why_none:
        yield finding_of(Level.BROKEN, "GPUs", facts.why_none)
    yield from _cuda(facts)
    yield from _modes(facts)
    refusal = gpu_users.refusal(facts.chosen, facts.busy)
    if refusal is not None:
        yield finding_of(Level.BROKEN, "Users", refusal.replace(" Nothing was started.", "", 1))
    yield from _persistence(facts)
    for name, value in facts.environment:
        yield Finding(Level.WARNING, "Settings", environment.describe(name, value), fix=f"unset {name}")


def _driver(facts: Facts) -> Iterator[Finding]:
    inventory = facts.inventory
    match inventory.nvml:
        case NvmlStatus.ABSENT if facts.on_bus:
            message = f"{plural(facts.on_bus, 'GPU')} on the PCI bus, but no driver: {inventory.reason}"
            yield Finding(Level.BROKEN, "Driver", message, _INSTALL)
        case NvmlStatus.ABSENT:
            yield Finding(Level.BROKEN, "Driver", f"no NVIDIA GPU found: {inventory.reason}", _GIVE_A_GPU)
        case NvmlStatus.BROKEN:
            yield finding_of(Level.BROKEN, "Driver", inventory.reason)
        case NvmlStatus.OK:
            cuda = inventory.cuda_driver_version or "unknown"
            there = _number_of_each((*inventory.gpus, *inventory.slices))
            message = f"{inventory.driver_version or 'of unknown version'}, CUDA up to {cuda}, {there}"
            yield Finding(Level.OK, "Driver", message)
    needed = facts.gpu_ids == "all"  # why_none covers named GPUs
    for index, reason in inventory.unreadable.items():
        yield finding_of(Level.BROKEN if needed else Level.WARNING, "Driver", f"GPU {index} cannot be used: {reason}")


def _cuda(facts: Facts) -> Iterator[Finding]:
    answers = zip(cuda_probe.visible_together(facts.chosen), facts.cuda_answers, strict=True)
    wrong = [message for gpus, answer in answers if (message := cuda_probe.trouble(answer, gpus)) is not None]
    yield from (finding_of(Level.BROKEN, "CUDA", message) for message in wrong)
    if facts.cuda_answers and not wrong:
        yield Finding(Level.OK, "CUDA", f"works on {_number_of_each(facts.chosen)}")
    if facts.mps:
        message = "an MPS daemon is running: processes share the GPUs, and a fault in one can end the others"
        fix = "echo quit | nvidia-cuda-mps-control (as its user), and unset CUDA_MPS_PIPE_DIRECTORY"
        yield Finding(Level.WARNING, "CUDA", message, fix)


def _modes(facts: Facts) -> Iterator[Finding]:
    for gpu in facts.chosen:
        mode = facts.modes.get(gpu.uuid, 0)
        if mode == _PROHIBITED:
            message = f"{gpu.label} is in prohibited mode: CUDA refuses every process (error 46)"
            yield Finding(Level.BROKEN, "Mode", message, fix=_default_mode(gpu))
        elif mode in _EXCLUSIVE:
            message = f"{gpu.label} is in {_EXCLUSIVE[mode]} mode: CUDA returns error 46 while another process has it"
            yield Finding(Level.WARNING, "Mode", message, fix=_default_mode(gpu))


def _persistence(facts: Facts) -> Iterator[Finding]:
    off = [gpu.label for gpu in facts.chosen if gpu.persistence_mode is False]
    if off:
        yield Finding(
            Level.WARNING,
            "Setup",
            f"persistence mode is off on {', '.join(off)}: the driver unloads the GPU between processes, so starts "
            "are slower, and power limits and volatile error counters are lost",
            fix="Start nvidia-persistenced, or run nvidia-smi -pm 1 (as root)",
        )


def _default_mode(gpu: Device) -> str:
    return f"nvidia-smi -i {gpu.uuid} -c DEFAULT (as root)"


def _number_of_each(devices: Sequence[Device]) -> str:
    slices = sum(device.slice_of is not None for device in devices)
    whole = len(devices) - slices
    numbers = [plural(whole, "GPU")] if whole or not slices else []
    return " and ".join([*numbers, plural(slices, "MIG slice")] if slices else numbers)


def _on_bus() -> int | None:
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
