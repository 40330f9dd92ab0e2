"""`info`: the GPUs and the software of this machine. Loads neither torch nor CUDA."""

import os
import platform
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from orchestrator import TOOL_VERSION
from orchestrator.cli.program import Command
from orchestrator.cli.streams import complain, indented, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.gpu.inventory import Inventory
    from protocol.cell import Device

EXAMPLES: Final = """\b
Examples:
  {command}
  {command} --json
"""
_CUDA_OF_TORCH: Final = re.compile(r"^cuda\b[^=]*=\s*'([^']*)'", re.MULTILINE)
_CUDNN: Final = re.compile(r"^nvidia-cudnn-cu\d+")
SOFTWARE: Final = ("torch", "torchvision", "transformers", "safetensors")


@click.command("info", cls=Command, epilog=EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(*, as_json: bool) -> None:
    """Show the GPUs and the software of this machine."""
    from orchestrator.gpu import inventory

    facts = gather(inventory.look(complain).inventory)
    say(indented(facts) if as_json else describe(facts))


def gather(inventory: "Inventory") -> dict[str, Any]:
    """Return all facts about GPUs and software: key in the output of `info --json` → fact."""
    return {
        "tool_version": TOOL_VERSION,
        "python_version": platform.python_version(),
        "software": {name: installed(name) for name in SOFTWARE},
        "torch_cuda_version": torch_cuda(),
        "torch_cudnn_version": torch_cudnn(),
        "hostname": platform.node(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        "nvml": {"status": inventory.nvml.value, "reason": inventory.reason},
        "driver_version": inventory.driver_version,
        "cuda_driver_version": inventory.cuda_driver_version,
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "gpus": inventory.gpus,
        "mig_slices": inventory.slices,
    }


def installed(package: str) -> str | None:
    """Return a package's version; None if missing. Reads metadata, because an import takes seconds."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def torch_cuda() -> str | None:
    """Return the CUDA version in torch/version.py, such as "12.8"; None for a CPU build or without torch."""
    found = PathFinder.find_spec("torch")
    for folder in (found and found.submodule_search_locations) or ():
        try:
            text = (Path(folder) / "version.py").read_text(encoding="utf-8")
        except OSError:
            continue
        match = _CUDA_OF_TORCH.search(text)
        return match[1] if match else None
    return None


def torch_cudnn() -> str | None:
    """Return the version of the installed cuDNN package that torch requires; None if there is none."""
    from importlib import metadata

    try:
        requirements = metadata.requires("torch") or []
    except metadata.PackageNotFoundError:
        return None
    names = {match[0] for requirement in requirements if (match := _CUDNN.match(requirement))}
    return next(filter(None, map(installed, sorted(names))), None)


def describe(facts: dict[str, Any]) -> str:
    """Return `facts`, as returned by `gather`, as text for people."""
    software = ", ".join(f"{name} {version or 'not installed'}" for name, version in facts["software"].items())
    nvml = facts["nvml"]
    lines = [
        f"gpubench {facts['tool_version']}, Python {facts['python_version']} ({sys.executable})",
        f"Software   {software}",
        f"For GPUs   {_for_gpus(facts)}",
        f"Host       {facts['hostname']}, {facts['cpu_cores']} cores (cpu:0 to cpu:{facts['cpu_cores'] - 1})",
        f"NVML       {nvml['status']}" + (f": {nvml['reason']}" if nvml["reason"] else ""),
    ]
    if facts["driver_version"]:
        lines.append(f"Driver     {facts['driver_version']}, CUDA up to {facts['cuda_driver_version'] or 'unknown'}")
    if facts["cuda_visible_devices"] is not None:
        visible = facts["cuda_visible_devices"] or "(empty)"
        lines.append(f"Visible    CUDA_VISIBLE_DEVICES={visible}: --gpu-ids numbers only these, this list numbers all")
    if not facts["gpus"]:
        lines.append("GPUs       none")
    for device in facts["gpus"]:
        slices = [part for part in facts["mig_slices"] if part.slice_of == device.uuid]
        lines += ["", *_device(device), *_slices(device, slices)]
    return "\n".join(lines)


def _for_gpus(facts: dict[str, Any]) -> str:
    if facts["software"]["torch"] is None:
        return "nothing without torch"
    if facts["torch_cuda_version"] is None:
        return "torch was built without CUDA"
    return f"torch for CUDA {facts['torch_cuda_version']}, cuDNN {facts['torch_cudnn_version'] or 'of the system'}"


def _device(device: "Device") -> list[str]:
    fields: dict[str, str | None] = {
        "UUID": device.uuid,
        "Memory": _memory(device),
        "Architecture": _joined(device.architecture, device.compute_capability and f"({device.compute_capability})"),
        "Serial": device.serial,
        "PCI address": device.pci_address,
        "Part number": device.part_number,
        "VBIOS": device.vbios_version,
        "Power limit": None if device.power_limit_w is None else f"{device.power_limit_w:g} W",
        "ECC": _switch(device.ecc_enabled),
        "MIG": _switch(device.mig_enabled),
        "Persistence": _switch(device.persistence_mode),
        "PCIe now": _joined(
            device.pcie_generation and f"generation {device.pcie_generation},",
            device.pcie_width and f"{device.pcie_width} lanes",
        ),
        "Near cores": ",".join(map(str, device.cpus)) or None,
    }
    shown = [f"  {name:<13}{value or 'not readable'}" for name, value in fields.items()]
    return [f"{device.label}: {device.name}", *shown]


def _slices(gpu: "Device", slices: "Sequence[Device]") -> list[str]:
    from orchestrator.gpu import mig

    if not gpu.mig_enabled:
        return []
    if not slices:
        return ["  MIG slices   none, so CUDA sees nothing of this GPU"]
    return [
        "  MIG slices   CUDA sees these, and not the whole GPU; --gpu-ids takes their UUIDs",
        *(f"    {part.label}  {part.uuid}  {mig.profile(part)}, {_memory(part) or 'not readable'}" for part in slices),
    ]


def _memory(device: "Device") -> str | None:
    if device.memory_total_bytes is None:
        return None
    used = "" if device.memory_used_bytes is None else f", {device.memory_used_bytes / 2**30:.1f} GiB used"
    return f"{device.memory_total_bytes / 2**30:.1f} GiB{used}"


def _joined(*words: str | int | None) -> str | None:
    return " ".join(str(word) for word in words if word) or None


def _switch(value: bool | None) -> str | None:  # noqa: FBT001 - a reading, not a switch of this function
    return None if value is None else ("on" if value else "off")
