"""What comes from outside is data: it starts no code, fills no memory, leaves no folder, steers no terminal."""

import ast
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from orchestrator.config import yaml_file
from orchestrator.errors import ConfigError, RunFolderError
from orchestrator.report import as_csv
from orchestrator.store import run_files
from protocol import codec
from protocol.cell import Cell, Precision, Workload, slug
from protocol.errors import ProtocolError
from protocol.messages import FromWorker
from protocol.paths import RunPaths
from tests.fakes import faults
from tests.fakes.node import Node
from tests.fakes.runs import FakeRun
from tests.fuzz.targets import KINDS
from tests.test_rules import ROOT, SOURCES, Source, parse


def parts(kind: inspect.Type, seen: set[type]) -> Iterator[inspect.Type]:
    """A type and everything within it, each struct once."""
    yield kind
    if isinstance(kind, inspect.StructType):
        if kind.cls in seen:
            return
        seen.add(kind.cls)
        inner: tuple[inspect.Type, ...] = tuple(field.type for field in kind.fields)
    else:
        found = [getattr(kind, name, ()) for name in ("types", "item_types", "item_type", "key_type", "value_type")]
        inner = tuple(one for part in found for one in (part if isinstance(part, tuple) else (part,)))
    for one in inner:
        yield from parts(one, seen)


def mentioning(words: str) -> Iterator[Source]:
    """The parsed sources whose text has a match of `words`: to parse all of them takes seconds."""
    return (parse(path) for path in SOURCES if re.search(words, path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_messages_have_a_strict_schema(kind: object) -> None:
    """No field takes just anything, none is left undecoded or is an extension, and no unknown field is let through."""
    for part in parts(inspect.type_info(kind), set()):
        assert not isinstance(part, inspect.AnyType | inspect.RawType | inspect.ExtType | inspect.CustomType), part
        if isinstance(part, inspect.StructType):
            assert part.forbid_unknown_fields, part.cls


def test_every_kind_of_message_is_looked_at() -> None:
    """Whatever a decoder is made for anywhere in the product stands in the list that the tests and the fuzzers take."""
    names = {
        ast.unparse(call.args[-1])
        for source in mentioning("codec")
        for call in source.nodes
        if isinstance(call, ast.Call) and not source.name.endswith("/codec.py")
        if isinstance(call.func, ast.Subscript) or getattr(call.func, "attr", "") in {"Decoder", "decode"}
        if re.fullmatch(r"codec\.(Decoder(\[.*\])?|decode)", ast.unparse(call.func))
    }
    known = {kind.__name__ for kind in KINDS if isinstance(kind, type)}
    unions = {"FromWorker", "ToWorker", "ToZygote", "FromZygote", "FromSampler", "Record", "HealthRecord"}
    assert names == known | unions
    assert len(KINDS) == len(known) + len(unions)


def test_nothing_hooks_into_decoding() -> None:
    """No extension hook, no lenient conversion, no decoder of MessagePack or YAML beside the guarded ones."""
    hooks = {"ext_hook", "dec_hook", "object_hook", "object_pairs_hook"}
    lenient = [
        f"{source.name}:{node.value.lineno}"
        for source in mentioning("hook|strict *= *False")
        for node in source.nodes
        if isinstance(node, ast.keyword)
        and (node.arg in hooks or (node.arg == "strict" and ast.unparse(node.value) == "False"))
    ]
    callers = {
        source.name
        for source in mentioning("msgpack|yaml")
        for node in source.nodes
        if isinstance(node, ast.Attribute) and node.attr in {"Decoder", "decode", "yaml", "load"}
        if ast.unparse(node) in {"msgspec.msgpack.Decoder", "msgspec.msgpack.decode", "msgspec.yaml", "yaml.load"}
    }
    assert lenient == []
    assert {Path(name).name for name in callers} <= {"codec.py"}


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"\x82\xa1z" + b"\x91" * 100_000 + b"\xc0", RecursionError),
        (b"\x81\xa4type\xa2\xff\xfe", UnicodeDecodeError),
        (b"\x81\xa4type", msgspec.DecodeError),
        (b"\xc7\x01\x05\x00", msgspec.ValidationError),
    ],
    ids=["nested", "not UTF-8", "torn", "extension"],
)
def test_every_error_of_decoding_becomes_one(data: bytes, cause: type[Exception]) -> None:
    """Nesting without end, text that is no text, a torn message and an extension: all are a ProtocolError."""
    with pytest.raises(ProtocolError) as caught:
        codec.Decoder[FromWorker](FromWorker).decode(data)
    assert isinstance(caught.value.__cause__, cause)


