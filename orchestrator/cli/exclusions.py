"""Requested cells that the plan excludes, for --dry-run and the start of a run."""

from collections.abc import Sequence

from orchestrator.config.naming import by_reason
from orchestrator.config.run_configuration import Plan
from protocol.cell import Device


def sentences(plan: Plan, devices: Sequence[Device]) -> list[str]:
    """Describe each reason with its models. Devices are named where it does not hold for all."""
    said = []
    for why, models, concerned in by_reason((one.why, one.model, one.device) for one in plan.left_out):
        where = ", ".join(device.label for device in devices if device.uuid in concerned)
        said.append(f"{models}: {why}" + ("" if len(concerned) == len(devices) else f" ({where})"))
    return said
