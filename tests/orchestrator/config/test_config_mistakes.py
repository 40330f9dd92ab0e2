"""Every mistake that a person can make in a configuration file, and the message that it gets."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.decorators import OPTIONS
from orchestrator.config import catalogue
from orchestrator.config import resolution as config
from orchestrator.errors import ConfigError
from tests.fakes.configurations import options, resolved

Write = Callable[[str | bytes], Path]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Not a YAML file at all
        (b"\x00\x01\x02", "night.yaml: not valid YAML: "),
        (b"batch_sizes: 1\nmodels: \xff", "night.yaml, line 2: not UTF-8 text, so not YAML"),
        ("models: [lstm\nx: 1", "night.yaml, line 2: not valid YAML: expected ',' or ']'"),
        ("a: b: c", "night.yaml, line 1: not valid YAML: mapping values are not allowed here"),
        ("models: lstm\n---\nmodels: lstm", "night.yaml, line 2: not valid YAML: but found another document"),
        ("[" * 5_000, "night.yaml: nested too deeply to be a configuration"),
        ("#" * (1024 * 1024 + 1), "night.yaml: larger than 1 MB, so not a configuration"),
        ("- lstm", 'night.yaml: expected a section with keys and values, got ["lstm"]'),
        ("lstm", 'night.yaml: expected a section with keys and values, got "lstm"'),
        ("", "night.yaml: there is no key in it, so it would change nothing; leave --config out"),
        ("# nothing\n", "night.yaml: there is no key in it"),
        # Keys
        ("models:\n", "night.yaml, line 1, models: nothing stands behind the key"),
        ("gpu:\n  ids:\n", "night.yaml, line 2, gpu.ids: nothing stands behind the key"),
        ("gpu: {}\nmodel: lstm", "night.yaml, line 2, model: there is no such key. Did you mean models"),
        ("benchmark:\n  precison: fp32", "line 2, benchmark.precison: there is no such key. Did you mean precision?"),
        ("models: lstm\n\nmodels: all", "night.yaml, line 3: models is given twice (first in line 1)"),
        ("gpu:\n  ids: 0\n  ids: 1", "night.yaml, line 3: gpu.ids is given twice (first in line 2)"),
        ("1: lstm", "night.yaml, line 1, 1: there is no such key"),
        ("? [a, b]\n: 1", "night.yaml, line 1: a key must be a word, not a list or a mapping"),
        # YAML that is more than a configuration
        ("gpu: &a {ids: 0}\nrun: *a", "night.yaml, line 2: not valid YAML: aliases (*name) are not read"),
        ("gpu:\n  <<: {ids: 0}", "night.yaml, line 2: merge keys (<<) are not read"),
        ("models: !!python/name:os.system", "line 1, models: the tag 'tag:yaml.org,2002:python/name:os.system'"),
        ("models: !!set {lstm}", "night.yaml, line 1, models: the tag 'tag:yaml.org,2002:set' is not read"),
        # Types
        ("batch_sizes: [1, 8, many]", "night.yaml, line 1, batch_sizes[2]: expected a whole number of at least"),
        ("batch_sizes:\n  - 1\n  - 2.5", "line 3, batch_sizes[1]: expected a whole number of at least 1, got 2.5"),
        ("batch_sizes: 010", "line 1, batch_sizes: '010': YAML reads a number with a leading zero as octal;"),
        ("batch_sizes: [1, 0_7]", "line 1, batch_sizes[1]: '0_7': YAML reads a number with a leading zero"),
        ("batch_sizes: 08", "batch_sizes: expected a whole number of at least 1 or auto or a list"),
        ("batch_sizes: [true]", "batch_sizes[0]: expected a whole number of at least 1, got true"),
        ("batch_sizes: {a: 1}", "expected a whole number of at least 1 or auto or a list of whole numbers of at"),
        ("benchmark: fast", 'line 1, benchmark: expected a section with keys and values, got "fast"'),
        ("benchmark: {iterations: '5'}", 'benchmark.iterations: expected a whole number of at least 1, got "5"'),
        ("benchmark: {precision: 16}", "benchmark.precision: expected a word or a list of words, got 16"),
        ("gpu: {multi_gpu: 1}", "gpu.multi_gpu: expected true or false, got 1"),
        ("deadlines: {start: 0}", "deadlines.start: expected a number above 0, got 0"),
        ("deadlines: {import: 1e3}", 'expected a number above 0, got "1e3": in YAML it is written 1.0e+3'),
        ("deadlines: {import: -1.5E-3}", "expected a number above 0, got -0.0015"),
        ("deadlines: {import: 2.5e3}", 'got "2.5e3": in YAML it is written 2.5e+3'),
        ("deadlines: {import: soon}", 'deadlines.import: expected a number above 0, got "soon"'),
        ("deadlines: {start: .nan}", "line 1, deadlines.start: .nan is not a finite number"),
        ("deadlines: {start: .inf}", "line 1, deadlines.start: .inf is not a finite number"),
        ("benchmark: {seed: !!int x}", "night.yaml, line 1, benchmark.seed: 'x' is not a whole number"),
        (f"benchmark: {{seed: {'9' * 5000}}}", "is not a whole number"),
        ("benchmark: {seed: 99999999999999999999}", "benchmark.seed: 99999999999999999999 is too large"),
        ("run: {folder: 2026-01-01}\nmodels: 2026-01-01", "no model named '2026-01-01'"),
        # Values
        ("models: resnet5", "night.yaml, line 1, models: no model named 'resnet5'. Did you mean resnet50"),
        ("models:\n  - lstm\n  - resnet", "night.yaml, line 3, models[1]: no model named 'resnet'. Did you mean"),
        ("models: [lstm, lstm]", "night.yaml, line 1, models[1]: lstm is given twice"),
        ("models: []", "night.yaml, line 1, models: the list is empty; name at least one model"),
        ("models: ''", "night.yaml, line 1, models: a name is empty"),
        ("models: [all, lstm]", "models[0]: 'all' stands alone"),
        ("batch_sizes: []", "batch_sizes: the list is empty; name at least one size"),
        ("batch_sizes: 0", "batch_sizes: expected a whole number of at least 1"),
        ("batch_sizes: [8, -1]", "batch_sizes[1]: expected a whole number of at least 1, got -1"),
        ("batch_sizes: [8, 1, 8]", "batch_sizes: 8 is given twice"),
        ("training_batch_sizes: [0]", "training_batch_sizes[0]: expected a whole number of at least 1, got 0"),
        ("benchmark: {iterations: 0}", "benchmark.iterations: expected a whole number of at least 1, got 0"),
        ("benchmark: {launches: 1001}", "benchmark.launches: 1001 is too large; the largest that is allowed is 1000"),
        ("benchmark: {precision: fp61}", "benchmark.precision: there is no precision 'fp61'. Did you mean fp16?"),
        ("benchmark: {precision: [fp32, fp32]}", "benchmark.precision[1]: fp32 is given twice"),
        ("sequence_lengths: 0", "line 1, sequence_lengths: expected a whole number of at least 1"),
        ("input_sizes: [224, big]", 'input_sizes[1]: expected a whole number of at least 1, got "big"'),
        ("input_sizes: [512, 224, 512]", "input_sizes: 512 is given twice"),
        ("input_sizes: []", "input_sizes: the list is empty; name at least one size"),
        ("models: resnet50\ninput_sizes: 16", "night.yaml, line 2, input_sizes: resnet50 takes 64 pixels or"),
        ("benchmark: {memory_format: channel_last}", "benchmark.memory_format: there is no memory format"),
        ("benchmark: {phases: trainin}", "there is no phase 'trainin'. Did you mean training?"),
        ("benchmark: {phases: fault}", "there is no phase 'fault'"),
        ("benchmark: {profile: slow}", "benchmark.profile: there is no profile 'slow'. There is quick, triage, "),
        ("benchmark: {mode: alone}", "benchmark.mode: there is no mode 'alone'. There is solo and loaded."),
        ("benchmark: {mode: [solo, solo]}", "benchmark.mode[1]: solo is given twice"),
        ("benchmark: {isolation: none}", "benchmark.isolation: there is no isolation 'none'"),
        ("output: {path: report.html, format: json}", "report.html ends in .html, but"),
        ("output: {format: pdf}", "output.format: there is no format 'pdf'"),
        ("output: {path: report.pdf}", "line 1, output.path: there is no format 'pdf'. There is json, txt, md, csv"),
        ("output: {path: report.pdf, format: json}", "line 1, output.path: there is no format 'pdf'"),
        ("output: {path: out/}", "line 1, output.path: out/ is a folder; name the report's file, such as out/report"),
        ("output:\n  path: r.csv\n  format: [json, txt]", "night.yaml, line 2, output.path: r.csv ends in .csv,"),
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
    said = config.gather(OPTIONS, tmp_path / "default.yaml", None, options())
    with pytest.raises(ConfigError, match=r"configs/default\.yaml: the key [\w.]+ is missing"):
        config.resolve(said, catalogue.load(), config.Places(Path("/current"), Path("/cache")))
