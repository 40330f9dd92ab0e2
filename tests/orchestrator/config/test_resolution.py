"""From words to a configuration: what wins over what, and what is resolved of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.decorators import OPTIONS
from orchestrator.config import catalogue, yaml_file
from orchestrator.config.report_formats import ReportFormat
from orchestrator.config.run_configuration import Configuration, Isolation
from orchestrator.errors import ConfigError
from protocol.cell import MemoryFormat, Mode, Precision, Workload
from protocol.messages import Measurement
from tests.fakes.configurations import DEFAULTS, options, resolved

Write = Callable[[str | bytes], Path]


def test_the_defaults_are_those_of_the_requirements() -> None:
    """All models, loading, inference and training, fp32, batch sizes 1, 8, 32 (32 for training), every GPU, JSON."""
    made = resolved()
    assert made.models == tuple(model for model in catalogue.load().models if model.name != "stylegan2-critic")
    assert made.workloads == (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)
    assert made.precisions == (Precision.FP32,)
    assert (made.batch_sizes, made.training_batch_sizes, made.generation_batch_sizes) == ((1, 8, 32), (32,), (1,))
    assert (made.sequence_lengths, made.input_sizes, made.memory_format) == ((), (), None)
    assert (made.gpu_ids, made.modes, made.isolation) == ("all", (Mode.LOADED,), Isolation.FORK)
    assert (made.profile, made.launches) == ("quick", 1)
    assert (made.measurement.iterations, made.measurement.warm_up_iterations) == (None, None)
    assert made.measurement.load_s == 1
    assert (made.monitor, made.monitor_interval_ms, made.allow_busy) == (True, 100, False)
    assert (made.output_path, made.formats) == ("/current/benchmark_report.json", (ReportFormat.JSON,))
    assert (made.runs_folder, made.cache_folder) == ("/current/runs", "/cache")


def test_what_is_measured_on_request_is_measured_where_it_is_named() -> None:
    """`all` leaves it out: the default run has five minutes."""
    named, every = (resolved(command_line=options(models=word)) for word in ("stylegan2-critic", "all"))
    assert [model.name for model in named.models] == ["stylegan2-critic"]
    assert "stylegan2-critic" not in {model.name for model in every.models}


def test_the_defaults_file_names_every_key() -> None:
    """configs/default.yaml is the documentation of the file format, so no key is missing in it."""
    lines = {yaml_file.spell(key) for key in yaml_file.read(DEFAULTS).lines}
    assert {option.key for option in OPTIONS} - {""} <= lines


def test_options_that_set_a_field_as_it_is_name_one() -> None:
    """A wrong name would end the first run that gives the option."""
    fields = {*Configuration.__struct_fields__, *(f"measurement.{name}" for name in Measurement.__struct_fields__)}
    assert {option.sets for option in OPTIONS} - {""} <= fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "benchmark:\n  precision: bf16\ngpu:\n  ids: [0, 2]\n",
            {"precisions": (Precision.BF16,), "gpu_ids": "0,2", "profile": "quick", "batch_sizes": (1, 8, 32)},
        ),
        ("benchmark: {mode: [solo, loaded]}", {"modes": (Mode.SOLO, Mode.LOADED)}),
        ("benchmark: {mode: solo}", {"modes": (Mode.SOLO,)}),
        ("batch_sizes: 8\nbenchmark: {phases: load}", {"batch_sizes": (8,), "workloads": (Workload.LOAD,)}),
        ("benchmark: {precision: 'tf32, fp16'}", {"precisions": (Precision.TF32, Precision.FP16)}),
        (
            "sequence_lengths: [128, 512]\ninput_sizes: 512\ngeneration_batch_sizes: [1, 8]",
            {"sequence_lengths": (128, 512), "input_sizes": (512,), "generation_batch_sizes": (1, 8)},
        ),
        ("benchmark: {memory_format: channels_last}", {"memory_format": MemoryFormat.CHANNELS_LAST}),
        (
            "sequence_lengths: null\nbenchmark: {memory_format: null}",
            {"sequence_lengths": (), "memory_format": None},
        ),
        ("gpu: {multi_gpu: false}", {"gpu_ids": "0"}),
        ("gpu: {multi_gpu: true}", {"gpu_ids": "all"}),
        ("gpu: {ids: 3}", {"gpu_ids": "3"}),
        ("gpu: {ids: 'cpu:0,cpu:1'}", {"gpu_ids": "cpu:0,cpu:1"}),
        ("gpu: {ids: [cpu:0, cpu:1]}", {"gpu_ids": "cpu:0,cpu:1"}),
        ("gpu: {ids: [0, 1], multi_gpu: false}", {"gpu_ids": "0,1"}),
    ],
)
def test_a_file_changes_what_it_names(burn_in_run: Write, text: str, expected: dict[str, object]) -> None:
    """One value will do for a list, a text may hold several. Ids decide where they are given, else multi_gpu does."""
    made = resolved(burn_in_run(text))
    assert {name: getattr(made, name) for name in expected} == expected


def test_the_command_line_wins_over_the_file(burn_in_run: Write) -> None:
    """Defaults, then the file, then the options, key by key."""
    file = burn_in_run("benchmark: {precision: bf16, profile: quick}\nbatch_sizes: 4\n")
    made = resolved(file, options(benchmark={"profile": "rigorous"}, batch_sizes=[2]))
    assert (made.precisions, made.profile, made.launches, made.batch_sizes) == ((Precision.BF16,), "rigorous", 5, (2,))


def test_every_section_of_the_requirements_example_is_understood(burn_in_run: Write) -> None:
    """The example of the requirements document, word for word."""
    made = resolved(
        burn_in_run(
            """
