"""What a burn-in was made for, in a line: its verdict and whose it is. Every format for people begins with it."""

from orchestrator.config.naming import plural
from orchestrator.figures.burn_in import BurnInReport
from orchestrator.figures.report import Report
from orchestrator.report.text_gpus import labels
from orchestrator.report.text_injected import proven


def answer(night: BurnInReport, report: Report) -> str:
    """The gravest verdict and the GPUs that have it: "PASS: 3 of 3 GPUs", "FAIL: GPU 1 of 2"."""
    gravest = {gpu.gpu_uuid for gpu in night.gpus if gpu.verdict is night.verdict}
    devices = [device for device in report.gpu_info if device.gpu_uuid in gravest]
    kind = "GPU" if all(device.kind == "cuda" for device in report.gpu_info) else "device"
    count = len(night.gpus)
    who = f"{count} of {plural(count, kind)}" if len(devices) == count else f"{labels(devices)} of {count}"
    return f"{night.verdict}: {who}" + (f", with faults injected{proven(night)}" if night.tainted else "")
