"""Rough estimate of a plan's duration. Pure.

A launch (measurement in a fresh process) takes time to start, to construct the model, to warm up and to measure.
Rates are those of an average device. Constants that depend on no model are means of a default run on one H200.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Configuration, Isolation, Plan
from orchestrator.config.workloads import WORKLOADS
from orchestrator.plan import changing_shapes, load_windows
from protocol.cell import AUTO, Cell, Device, DeviceKind, Mode, ModelSpec, Precision, SizeUnit, Workload
from protocol.messages import SETTLING_S, Measurement
from protocol.verification import LEAST_REPLAYS, REPLAY_STEPS

RATE_GFLOPS: Final = {
    (DeviceKind.CUDA, Precision.FP32): 20_000.0,
    (DeviceKind.CUDA, Precision.TF32): 80_000.0,
    (DeviceKind.CUDA, Precision.FP16): 150_000.0,
    (DeviceKind.CUDA, Precision.BF16): 150_000.0,
    (DeviceKind.CPU, Precision.FP32): 60.0,
    (DeviceKind.CPU, Precision.TF32): 60.0,
    (DeviceKind.CPU, Precision.FP16): 20.0,
    (DeviceKind.CPU, Precision.BF16): 60.0,
}
"""(Kind of device, precision) → rate of arithmetic in GFLOP/s, of a whole GPU or of each core of a CPU device."""

FLOOR_S: Final = {DeviceKind.CUDA: 0.003, DeviceKind.CPU: 0.005}
"""Seconds of the shortest iteration, in which the host only launches kernels."""

FORK_S: Final = {DeviceKind.CUDA: 0.6, DeviceKind.CPU: 0.1}
EXEC_S: Final = {DeviceKind.CUDA: 13.0, DeviceKind.CPU: 4.0}
ZYGOTE_S: Final = {DeviceKind.CUDA: 15.0, DeviceKind.CPU: 4.0}
"""Seconds. FORK_S: to start and end a forked process. EXEC_S: the same for a new interpreter. ZYGOTE_S: to start the
zygote. Those of a GPU are from an H200.
"""

BUILD_S: Final = 0.05
BUILD_PARAMETERS_S: Final = {DeviceKind.CUDA: 2.5e9, DeviceKind.CPU: 80e6}
"""A model takes BUILD_S seconds to construct, and its random weights are drawn at BUILD_PARAMETERS_S per second."""

WRITE_BYTES_S: Final = 0.9e9
READ_BYTES_S: Final = 2.2e9
"""Bytes per second. A load cell writes its weights to a file once, and reads them in each iteration."""

TOKEN_S: Final = {DeviceKind.CUDA: 0.013, DeviceKind.CPU: 0.1}
"""Seconds to generate one new token."""

FIRST_S: Final = {DeviceKind.CUDA: 0.65, DeviceKind.CPU: 0.0}
"""Extra seconds of the first iteration: 0.1 to 0.4 s to load kernels, 3 s if cuDNN compiles some."""

COMPILE_S: Final = 30.0
"""Seconds to import the compiler and compile a model. With empty caches on two cores, lstm took 20 to 37 s."""

REPLAYED_S: Final = {DeviceKind.CUDA: 0.0, DeviceKind.CPU: 0.12}
"""Extra seconds of a replayed step: optimizer, digests of gradients, single-threaded operators. On one core a step of
lstm took 0.20 s (estimate of its passes: 0.06), vae 0.34 s (0.29), resnet50 0.52 s (0.41). More cores do not help.
"""
BUSY: Final = {DeviceKind.CUDA: 1.0, DeviceKind.CPU: 1.5}
"""Factor on the time of replayed steps, for cores that other processes use, too. On two cores with a load of 4 to 8,
steps of lstm took 1.6 to 2.9 times as long.
"""
REPLAY_LEAST: Final = LEAST_REPLAYS * REPLAY_STEPS + 3
"""Steps of the shortest replay: one to look for a deterministic form, one to warm up, and one to count."""

COUNT_S: Final = 0.15
LATENCY_S: Final = 0.3
"""Seconds after the measurement. COUNT_S: to count operations. LATENCY_S: at most, to measure latencies."""

WARM_UP_BLOCKS: Final = 10
WARM_UP_ITERATIONS: Final = 2
ENOUGH: Final = 20
"""Number of iterations whose times suffice for a confidence interval."""
MEASURED_ITERATIONS: Final = 3
"""Least number of measured iterations, however long they take."""

SCAN_LAUNCHES: Final = 16
SCAN_BATCH: Final = 32
"""SCAN_LAUNCHES: assumed number of launches of a batch scan. SCAN_BATCH: assumed batch size of a typical one."""

SHARE: Final = {DeviceKind.CUDA: 0.3, DeviceKind.CPU: 1.0}
"""Assumed duration of a measurement: 0 is min_s of the profile, 1 its max_s. On CPUs times are rarely steady."""

YEAR_S: Final = 365 * 24 * 3600.0


def total_s(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> float:
    """Return the estimated seconds of the whole plan. All devices work at once, except on cells of mode solo."""
    cells = {cell.id: cell for cell in plan.cells}

    def sums(mode: Mode) -> list[float]:
        return [
            sum(
                launch_s(cells[one], configuration, device, round_=round_)
                for one, round_ in plan.order[device.uuid]
                if cells[one].mode is mode
            )
            for device in devices
        ]

    return shared_start_s(configuration, devices) + max(sums(Mode.LOADED), default=0.0) + sum(sums(Mode.SOLO))


def shared_start_s(configuration: Configuration, devices: Sequence[Device]) -> float:
    """Return the estimated seconds to start the zygote, the process that forks all launches; 0 if the run has none.

    The zygote imports torch once, before the first launch. Only Isolation.FORK has one.
    """
    zygote = max((ZYGOTE_S[device.kind] for device in devices), default=0.0)
    return zygote if configuration.isolation is Isolation.FORK else 0.0


def launch_s(cell: Cell, configuration: Configuration, device: Device, scale: float = 1.0, *, round_: int = 0) -> float:
    """Return the estimated seconds of one launch of `cell` on `device`, from its start to its end.

    For batch size AUTO: of all launches that search for the batch size. scale: factor on the time of an iteration (see
    the function `scale`). round_: the launch's round; round 0 may take longer, for a load window or changing shapes.
    """
    if cell.batch_size == AUTO:
        step = msgspec.structs.replace(cell, batch_size=SCAN_BATCH)
        return SCAN_LAUNCHES * launch_s(step, configuration, device, scale)
    model = configuration.by_name[cell.model]
    start = _start_s(model, configuration, device)
    if configuration.cell_s is not None:
        work_s = timed_work_s(cell, model, device, configuration.cell_s[device.kind], scale)
        return timed_start_s(cell, configuration, device) + work_s
    iteration = scale * iteration_s(cell, model, device)
    measurement = configuration.measurement
    if cell.workload is Workload.LOAD:
        least = 1 if measurement.give_up else MEASURED_ITERATIONS
        write = _weights_bytes(cell, model) / WRITE_BYTES_S
        return start + write + iteration + _measured_s(measurement, iteration, device, least)
    warm_up = _fixed_s(measurement.warm_up_iterations, iteration, _warm_up_s(measurement, iteration))
    measured = _fixed_s(measurement.iterations, iteration, _measured_s(measurement, iteration, device))
    if load_s := load_windows.window_s(cell, configuration, device, round_):
        measured = max(measured, SETTLING_S + load_s - warm_up)
    compiling = COMPILE_S * (1 + changing_shapes.forms(cell, configuration, round_)) if cell.compiles else 0.0
    return start + compiling + FIRST_S[device.kind] + warm_up + measured + _afterwards_s(cell, measurement, iteration)


def timed_start_s(cell: Cell, configuration: Configuration, device: Device) -> float:
    """Return the estimated seconds from the start of a burn-in launch until its work of fixed length begins."""
    return _start_s(configuration.by_name[cell.model], configuration, device) + FIRST_S[device.kind]


def timed_work_s(cell: Cell, model: ModelSpec, device: Device, cell_s: float, scale: float = 1.0) -> float:
    """Return the estimated seconds for which a burn-in cell works after its start-up. cell_s: its planned seconds.

    This is cell_s, except for a replay (repeated training steps): it takes longer if its smallest number of steps,
    REPLAY_LEAST, takes longer than cell_s. scale: factor on the time of a step.
    """
    if cell.workload is not Workload.REPLAY:
        return cell_s
    return max(cell_s, REPLAY_LEAST * scale * iteration_s(cell, model, device))


def scale(configuration: Configuration, device: Device, devices: Sequence[Device]) -> float:
    """Return how many times as long as `iteration_s` an iteration takes on `device`: 1 unless the run is a burn-in.

    In a burn-in it is 1 for a GPU. For a CPU device it is BUSY (other processes use the cores, too) times the number of
    devices that share its cores (see `sharing`). devices: all devices of the run.
    """
    return 1.0 if configuration.cell_s is None else BUSY[device.kind] * sharing(device, devices)


def sharing(device: Device, devices: Sequence[Device]) -> int:
    """Return the number of CPU devices that share one core of `device`, including itself; 1 for a GPU.

    The core with the most devices counts. devices: all devices of the run.
    """
    if device.kind is not DeviceKind.CPU:
        return 1
    others = [other.cpus for other in devices if other.kind is DeviceKind.CPU]
    return max((sum(core in cpus for cpus in others) for core in device.cpus), default=1)


def iteration_s(cell: Cell, model: ModelSpec, device: Device) -> float:
    """Return the estimated seconds of one iteration of `cell`.

    An iteration is a load of the weights, a forward pass, a training step (3 x as long) or a generated batch of texts.
    """
    if cell.workload is Workload.LOAD:
        return BUILD_S + _weights_bytes(cell, model) / READ_BYTES_S
    passes = WORKLOADS[cell.workload].forward_passes
    cores = max(len(device.cpus), 1) if device.kind is DeviceKind.CPU else 1
    rate = RATE_GFLOPS[device.kind, cell.precision] * cores
    forward_gflops = model.inference_gflops * _relative_size(cell, model) * cell.batch_size
    replayed = REPLAYED_S[device.kind] if cell.workload is Workload.REPLAY else 0.0
    writing = (cell.new_tokens or 0) * TOKEN_S[device.kind]
    return max(forward_gflops * passes / rate, FLOOR_S[device.kind]) + replayed + writing


def _start_s(model: ModelSpec, configuration: Configuration, device: Device) -> float:
    start = (FORK_S if configuration.isolation is Isolation.FORK else EXEC_S)[device.kind]
    return start + BUILD_S + model.parameters / BUILD_PARAMETERS_S[device.kind]


def _weights_bytes(cell: Cell, model: ModelSpec) -> int:
    return model.parameters * (2 if cell.precision in (Precision.FP16, Precision.BF16) else 4)


def _relative_size(cell: Cell, model: ModelSpec) -> float:
    if cell.input_size is None or model.sizes is None:
        return 1.0
    relative = cell.input_size / model.sizes.default
    return relative**2 if model.sizes.unit is SizeUnit.PIXELS else relative


def _warm_up_s(measurement: Measurement, iteration: float) -> float:
    steady = WARM_UP_BLOCKS * max(measurement.block_s, iteration)
    return max(min(steady, measurement.warm_up_cap_s), (WARM_UP_ITERATIONS - 1) * iteration)


def _measured_s(measurement: Measurement, iteration: float, device: Device, least: int = MEASURED_ITERATIONS) -> float:
    """Return the estimated seconds of a measurement of `least` iterations or more. iteration: seconds of one."""
    interval_s = ENOUGH * iteration
    if interval_s > measurement.max_s:
        return max(measurement.min_s if measurement.give_up else measurement.max_s, least * iteration)
    return max(measurement.min_s + SHARE[device.kind] * (measurement.max_s - measurement.min_s), interval_s)


def _afterwards_s(cell: Cell, measurement: Measurement, iteration: float) -> float:
    count = COUNT_S + iteration
    latencies = iteration + max(min(LATENCY_S, measurement.min_s / 2), iteration)
    facts = WORKLOADS[cell.workload]
    return (count if facts.counts_operations else 0.0) + (latencies if facts.measures_latency else 0.0)


def _fixed_s(iterations: int | None, iteration: float, adaptive_s: float) -> float:
    return adaptive_s if iterations is None else iterations * iteration


def about(seconds: float) -> str:
    """Describe seconds in words: "about 40 s", "about 3 min", "about 1 h 20 min", "more than a year"."""
    if seconds < 90:
        step = 1 if seconds < 10 else 5
        return f"about {max(math.ceil(seconds / step) * step, 1)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"about {minutes} min"
    if seconds > YEAR_S:
        return "more than a year"
    hours, minutes = divmod(round(minutes / 10) * 10, 60)
    return f"about {hours} h" + (f" {minutes} min" if minutes else "")
