"""From words to a configuration: what wins over what, and every mistake that a person can make in a file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import catalogue, config, settings, yaml_file
from orchestrator.configuration import Isolation, ReportFormat
from orchestrator.errors import ConfigError
from orchestrator.settings import Said, Settings
from protocol.cell import Mode, Precision, Workload
from tests.fakes.configurations import DEFAULTS, resolved

Write = Callable[[str | bytes], Path]


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes night.yaml into the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(text: str | bytes) -> Path:
        Path("night.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return Path("night.yaml")

    return write


def options(**values: object) -> Said:
    """What a command line says."""
    keys = [f"{key}.{name}" for key, value in values.items() if isinstance(value, dict) for name in value]
    return settings.from_options(values, dict.fromkeys([*values, *keys], "an option"))


# ── what is resolved ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_defaults_are_those_of_the_requirements() -> None:
    """All models, three phases, fp32, batch sizes 1, 8 and 32 (32 for training), every GPU, JSON."""
    made = resolved()
    assert made.models == catalogue.load().models
    assert made.workloads == (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)
    assert made.precisions == (Precision.FP32,)
    assert (made.batch_sizes, made.training_batch_sizes) == ((1, 8, 32), (32,))
    assert (made.gpu_ids, made.mode, made.isolation) == ("all", Mode.LOADED, Isolation.FORK)
    assert (made.profile, made.launches) == ("quick", 1)
    assert (made.measurement.iterations, made.measurement.warm_up_iterations) == (None, None)
    assert (made.monitor, made.monitor_interval_ms, made.allow_busy) == (True, 100, False)
    assert (made.output_path, made.formats) == ("/current/benchmark_report.json", (ReportFormat.JSON,))
    assert (made.runs_folder, made.cache_folder) == ("/current/runs", "/cache")


def test_the_defaults_file_names_every_key() -> None:
    """configs/default.yaml is the documentation of the file format, so no key is missing in it."""
    document = yaml_file.read(DEFAULTS)
    for name in Settings.__struct_fields__:
        assert (name,) in document.lines
    for name, section in document.value.items():
        if isinstance(section, dict):
            kind = settings.DeadlineSettings if name == "deadlines" else getattr(settings, name.capitalize())
            assert set(section) == set(kind.__struct_encode_fields__)


def test_a_file_changes_what_it_names_and_nothing_else(night: Write) -> None:
    """A file of one's own needs only the keys that it changes."""
    made = resolved(night("benchmark:\n  precision: bf16\ngpu:\n  ids: [0, 2]\n"))
    assert (made.precisions, made.gpu_ids) == ((Precision.BF16,), "0,2")
    assert (made.profile, made.batch_sizes) == ("quick", (1, 8, 32))


def test_the_command_line_wins_over_the_file(night: Write) -> None:
    """Defaults, then the file, then the options, key by key."""
    file = night("benchmark: {precision: bf16, profile: quick}\nbatch_sizes: 4\n")
    made = resolved(file, options(benchmark={"profile": "rigorous"}, batch_sizes=[2]))
    assert (made.precisions, made.profile, made.launches, made.batch_sizes) == ((Precision.BF16,), "rigorous", 5, (2,))