def test_a_length_that_lies_takes_no_memory() -> None:
    """Five bytes that announce four thousand million values are refused before room is made for them."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from protocol import codec; from protocol.errors import ProtocolError; from protocol.result import Result\n"
        "for head in (b'\\xdd', b'\\xdf', b'\\xc6', b'\\xdb'):\n"
        "    try: codec.decode(b'\\x81\\xa6blocks' + head + b'\\xff' * 4, Result)\n"
        "    except ProtocolError: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["refused"] * 4, done.stderr


def test_yaml_is_read_by_the_pure_loader_alone() -> None:
    """The loader of libyaml ends the process on deep nesting: no module names it, and ours is not made of it."""
    named = [path.name for path in SOURCES if re.search(r"\bC(Safe|Full|Base)?(Loader|Parser)\b", path.read_text())]
    assert named == []
    assert not any("yaml.cyaml" in base.__module__ for base in yaml_file._Loader.__mro__)
    assert issubclass(yaml_file._Loader, yaml.SafeLoader)


@pytest.mark.parametrize("text", ["[" * 5000, "{" * 5000, "- " * 5000, "? " * 5000, "a:\n" + " - [" * 999])
def test_deep_nesting_is_an_error_for_people(tmp_path: Path, text: str) -> None:
    """However it is nested, a configuration and a run.yaml are refused, and nothing crashes."""
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        yaml_file.read(path)
    with pytest.raises(RunFolderError):
        run_files.load(RunPaths(tmp_path))


def test_run_yaml_is_read_as_strictly_as_a_configuration(tmp_path: Path) -> None:
    """A folder may come from somebody else: aliases, that nine lines can make gigabytes of, duplicate keys and tags."""
    run = FakeRun(tmp_path / "run")
    text = run.paths.config.read_text()
    for wrong, words in (
        (text + "tool_version: '9'\n", "given twice"),
        (text.replace("command:", "command: &a", 1).replace("telemetry_note: ''", "telemetry_note: *a"), "aliases"),
        (text.replace("telemetry_note: ''", "telemetry_note: !!bool maybe"), "true or false"),
    ):
        assert wrong != text
        run.paths.config.write_text(wrong)
        with pytest.raises(RunFolderError, match=words):
            run.archive()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_text_is_no_formula_and_numbers_stay_numbers(start: str) -> None:
    """Each of the six beginnings gets a quote where it is text; a negative number has none."""
    assert str(as_csv.harmless(f"{start}1+1")).startswith("'")
    assert (as_csv.harmless(-1.5), as_csv.harmless(-3), as_csv.harmless(0)) == (-1.5, -3, 0)


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_name_leads_out_of_the_folder(model: str, uuid: str) -> None:
    """Whatever a model or a device is called, its files lie in the run's folder, in names that a file system takes."""
    cell = Cell(
        devices=(uuid,), model=model, workload=Workload.FAULT, precision=Precision.FP32, batch_size=1, input_size=None
    )
    paths = RunPaths(Path("/runs/one"))
    launches, telemetry = Path("/runs/one/launches"), Path("/runs/one/telemetry")
    assert paths.launch(cell.id, 1).folder == launches / cell.id / "1"
    assert paths.samples(uuid).parent == telemetry
    for name in (cell.id, slug(uuid)):
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,99}", name)
        assert name != ".."


def test_nothing_listens_beyond_this_machine() -> None:
    """No module names an address: workers are heard on a socket in a private folder (test_link.py), others on pairs."""
    words = re.compile(r"tcp://|0\.0\.0\.0|AF_INET|pgm://|ws://")
    assert [str(path) for path in SOURCES if words.search(path.read_text(encoding="utf-8"))] == []


def test_no_file_of_a_run_holds_the_environment(tmp_path: Path) -> None:
    """A password in the environment of a run stands nowhere in its folder, neither by name nor by value."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"), faults.model("bad", do="raise"), faults.model("worse", do="segfault"))
    name, value = "GPUBENCH_TEST_PASSWORD", hashlib.sha256(b"secret").hexdigest()
    node = Node(folder, "-v", environment={name: value})
    assert node.wait() == 4, node.output
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {"run.yaml", "journal.gpj", "report.json", "error.json"} <= {path.name for path in files}
    for path in files:
        data = path.read_bytes()
        assert name.encode() not in data, path
        assert value.encode() not in data, path
    assert value not in node.output
