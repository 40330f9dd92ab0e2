"""Prepare a run: from the options of a command to a stored run, which is then executed.

parameters ─▶ settings ─▶ configuration ─▶ devices ─▶ plan ─▶ --dry-run: described
                                                        └───▶ stored in a new folder ─▶ execution.work
"""

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from orchestrator import TOOL_VERSION
from orchestrator.cli import (
    comparison_options,
    dry_run,
    history_recording,
    hooks,
    option_mapping,
    plan_notes,
    unused_options,
)
from orchestrator.cli.decorators import OPTIONS, RunParams
from orchestrator.cli.exit_notification import Ending
from orchestrator.cli.streams import complain, say
from orchestrator.compare import references
from orchestrator.compare.references import Against
from orchestrator.config import catalogue, libraries, models_file, own_models, presets
from orchestrator.config import resolution as config
from orchestrator.config.catalogue import Catalogue
from orchestrator.config.presets import Preset
from orchestrator.config.run_configuration import Configuration, Plan, StoredRun
from orchestrator.config.settings import LayeredSettings
from orchestrator.config.yaml_schema import listed
from orchestrator.engine.kind import Outcome
from orchestrator.errors import ConfigError, DeviceError
from orchestrator.gpu import cpu_devices, cuda_probe, gpu_users, inventory
from orchestrator.gpu import devices as machine_devices
from orchestrator.gpu.inventory import Look
from orchestrator.kinds import registry
from orchestrator.kinds.burn_in import levels, rounds, time_needed
from orchestrator.kinds.burn_in import settings as burn_in_settings
from orchestrator.kinds.gate import settings as gate
from orchestrator.plan import estimate, launches
from orchestrator.state.time_budget import Budget
from orchestrator.store import folders, run_files
from protocol.cell import Device, DeviceKind, ModelSpec
from protocol.exit_codes import ExitCode

# Names of time limits that are not options.
_LIMITS: Final = {presets.TRIAGE: presets.TRIAGE, gate.NAME: "--time-limit"}


class Requested(NamedTuple):
    """A requested run. models: models that options may name. against: baseline and thresholds to compare it with.

    settings: those that `configuration` was resolved from (in a gate with two sides: of side a).
    """

    settings: LayeredSettings
    configuration: Configuration
    models: Catalogue
    against: Against


def from_preset(params: RunParams, preset: str | None) -> Requested:
    """Return the benchmark or burn-in that the parameters request. preset: its name or None. Raises UserError."""
    loaded = None if preset is None else presets.load(preset, OPTIONS)
    settings, configuration, models = configure(params, loaded)
    return Requested(settings, configuration, models, read_references(settings, configuration, models.models))


def execute(
    command: tuple[str, ...],
    params: RunParams,
    requested: Requested,
    ending: Ending,
    present: Callable[[Outcome], str],
) -> ExitCode:
    """Plan and execute the `requested` run, or only print its plan (--dry-run). Return the exit code.

    command: words of the command line. ending: filled in with report and exit code. present: returns the text to print
    at the end, or "" to print the report. Raises UserError before anything is measured.
    """
    settings, configuration, models, against = requested
    look = inventory.once(None if params["quiet"] or params["log_format"] == "json" else complain)
    named = machine_devices.on_this_machine(configuration.gpu_ids, look, settings.origin("gpu.ids", "--gpu-ids"))
    devices = _require_free(configuration, named, look)
    configuration = burn_in_settings.on_devices(settings, configuration, devices, levels.load())
    unnumbered = settings.find("benchmark.launches", int) is None and configuration.time_limit_s is None
    if unnumbered:
        configuration = launches.fitted(configuration, devices)
    plan = registry.of(configuration).plan(configuration, devices)
    if configuration.burn_in is not None:
        libraries.require(plan.cells, configuration.models)
    _require_time(plan, configuration, devices)
    folders.require_writable(configuration, settings, make=not params["dry_run"])
    unrecorded = history_recording.refused(configuration)
    notes = (
        *unused_options.warnings(settings, params, configuration, plan, devices),
        *models_file.notes(models.wrong),
        *libraries.describe_missing(libraries.missing(libraries.measured_models(plan.cells, configuration.models))),
        *time_needed.notes(plan, configuration, devices, levels.load()),
        *rounds.notes(plan, configuration, devices),
        *plan_notes.deadline_warnings(plan, configuration, devices),
        *plan_notes.device_conflicts(devices, cpu_devices.usable_cores(), Path(configuration.runs_folder)),
        *unrecorded,
    )
    if params["dry_run"]:
        broken = cuda_probe.refusal(devices)
        refused = () if broken is None else (f"a run could not start now: {broken}",)
        why = launches.reason(configuration) if unnumbered else ""
        say(dry_run.describe(plan, configuration, devices, (*notes, *refused), launches=why))
        return ExitCode.PASSED
    from orchestrator.cli.execution import work  # imports the displays, which a plan does not need

    cuda_probe.require(devices)
    earlier, unknown = ({}, ()) if unrecorded else history_recording.earlier(configuration, devices)
    ending.stop_signals.spare(1)  # from here on there is a run, which ends with a report
    origin = settings.origin("run.folder", "--runs-folder")
    with folders.new_run(Path(configuration.runs_folder), origin, datetime.now()) as paths:
        stored = StoredRun(
            tool_version=TOOL_VERSION,
            run_id=paths.folder.name,
            command=hooks.recorded(command),
            configuration=configuration,
            devices=devices,
            plan=plan,
            telemetry_note=_telemetry_note(configuration, devices, look),
            earlier=earlier,
        )
        run_files.store(stored, paths)
        references.store(against, paths)
    shown = params.copy()
    shown["verbose"] = settings.find("output.verbose", bool)
    return work(stored, paths, shown, ending, notes=(*notes, *unknown), look=look, present=present)


