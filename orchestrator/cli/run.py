"""`run`: from the command line to a run on disk, and to the loop that works on it."""

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from orchestrator import TOOL_VERSION
from orchestrator.cli import gpu_probe, history_recording
from orchestrator.cli.exit_notification import Ending, announced
from orchestrator.cli.option_mapping import said
from orchestrator.cli.options import RunParams, run_options
from orchestrator.cli.program import MeasuringCommand
from orchestrator.cli.shared_options import DisplayParams, require_one_voice
from orchestrator.cli.streams import say
from orchestrator.errors import ConfigError, DeviceError
from protocol.exit_codes import ExitCode

if TYPE_CHECKING:
    from orchestrator.compare.references import Against
    from orchestrator.config.catalogue import Catalogue
    from orchestrator.config.run_configuration import Configuration, Plan
    from orchestrator.config.settings import LayeredSettings
    from orchestrator.gpu.inventory import Look
    from protocol.cell import Device

EXAMPLES: Final = """\b
Examples:
  {command}                                 all models and GPUs
  {command} --gpu-ids 0,1 --profile quick   a first look
  {command} --gpu-ids cpu:0,cpu:1           without any GPU
  {command} --config my.yaml --dry-run      the plan, how long
  {command} -m resnet50,lstm -b 1,8 -p bf16 -o out/bf16.json
"""


@click.command(
    "run",
    short_help="Measure models on GPUs.",
    cls=MeasuringCommand,
    epilog=EXAMPLES,
)
@run_options
@click.pass_context
def command(context: click.Context, /, **params: Unpack[RunParams]) -> None:
    """Measure models on GPUs, each cell in a fresh process, and merge the results into one report."""
    context.exit(measure(context, params))


def measure(context: click.Context, params: RunParams, preset: str | None = None) -> ExitCode:
    """Do what the options say, and end in time where a preset has a limit.

    Raises UserError before anything is run or written, if it cannot be done.
    """
    require_one_voice(params)
    with announced(params, rehearsal=params["dry_run"]) as ending:
        return _measure(context, params, preset, ending)


def _measure(context: click.Context, params: RunParams, preset: str | None, ending: Ending) -> ExitCode:
    from orchestrator.cli import deadline_warnings, device_conflicts, hooks, unused_options
    from orchestrator.cli.execution import work
    from orchestrator.compare import references
    from orchestrator.config import libraries, models_file
    from orchestrator.config import resolution as config
    from orchestrator.config.run_configuration import StoredRun
    from orchestrator.gpu import cpu_devices, cuda_probe
    from orchestrator.kinds.burn_in import levels, rounds, settings, time_needed
    from orchestrator.kinds.burn_in import planning as burn_in_plan
    from orchestrator.plan import planner
    from orchestrator.store import folders, run_files

    everything, configuration, models = _configuration(params, preset)
    asked_against = _held_against(params, configuration, models)
    seen = gpu_probe.once(tell=not params["quiet"] and params["log_format"] != "json")
    devices = _with_their_users(configuration, _devices(everything, configuration, seen), seen)
    configuration = settings.with_injections(configuration, params["inject"], devices)
    if params["steps"]:
        configuration = settings.with_steps(configuration, devices, levels.load(), in_phase=params["in_phase"])
    if params["max_temperature"] is not None:
        configuration = settings.with_temperature_stop(configuration, params["max_temperature"])
    planned = (
        planner.make(configuration, devices)
        if configuration.burn_in is None
        else burn_in_plan.make(configuration, devices, levels.load())
    )
    if configuration.burn_in is not None:
        libraries.require(planned.cells, configuration.models)
    _require_time(planned, configuration, devices)
    folders.require_writable(configuration, everything, make=not params["dry_run"])
    notes = (
        *unused_options.sentences(everything, params, configuration, planned, devices),
        *models_file.notes(models.wrong),
        *libraries.sentences(libraries.missing(libraries.asked_for(planned.cells, configuration.models))),
        *time_needed.notes(planned, configuration, devices, levels.load()),
        *rounds.notes(planned, configuration, devices),
        *deadline_warnings.sentences(planned, configuration, devices),
        *device_conflicts.sentences(devices, cpu_devices.usable_cores(), Path(configuration.runs_folder)),
        *(unrecorded := history_recording.refused(configuration)),
    )
    if params["dry_run"]:
        from orchestrator.cli.dry_run import describe

        broken = cuda_probe.refusal(devices)
        refused = () if broken is None else (f"a run would be refused now: {broken}",)
        say(describe(planned, configuration, devices, (*notes, *refused)))
        return ExitCode.PASSED
    cuda_probe.require(devices)
    said_before, unknown = ({}, ()) if unrecorded else history_recording.earlier(configuration, devices)
    ending.stop_signals.spare(1)  # from here on there is a run, which ends with a report
    origin = everything.origin("run.folder", "--runs-folder")
    with folders.new_run(Path(configuration.runs_folder), origin, datetime.now()) as paths:
        stored = StoredRun(
            tool_version=TOOL_VERSION,
            run_id=paths.folder.name,
            command=hooks.recorded(context.find_root().meta["command"]),
            configuration=configuration,
            devices=devices,
            plan=planned,
            telemetry_note=_telemetry_note(configuration, devices, seen),
            earlier=said_before,
        )
        run_files.store(stored, paths)
        references.store(asked_against, paths)
    shown = DisplayParams(
        verbose=config.verbose(everything),
        quiet=params["quiet"],
        log_format=params["log_format"],
        strict=params["strict"],
        on_finish=params["on_finish"],
        on_failure=params["on_failure"],
        metrics_file=params["metrics_file"],
        metrics_port=params["metrics_port"],
    )
    return work(stored, paths, shown, ending, notes=(*notes, *unknown), look=seen)


