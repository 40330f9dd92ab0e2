"""The options of a run, once for both programs. What they say in the terms of a configuration file:
option_mapping.py.
"""

import os
from typing import Final

import click

from orchestrator.cli import completion_values
from orchestrator.cli.list_options import ListOption
from orchestrator.cli.shared_options import (
    DISPLAY_OPTIONS,
    HELD_OPTIONS,
    HISTORY_OPTIONS,
    Command,
    DisplayParams,
    HistoryParams,
    a_file,
    decorate,
)


class RunParams(DisplayParams, HistoryParams):
    """What click passes for RUN_OPTIONS, HISTORY_OPTIONS and DISPLAY_OPTIONS. None: the option was not given."""

    models: str | None
    models_file: str | None
    pythonpath: str | None
    allow_code: bool
    batch_sizes: str | None
    precision: str | None
    seq_len: str | None
    input_size: str | None
    memory_format: str | None
    iterations: str | None
    warmup: str | None
    output: str | None
    format: str | None
    gpu_ids: str | None
    multi_gpu: bool | None
    solo: bool | None
    allow_busy: bool | None
    profile: str | None
    phases: str | None
    launches: str | None
    isolation: str | None
    seed: str | None
    monitor_gpu: bool | None
    require: str | None
    burn_in: str | None
    level: str | None
    inject: tuple[str, ...]
    max_temperature: str | None
    steps: bool
    in_phase: bool
    compare_baseline: str | None
    thresholds: str | None
    price: float | None
    config: str | None
    runs_folder: str | None
    dry_run: bool