def configure(params: RunParams, preset: Preset | None) -> tuple[LayeredSettings, Configuration, Catalogue]:
    """Return the settings, the configuration made of them, and the models that options may name.

    Raises UserError for a mistake in the options or in the file of --config.
    """
    defaults = catalogue.configs_folder() / "default.yaml"
    if params["config"] == "":
        raise ConfigError("--config: expected a file, got an empty string")
    file = None if params["config"] is None else Path(params["config"])
    command_line = option_mapping.settings_of(params)
    settings = config.gather(OPTIONS, defaults, file, command_line)
    if preset is not None:
        chosen = preset.settings_on(config.gpu_ids(settings))
        settings = config.gather(OPTIONS, defaults, file, command_line, chosen)
    places = config.Places(current=folders.current(), cache=folders.default_cache(os.environ, os.getuid()))
    models, settings = own_models.extended(catalogue.load(), settings, places.current, allowed=params["allow_code"])
    configuration = config.resolve(settings, models, places)
    if file is not None:
        alone = config.refuse_mistakes(file, OPTIONS, defaults, models, places)
        burn_in_settings.refuse_mistakes(alone, levels.load())
        if alone.chosen("gpu.ids"):
            machine_devices.require_words(config.gpu_ids(alone), alone.origin("gpu.ids"))
    if preset is not None:
        if burn_in_settings.DURATION in settings.values:
            origin = settings.origin(burn_in_settings.DURATION)
            raise ConfigError(
                f"{origin}: a preset ({preset.name}) has its own time limit and makes no burn-in. Use `run --burn-in`"
            )
        configuration = preset.on(configuration)
    return settings, burn_in_settings.of_settings(settings, configuration, models, levels.load()), models


def read_references(settings: LayeredSettings, configuration: Configuration, models: Iterable[ModelSpec]) -> Against:
    """Return the baseline, the thresholds and the price that the settings name for the run; all may be absent.

    models: models that thresholds may name. Raises UserError if the baseline, a threshold or the price is unusable, or
    if a burn-in has any of the three.
    """
    against = comparison_options.read(
        settings.find("compare.baseline", str),
        settings.find("compare.thresholds", str),
        settings.find("compare.price", float),
        configuration.runs_folder,
        configuration.history_db,
        models=models,
        origins=settings.origins,
    )
    if configuration.burn_in is not None and against:
        given = listed((settings.origin(key) for key in comparison_options.OPTION if key in settings.values), "and")
        raise ConfigError(f"{given}: a burn-in has no model figures to judge or to price. Remove the setting.")
    return against


def _require_time(plan: Plan, configuration: Configuration, devices: tuple[Device, ...]) -> None:
    limit_s = configuration.time_limit_s
    if limit_s is None:
        return
    budget = Budget(configuration, devices, limit_s, began=0.0)
    if any(budget.forecast(plan, device) for device in devices):
        return
    shortest_s = min(budget.expected_s(cell) for cell in plan.cells)
    name = _LIMITS.get(configuration.preset or "", f"--{configuration.preset}")
    raise ConfigError(
        f"the {limit_s:g} s of {name} are too short: the shortest launch takes {estimate.about(shortest_s)}. Choose a "
        "quicker --profile, fewer iterations, a smaller batch, a longer preset, or `run`, which has no limit."
    )


def _require_free(configuration: Configuration, devices: tuple[Device, ...], look: Look) -> tuple[Device, ...]:
    """Return the devices, with `busy_with` set to the other process that computes on the device, if any.

    look: function that returns what NVML shows, processes included. Raises DeviceError if a device has such a process
    and --allow-busy is not given.
    """
    busy = gpu_users.busy(devices, look)
    reason = gpu_users.refusal(devices, busy)
    if reason is not None and not configuration.allow_busy:
        raise DeviceError(reason)
    return gpu_users.marked(devices, busy)


def _telemetry_note(configuration: Configuration, devices: tuple[Device, ...], look: Look) -> str:
    if not configuration.monitor:
        return "monitoring was off"
    if all(device.kind is DeviceKind.CPU for device in devices):
        return "no GPU in this run"
    if hidden := gpu_users.unseen(devices, look):
        return f"NVML does not report the processes on {', '.join(gpu.label for gpu in hidden)}"
    return ""
