"""The user's YAML files, for the configuration and the catalogue.

    bytes ── at most 1 MB, UTF-8 ──▶ nodes ── no aliases, no duplicate keys, plain scalars ──▶ values ──▶ typed structs

Every error is a ConfigError that names the file and, where known, line, key and what was expected. The loader is pure
Python: libyaml's loader crashes the process on 100 kB of "[".
"""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import yaml

from orchestrator.config import yaml_schema
from orchestrator.errors import ConfigError
from orchestrator.system import safe_read

MAX_BYTES: Final = 1024 * 1024

T = TypeVar("T")
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
KeyPath = tuple[str | int, ...]

_SCALARS: Final = {
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:bool": "true or false",
    "tag:yaml.org,2002:int": "a whole number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:str": "text",
}
_COLLECTIONS: Final = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_INT: Final = "tag:yaml.org,2002:int"
_LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9_]")
_MERGE: Final = "tag:yaml.org,2002:merge"


@dataclass(frozen=True)
class Document:
    """The content of a YAML file. lines: path of a key or item → its line. nulls: path of a null → its spelling."""

    name: str
    value: Value
    lines: dict[KeyPath, int]  # line from 1 of every key and item by path
    nulls: dict[KeyPath, str]  # how nulls are written, "" for nothing

    def convert(self, kind: type[T]) -> T:
        """Convert the file to `kind`, a msgspec struct. Raises ConfigError with line and key."""
        return self.convert_part(self.value, kind, ())

    def convert_each(self, kind: type[T]) -> dict[str, T]:
        """Convert each value of the file's mapping to `kind`; keys stay. Raises ConfigError with line and key."""
        if not isinstance(self.value, dict):
            raise ConfigError(f"{self.name}: expected names, each with its own keys and values")
        return {name: self.convert_part(part, kind, (name,)) for name, part in self.value.items()}

    def convert_part(self, value: Value, kind: type[T], at: KeyPath) -> T:
        """Convert `value`, found at the path `at` of the file. Raises ConfigError with line and key."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            problem = yaml_schema.explain(error, value, kind)
            raise ConfigError(f"{self.where((*at, *problem.path))}: {problem.message}") from None

    def where(self, path: KeyPath) -> str:
        """Name a place in the file: "config.yaml, line 7, batch_sizes[2]"."""
        line = next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)
        parts = [self.name]
        if line is not None:
            parts.append(f"line {line}")
        if path:
            parts.append(spell(path))
        return ", ".join(parts)


def spell(path: KeyPath) -> str:
    """Write a path as people do: benchmark.precision[0]."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def read(path: Path) -> Document:
    """Read a YAML file. Raises ConfigError if it is missing, unreadable, over 1 MB, or not plain YAML."""
    try:
        with safe_read.opened(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: too large for a configuration (over 1 MB)")
    return parse(data, str(path))


def parse(data: bytes, name: str) -> Document:
    """Parse YAML. name: of the file, for errors. Raises ConfigError for bad YAML, aliases, tags and duplicate keys."""
    text = _text(data, name)
    document = Document(name, None, {}, {})
    try:
        node = _Loader(text).get_single_node()
        value = None if node is None else _value(node, (), document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}" if mark else name
        problem = ", ".join(filter(None, (error.context, error.problem)))
        if r"'\t'" in (error.problem or ""):
            problem = "found a tab. Use spaces"
        raise ConfigError(f"{where}: not valid YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply for a configuration") from None
    return replace(document, value=value)


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}, line {line}: not UTF-8 text, so not YAML") from None


class _Loader(yaml.SafeLoader):
    """SafeLoader without aliases: nine lines with aliases can expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not supported. Write the value out", problem_mark=self.get_mark()
            )
        return super().compose_node(parent, index)


def _value(node: yaml.Node, path: KeyPath, document: Document) -> Value:
    if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
        raise ConfigError(
            f"{_place(node, path, document.name)}: the tag {node.tag!r} is not supported. Use plain values"
        )
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, document)
    if isinstance(node, yaml.SequenceNode):
        items: list[Value] = []
        for index, item in enumerate(node.value):
            document.lines[(*path, index)] = item.start_mark.line + 1
            items.append(_value(item, (*path, index), document))
        return items
    value = _scalar(node, path, document.name)
    if value is None:
        document.nulls[path] = node.value
    return value


def _mapping(node: yaml.MappingNode, path: KeyPath, document: Document) -> Value:
    name, lines = document.name, document.lines
    values: dict[str, Value] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if key_node.tag == _MERGE:
            raise ConfigError(f"{name}, line {line}: merge keys (<<) are not supported. Write the values out")
        key = key_node.value
        if not isinstance(key, str):
            raise ConfigError(f"{name}, line {line}: a key must be text, not a list or a mapping")
        if key in values:
            first = lines[(*path, key)]
            raise ConfigError(f"{name}, line {line}: {spell((*path, key))} is given twice (first in line {first})")
        lines[(*path, key)] = line
        values[key] = _value(value_node, (*path, key), document)
    return values


def _scalar(node: yaml.Node, path: KeyPath, name: str) -> Value:
    where = _place(node, path, name)
    if node.tag == _TIMESTAMP:
        return str(node.value)
    if node.tag not in _SCALARS:
        raise ConfigError(f"{where}: the tag {node.tag!r} is not supported. Use plain values")
    if node.tag == _INT and _LEADING_ZERO.match(node.value):
        raise ConfigError(
            f"{where}: {_shortened(node.value)}: YAML reads a number with a leading zero as octal. Remove the zero"
        )
    constructor = yaml.SafeLoader.yaml_constructors[node.tag]
    try:
        value: Value = constructor(_BARE, node)
    except (ValueError, KeyError, IndexError, OverflowError):
        raise ConfigError(f"{where}: {_shortened(node.value)} is not {_SCALARS[node.tag]}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: {node.value} is not a finite number")
    return value


_BARE: Final = yaml.SafeLoader("")  # for constructors of scalars, methods that read nothing of their loader


def _place(node: yaml.Node, path: KeyPath, name: str) -> str:
    return f"{name}, line {node.start_mark.line + 1}" + (f", {spell(path)}" if path else "")


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