def test_every_section_of_the_requirements_example_is_understood(night: Write) -> None:
    """The example of the requirements document, word for word."""
    made = resolved(
        night(
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


def test_one_value_will_do_where_a_list_is_meant(night: Write) -> None:
    """`precision: fp32` and `batch_sizes: 8` are lists of one; a text may hold several, as on the command line."""
    made = resolved(night('models: "lstm, resnet50"\nbatch_sizes: 8\nbenchmark: {phases: load}\n'))
    assert [model.name for model in made.models] == ["lstm", "resnet50"]
    assert (made.batch_sizes, made.workloads) == ((8,), (Workload.LOAD,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu: {multi_gpu: false}", "0"),
        ("gpu: {multi_gpu: true}", "all"),
        ("gpu: {ids: 3}", "3"),
        ("gpu: {ids: 'cpu:0,cpu:1'}", "cpu:0,cpu:1"),
        ("gpu: {ids: [cpu:0, cpu:1]}", "cpu:0,cpu:1"),
        ("gpu: {ids: [0, 1], multi_gpu: false}", "0,1"),
    ],
)
def test_devices_can_be_said_in_several_ways(night: Write, text: str, words: str) -> None:
    """Ids decide where they are given, else multi_gpu does."""
    assert resolved(night(text)).gpu_ids == words


def test_an_empty_section_or_a_null_changes_nothing(night: Write) -> None:
    """A section in which everything is commented out is one; null, written out, means the default."""
    assert resolved(night("gpu:\n#  ids: 0\n")) == resolved()
    assert resolved(night("models: null\noutput: {path: ~}\n")) == resolved()


@pytest.mark.parametrize(
    ("output", "formats"),
    [
        ({"path": "a.csv"}, (ReportFormat.CSV,)),
        ({"path": "a.JSON", "format": "txt,json"}, (ReportFormat.TXT, ReportFormat.JSON)),
        ({"format": "csv"}, (ReportFormat.CSV,)),
        ({"path": "a.2026.11.1"}, (ReportFormat.JSON,)),
        ({"path": "a"}, (ReportFormat.JSON,)),
    ],
)
def test_the_report_has_the_format_that_its_name_says(output: object, formats: tuple[ReportFormat, ...]) -> None:
    """`-o report.csv` alone is clear enough; -f decides where it is given."""
    assert resolved(None, options(output=output)).formats == formats


def test_adaptive_or_fixed_is_chosen_by_one_number() -> None:
    """Iterations override the profile; launches too."""
    made = resolved(None, options(benchmark={"iterations": 5, "warmup": 2, "launches": 7}))
    assert (made.measurement.iterations, made.measurement.warm_up_iterations, made.launches) == (5, 2, 7)


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Not a YAML file at all
        (b"\x00\x01\x02", "night.yaml: not valid YAML: "),
        (b"batch_sizes: 1\nmodels: \xff", "night.yaml, line 2: not UTF-8 text, so not YAML"),
        ("models: [lstm\nx: 1", "night.yaml, line 2: not valid YAML: expected ',' or ']'"),
        ("a: b: c", "night.yaml, line 1: not valid YAML: mapping values are not allowed here"),
        ("models: lstm\n---\nmodels: lstm", "night.yaml, line 2: not valid YAML: but found another document"),
        ("[" * 100_000, "night.yaml: nested too deeply to be a configuration"),
        ("#" * (1024 * 1024 + 1), "night.yaml: larger than 1 MB, so not a configuration"),
        ("- lstm", 'night.yaml: expected a section with keys and values, got ["lstm"]'),
        ("lstm", 'night.yaml: expected a section with keys and values, got "lstm"'),
        ("", "night.yaml: there is no key in it, so it would change nothing; leave --config out"),
        ("# nothing\n", "night.yaml: there is no key in it"),
        ("{}", "night.yaml: there is no key in it"),
        # Keys
        ("models:\n", "night.yaml, line 1, models: nothing stands behind the key"),
        ("gpu:\n  ids:\n", "night.yaml, line 2, gpu.ids: nothing stands behind the key"),
        ("gpu: {}\nmodel: lstm", "night.yaml, line 2, model: there is no such key. Did you mean models? The keys here"),
        ("benchmark:\n  precison: fp32", "line 2, benchmark.precison: there is no such key. Did you mean precision?"),
        ("models: lstm\n\nmodels: all", "night.yaml, line 3: models is given twice (first in line 1)"),
        ("gpu:\n  ids: 0\n  ids: 1", "night.yaml, line 3: gpu.ids is given twice (first in line 2)"),
        ("1: lstm", "night.yaml, line 1, 1: there is no such key"),
        ("? [a, b]\n: 1", "night.yaml, line 1: a key must be a word, not a list or a mapping"),
        # YAML that is more than a configuration
        ("gpu: &a {ids: 0}\nrun: *a", "night.yaml, line 2: not valid YAML: aliases (*name) are not read"),
        ("gpu:\n  <<: {ids: 0}", "night.yaml, line 2: merge keys (<<) are not read"),
        ("models: !!python/name:os.system", "line 1, models: the tag 'tag:yaml.org,2002:python/name:os.system'"),
        ("models: !!python/object/apply:os.abort []", "line 1, models: the tag 'tag:yaml.org,2002:python/object"),
        ("models: !!set {lstm}", "night.yaml, line 1, models: the tag 'tag:yaml.org,2002:set' is not read"),
        # Types
        (
            "batch_sizes: [1, 8, many]",
            'night.yaml, line 1, batch_sizes[2]: expected a whole number of at least 1, got "',
        ),
        ("batch_sizes:\n  - 1\n  - 2.5", "line 3, batch_sizes[1]: expected a whole number of at least 1, got 2.5"),
        (
            "batch_sizes: 010",
            "line 1, batch_sizes: '010': YAML reads a number with a leading zero as octal; leave it out",
        ),
        ("batch_sizes: [1, 0_7]", "line 1, batch_sizes[1]: '0_7': YAML reads a number with a leading zero"),
        ("batch_sizes: 08", "batch_sizes: expected a whole number of at least 1 or a list"),
        ("batch_sizes: [true]", "batch_sizes[0]: expected a whole number of at least 1, got true"),
        (
            "batch_sizes: {a: 1}",
            'expected a whole number of at least 1 or a list of whole numbers of at least 1, got {"a',
        ),
        ("benchmark: fast", 'line 1, benchmark: expected a section with keys and values, got "fast"'),
        ("benchmark: {iterations: '5'}", 'benchmark.iterations: expected a whole number of at least 1, got "5"'),
        ("benchmark: {precision: 16}", "benchmark.precision: expected a word or a list of words, got 16"),
        ("gpu: {multi_gpu: 1}", "gpu.multi_gpu: expected true or false, got 1"),
        ("deadlines: {start: 0}", "deadlines.start: expected a number above 0, got 0"),
        ("deadlines: {import: soon}", 'deadlines.import: expected a number above 0, got "soon"'),
        ("deadlines: {start: .nan}", "line 1, deadlines.start: .nan is not a finite number"),
        ("deadlines: {start: .inf}", "line 1, deadlines.start: .inf is not a finite number"),
        ("benchmark: {seed: !!int x}", "night.yaml, line 1, benchmark.seed: 'x' is not a whole number"),
        (f"benchmark: {{seed: {'9' * 5000}}}", "is not a whole number"),
        ("benchmark: {seed: 99999999999999999999}", "benchmark.seed: 99999999999999999999 is too large"),
        ("run: {folder: 2026-01-01}\nmodels: 2026-01-01", "no model named '2026-01-01'"),
        # Values
        ("models: resnet5", "night.yaml, line 1, models: no model named 'resnet5'. Did you mean resnet50?"),
        (
            "models:\n  - lstm\n  - resnet",
            "night.yaml, line 3, models[1]: no model named 'resnet'. Did you mean resnet50",
        ),
        ("models: [lstm, lstm]", "night.yaml, line 1, models[1]: lstm is given twice"),
        ("models: []", "night.yaml, line 1, models: the list is empty; name at least one model"),
        ("models: ''", "night.yaml, line 1, models: a name is empty"),
        ("models: [all, lstm]", "models[0]: 'all' stands alone"),
        ("batch_sizes: []", "batch_sizes: the list is empty; name at least one size"),
        ("batch_sizes: 0", "batch_sizes: expected a whole number of at least 1"),
        ("batch_sizes: [8, -1]", "batch_sizes[1]: expected a whole number of at least 1, got -1"),
        ("batch_sizes: [8, 1, 8]", "batch_sizes: 8 is given twice"),
        ("training_batch_sizes: [0]", "training_batch_sizes[0]: expected a whole number of at least 1, got 0"),
        ("training_batch_sizes: [2, 2]", "training_batch_sizes: 2 is given twice"),
        ("benchmark: {iterations: 0}", "benchmark.iterations: expected a whole number of at least 1, got 0"),
        ("benchmark: {warmup: 0}", "benchmark.warmup: expected a whole number of at least 1, got 0"),
        ("benchmark: {launches: 0}", "benchmark.launches: expected a whole number of at least 1, got 0"),
        (
            "benchmark: {precision: fp61}",
            "benchmark.precision: there is no precision 'fp61'. There is fp32, tf32, fp16 and bf16.",
        ),
        ("benchmark: {precision: [fp32, fp32]}", "benchmark.precision[1]: fp32 is given twice"),
        ("benchmark: {phases: trainin}", "there is no phase 'trainin'. Did you mean training?"),
        ("benchmark: {phases: fault}", "there is no phase 'fault'"),
        ("benchmark: {profile: slow}", "benchmark.profile: there is no profile 'slow'. There is quick, standard and"),
        ("benchmark: {mode: alone}", "benchmark.mode: there is no mode 'alone'. There is solo and loaded."),
        ("benchmark: {isolation: none}", "benchmark.isolation: there is no isolation 'none'"),
        ("output: {format: html}", "output.format: html comes with a later version; now there is json, csv and txt"),
        ("output: {path: report.html}", "output.path: html comes with a later version"),
        ("output: {format: pdf}", "output.format: there is no format 'pdf'"),
        ("output: {path: report.pdf}", "line 1, output.path: there is no format 'pdf'. There is json, csv and txt"),
        ("output: {path: report.pdf, format: json}", "line 1, output.path: there is no format 'pdf'"),
        ("output: {path: out/}", "line 1, output.path: out/ is a folder; name the report's file, such as out/report"),
        (
            "output:\n  path: r.csv\n  format: [json, txt]",
            "night.yaml, line 2, output.path: r.csv ends in .csv, but night.yaml, line 3, output.format asks for json "
            "and txt. Leave the suffix out, or add csv to the formats.",
        ),
        ('output: {path: "a\\0b"}', "night.yaml, line 1, output.path: 'a\\x00b': no path contains a NUL character"),
        ("output: {path: ''}", "night.yaml, line 1, output.path: expected a path, got an empty text"),
        ("run: {folder: ' '}", "night.yaml, line 1, run.folder: expected a path, got an empty text"),
        ("run: {cache: ''}", "night.yaml, line 1, run.cache: expected a path, got an empty text"),
    ],
)
def test_a_mistake_in_a_file_is_named(night: Write, text: str | bytes, message: str) -> None:
    """Every mistake becomes one message with file, line, key and what was expected."""
    with pytest.raises(ConfigError) as refused:
        resolved(night(text))
    assert message in str(refused.value)


def test_a_precision_that_is_near_to_nothing_that_exists() -> None:
    """The message lists what there is."""
    with pytest.raises(ConfigError, match="There is fp32, tf32, fp16 and bf16"):
        resolved(None, options(benchmark={"precision": "int8"}))


@pytest.mark.parametrize(("path", "reason"), [("none.yaml", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_named(night: Write, path: str, reason: str) -> None:
    """So that a wrong path is not taken for an empty file."""
    with pytest.raises(ConfigError, match=f"{path}: cannot be read: {reason}"):
        resolved(Path(path))


def test_a_default_that_was_removed_is_missed_by_name(tmp_path: Path) -> None:
    """An installation that somebody edited says what it lacks."""
    (tmp_path / "default.yaml").write_text("benchmark: {profile: quick}\n")
    said = config.gather(tmp_path / "default.yaml", None, options())
    with pytest.raises(ConfigError, match=r"configs/default\.yaml: the key \w+ is missing"):
        config.resolve(said, catalogue.load(), config.Places(Path("/current"), Path("/cache")))