benchmark:
  iterations: 100
  warmup: 10
  precision: fp32
models:
  - bert-base
  - resnet50
batch_sizes:
  - 1
  - 8
  - 32
output:
  path: ./benchmark_report.json
  format: json
  verbose: false
monitoring:
  enabled: true
  interval_ms: 100
gpu:
  ids: [0]
  multi_gpu: false
"""
        )
    )
    assert [model.name for model in made.models] == ["bert-base", "resnet50"]
    assert (made.measurement.iterations, made.measurement.warm_up_iterations) == (100, 10)
    assert made.gpu_ids == "0"


def test_all_models_get_the_sizes_that_they_can_take(burn_in_run: Write) -> None:
    """Where a model was named, a size that it cannot take is refused; of all of them some are left out instead."""
    sizes = "sequence_lengths: [128, 4096]\n"
    assert resolved(burn_in_run(f"{sizes}models: all\n")).sequence_lengths == (128, 4096)
    assert resolved(burn_in_run(f"{sizes}models: [all]\n")).sequence_lengths == (128, 4096)
    assert resolved(burn_in_run(f"{sizes}models: ' all '\n")).sequence_lengths == (128, 4096)
    assert resolved(burn_in_run(f"{sizes}models: [lstm, resnet50]\n")).sequence_lengths == (128, 4096)
    with pytest.raises(ConfigError, match=r"night\.yaml, line 1, sequence_lengths: bert-base .* 512 "):
        resolved(burn_in_run(f"{sizes}models: [lstm, bert-base]\n"))


def test_an_empty_section_or_a_null_changes_nothing(burn_in_run: Write) -> None:
    """A section in which everything is commented out is one; null, written out, means the default."""
    assert resolved(burn_in_run("gpu:\n#  ids: 0\n")) == resolved()
    assert resolved(burn_in_run("benchmark: {}\n")) == resolved()
    assert resolved(burn_in_run("models: null\noutput: {path: ~}\n")) == resolved()


@pytest.mark.parametrize(
    ("output", "formats"),
    [
        ({"path": "a.csv"}, (ReportFormat.CSV,)),
        ({"path": "a.JSON", "format": "txt,json"}, (ReportFormat.TXT, ReportFormat.JSON)),
        ({"format": "csv"}, (ReportFormat.CSV,)),
        ({"format": "text,markdown,txt"}, (ReportFormat.TXT, ReportFormat.MD)),
        ({"path": "a.2026.11.1"}, (ReportFormat.JSON,)),
        ({"path": "a"}, (ReportFormat.JSON,)),
    ],
)
def test_the_report_has_the_format_that_its_name_says(output: object, formats: tuple[ReportFormat, ...]) -> None:
    """`-o report.csv` alone is clear enough; -f decides where it is given."""
    assert resolved(None, options(output=output)).formats == formats


def test_precisions_have_the_names_of_torch_too() -> None:
    """People type them by habit."""
    made = resolved(None, options(benchmark={"precision": "half,bfloat16,float16,float32"}))
    assert made.precisions == (Precision.FP16, Precision.BF16, Precision.FP32)


def test_adaptive_or_fixed_is_chosen_by_one_number() -> None:
    """Iterations override the profile; launches too."""
    made = resolved(None, options(benchmark={"iterations": 5, "warmup": 2, "launches": 7}))
    assert (made.measurement.iterations, made.measurement.warm_up_iterations, made.launches) == (5, 2, 7)