RUN_OPTIONS: Final = (
    click.option(
        "-m",
        "--models",
        cls=ListOption,
        metavar="NAMES",
        shell_complete=completion_values.models,
        help="Models, separated by commas, or all; your own as file.py:Class or package.module:function. "
        "[default: all]",
    ),
    click.option(
        "--models-file",
        metavar="FILE",
        type=click.Path(),
        help="Models of your own, described in YAML. Without -m, these alone are measured.",
    ),
    click.option(
        "--pythonpath",
        cls=ListOption,
        separator=os.pathsep,
        metavar="FOLDERS",
        help="Folders in which Python looks first for packages of your own, separated by colons.",
    ),
    click.option(
        "--allow-code",
        is_flag=True,
        help="Run code of yours: files, and packages that are not installed.",
    ),
    click.option(
        "-b",
        "--batch-sizes",
        cls=ListOption,
        metavar="SIZES",
        help="Batch sizes, separated by commas, or auto (scan). [default: 1,8,32; training: 32; generation: 1]",
    ),
    click.option(
        "-p",
        "--precision",
        cls=ListOption,
        metavar="NAMES",
        shell_complete=completion_values.precisions,
        help="fp32, tf32, fp16, bf16 or several, separated by commas. [default: fp32]",
    ),
    click.option(
        "--seq-len",
        cls=ListOption,
        metavar="LENGTHS",
        help="Tokens a sequence, for models of text; of the prompt in generation. [default: each model's own]",
    ),
    click.option(
        "--input-size",
        cls=ListOption,
        metavar="SIZES",
        help="Pixels of a side, for models of images: 224,512,1024. [default: each model's own]",
    ),
    click.option(
        "--memory-format",
        metavar="NAME",
        shell_complete=completion_values.memory_formats,
        help="channels_last or contiguous, for models of images. [default: channels_last for convolutional ones]",
    ),
    click.option(
        "-i",
        "--iterations",
        metavar="N",
        help="Measure exactly N iterations a launch (not of loads). [default: until the profile's interval is reached]",
    ),
    click.option(
        "-w",
        "--warmup",
        metavar="N",
        help="Warm up for exactly N iterations (not for loading). [default: until times are steady]",
    ),
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(),
        callback=a_file,
        help="The report's file (a folder is refused); an older one is kept beside it. "
        "[default: ./benchmark_report.json]",
    ),
    click.option(
        "-f",
        "--format",
        cls=ListOption,
        metavar="NAMES",
        shell_complete=completion_values.formats,
        help="json, csv, txt, html, md, samples.csv, pytorch.json or several, separated by commas. "
        "[default: by the suffix of --output, else json]",
    ),
    click.option(
        "--gpu-ids",
        cls=ListOption,
        metavar="IDS",
        shell_complete=completion_values.gpu_ids,
        help="Indices or UUIDs of GPUs, UUIDs of MIG slices, separated by commas; all; or CPU devices: cpu:0,cpu:1. "
        "[default: all]",
    ),
    click.option(
        "--multi-gpu",
        is_flag=True,
        default=None,
        help="All GPUs (the default), whatever the file of --config says, unless --gpu-ids names some.",
    ),
    click.option(
        "--solo", is_flag=True, default=None, help="One device at a time, the others idle. [default: all at once]"
    ),
    click.option(
        "--allow-busy",
        is_flag=True,
        default=None,
        help="Measure beside other processes on the GPU; results are marked contaminated.",
    ),
    click.option(
        "--profile",
        metavar="NAME",
        shell_complete=completion_values.profiles,
        help="quick, triage, standard or rigorous: how long and how exactly is measured. [default: quick]",
    ),
    click.option(
        "--phases",
        cls=ListOption,
        metavar="NAMES",
        shell_complete=completion_values.phases,
        help="load, inference, training, generation or several. [default: all but generation]",
    ),
    click.option(
        "--launches",
        metavar="N",
        help="Fresh processes for each cell. [default: what the profile says]",
    ),
    click.option(
        "--isolation",
        metavar="NAME",
        shell_complete=completion_values.isolations,
        help="A fresh process is made by fork, from one with torch imported, or by exec, anew. [default: fork]",
    ),
    click.option(
        "--seed",
        metavar="N",
        help="Decides the order of the cells, weights and inputs. [default: 1]",
    ),
    click.option(
        "--monitor-gpu/--no-monitor-gpu",
        default=None,
        help="Read temperature, power and clocks during the run. [default: yes]",
    ),
    click.option(
        "--require",
        cls=ListOption,
        metavar="SIGNALS",
        shell_complete=completion_values.signals,
        help="Signals of health that must be readable on a GPU, or the run ends with 4: xid,ecc. [default: none]",
    ),
    click.option(
        "--burn-in",
        metavar="DURATION",
        help="Load and verify every device for so long (10m, 8h, 1h30m), and give each a verdict.",
    ),
    click.option(
        "--level",
        metavar="NAME",
        shell_complete=completion_values.levels,
        help="Of a burn-in: quick, standard or full. [default: by its duration, up to 10m, up to 1h, longer]",
    ),
    click.option(
        "--inject",
        metavar="FAULT",
        multiple=True,
        help="In a burn-in, prove that a fault is found: flip:<gpu>:<round>[:bits], slow:<gpu>:<percent> or "
        "hot:<gpu>:<celsius>; such a run can never pass.",
    ),
    click.option(
        "--max-temperature",
        metavar="CELSIUS",
        help="In a burn-in, end the load of a GPU that is so hot for 10 s. [default: where it slows itself down]",
    ),
    click.option(
        "--steps", is_flag=True, help="In a burn-in, go from idle to full load and back too, each GPU at its own time."
    ),
    click.option("--in-phase", is_flag=True, help="With --steps, all GPUs at the same time."),
    *HELD_OPTIONS,
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(),
        help="A configuration file; the command line wins over it. configs/default.yaml explains every key.",
    ),
    click.option(
        "--runs-folder",
        metavar="FOLDER",
        type=click.Path(),
        help="Each run gets a folder of its own in it. [default: ./runs]",
    ),
    *HISTORY_OPTIONS,
    click.option(
        "--dry-run",
        is_flag=True,
        help="Show the plan, cell by cell, with an estimate of the time; run and write nothing.",
    ),
)


def run_options(command: Command) -> Command:
    """Every option of a run, in the order of --help."""
    return decorate(command, (*RUN_OPTIONS, *DISPLAY_OPTIONS))