def _held_against(params: RunParams, configuration: "Configuration", models: "Catalogue") -> "Against":
    """What the options name. Raises UserError; also for a burn-in, whose checks are no figures of models."""
    from orchestrator.cli import comparison_options

    places = configuration.runs_folder, configuration.history_db
    found = comparison_options.read(
        params["compare_baseline"], params["thresholds"], params["price"], *places, models=models.models
    )
    if params["burn_in"] is not None and found:
        raise ConfigError(
            "--compare-baseline, --thresholds and --price are about figures of models; a burn-in has verdicts instead. "
            "Leave them out."
        )
    return found


def _require_time(planned: "Plan", configuration: "Configuration", devices: "tuple[Device, ...]") -> None:
    """Refuse a time limit in which, as far as can be told, not one launch would end."""
    from orchestrator.plan import estimate
    from orchestrator.state.time_budget import Budget

    limit_s = configuration.time_limit_s
    if limit_s is None:
        return
    budget = Budget(configuration, devices, limit_s, began=0.0)
    if any(budget.forecast(planned, device) for device in devices):
        return
    shortest_s = min(budget.expected_s(cell) for cell in planned.cells)
    raise ConfigError(
        f"nothing could be measured within the {limit_s:g} s of {_asked(configuration)}: the shortest launch takes "
        f"{estimate.about(shortest_s)}. Choose a quicker --profile, fewer iterations or a smaller batch, a longer "
        "preset, or `run`, which has no limit."
    )


def _asked(configuration: "Configuration") -> str:
    """Whose limit it is, as people wrote it."""
    from orchestrator.config import presets

    return presets.TRIAGE if configuration.preset == presets.TRIAGE else f"--{configuration.preset}"


def _with_their_users(
    configuration: "Configuration", devices: "tuple[Device, ...]", seen: "Look"
) -> "tuple[Device, ...]":
    """Refuse GPUs that others compute on; with --allow-busy mark them."""
    from orchestrator.gpu import gpu_users

    busy = gpu_users.busy(devices, seen)
    reason = gpu_users.refusal(devices, busy)
    if reason is not None and not configuration.allow_busy:
        raise DeviceError(reason)
    return gpu_users.marked(devices, busy)


def _configuration(params: RunParams, preset: str | None) -> "tuple[LayeredSettings, Configuration, Catalogue]":
    """What was said, what it means, and the models that it could name."""
    from orchestrator.config import catalogue, own_models, presets, shadowed_settings
    from orchestrator.config import resolution as config
    from orchestrator.gpu import devices
    from orchestrator.kinds.burn_in import levels, settings
    from orchestrator.store import folders

    defaults = catalogue.configs_folder() / "default.yaml"
    file = None if params["config"] is None else Path(params["config"])
    if params["config"] == "":
        raise ConfigError("--config: expected a file, got an empty text")
    limited = None if preset is None else presets.load(preset)
    everything = config.gather(defaults, file, said(params), None if limited is None else limited.said)
    places = config.Places(current=folders.current(), cache=folders.default_cache(os.environ, os.getuid()))
    models, everything = own_models.extended(catalogue.load(), everything, places.current, allowed=params["allow_code"])
    configuration = config.resolve(everything, models, places)
    if file is not None:
        alone = shadowed_settings.refuse_mistakes(file, defaults, models, places)
        if alone.chosen("gpu.ids"):
            devices.require_words(config.gpu_ids(alone.settings), alone.origin("gpu.ids"))
    if limited is not None:
        configuration = limited.on(configuration)
    if params["burn_in"] is not None:
        if limited is not None:
            raise ConfigError("--burn-in: `quick` and `triage` have limits of their own; use `run --burn-in`")
        configuration = settings.configured(configuration, params["burn_in"], params["level"], models, levels.load())
    elif params["level"] is not None:
        raise ConfigError("--level: it is one of a burn-in; add --burn-in with a duration, or leave it out")
    return everything, configuration, models


def _devices(everything: "LayeredSettings", configuration: "Configuration", seen: "Look") -> "tuple[Device, ...]":
    from orchestrator.gpu import cpu_devices, devices

    return devices.resolve(
        configuration.gpu_ids,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        order=os.environ.get("CUDA_DEVICE_ORDER"),
        cores=cpu_devices.usable_cores(),
        origin=everything.origin("gpu.ids", "--gpu-ids"),
        look=seen,
    )


def _telemetry_note(configuration: "Configuration", devices: "tuple[Device, ...]", seen: "Look") -> str:
    """Why the report will have no readings, or not all; empty where it should have them."""
    from orchestrator.gpu import gpu_users
    from protocol.cell import DeviceKind

    if not configuration.monitor:
        return "monitoring was switched off"
    if all(device.kind is DeviceKind.CPU for device in devices):
        return "NVML reads GPUs; there are none in this run"
    if hidden := gpu_users.unseen(devices, seen):
        return f"NVML does not tell who uses {', '.join(gpu.label for gpu in hidden)}: whether others did is not seen"
    return ""
