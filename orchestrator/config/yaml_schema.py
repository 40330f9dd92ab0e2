"""Explain in plain words how a value differs from its type, from the error of msgspec."""

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import inspect

from orchestrator.errors import ConfigError

_PATH: Final = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_PART: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN: Final = re.compile(r"^Object contains unknown field `(.*?)`")
_MISSING: Final = re.compile(r"^Object missing required field `(.*?)`")
_TOO_LARGE: Final = re.compile(r"^Expected `int` <=|^Number out of range")
_EXPONENT: Final = re.compile(r"([-+]?)(\d[\d_]*)(\.\d*)?[eE]([-+]?)(\d+)")
_SEPARATORS: Final = re.compile(r"[-_ .]+")
_LETTERS: Final = re.compile(r"[a-z]{3,}")
_MOST_NEAR: Final = 3
_SHOWN: Final = 60


@dataclass(frozen=True)
class _Problem:
    path: tuple[str | int, ...]
    message: str


def explain(error: msgspec.ValidationError, value: object, kind: object) -> _Problem:
    """Return the path of the wrong value, and a message on it: "expected a number, got nothing".

    error: raised by the conversion of `value` to `kind`.
    """
    text = str(error)
    found = _PATH.search(text)
    path, value, expected = _follow(found.group(1) if found else "", value, inspect.type_info(kind))
    if unknown := _UNKNOWN.match(text):
        return _Problem((*path, unknown.group(1)), _unknown_key(unknown.group(1), expected))
    if missing := _MISSING.match(text):
        return _Problem(path, f"the key {missing.group(1)} is missing")
    if _TOO_LARGE.search(text):
        return _Problem(path, f"{_shown(value)} is too large{_largest(expected)}")
    return _Problem(path, f"expected {describe_type(expected)}, got {_shown(value)}{_as_yaml(value, expected)}")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean a or b?" (with a leading space) with `names` similar to `name`; "" if there are none."""
    names = list(names)
    if (meant := _meant(name, names)) is not None:
        return f" Did you mean {meant}?"
    spelt: dict[str, list[str]] = {}
    for one in dict.fromkeys(names):
        spelt.setdefault(one.lower(), []).append(one)
    near = difflib.get_close_matches(name.lower(), spelt, n=_MOST_NEAR, cutoff=0.6) or _same_family(name, spelt)
    return f" Did you mean {listed([one for word in near for one in spelt[word]])}?" if near else ""


def _same_family(name: str, words: Iterable[str]) -> list[str]:
    """Return up to three of `words` that begin with the leading letters of `name`: vit-base for "vit_b_16"."""
    letters = _LETTERS.match(name.lower())
    return [] if letters is None else [word for word in words if word.startswith(letters[0])][:_MOST_NEAR]


def _meant(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is `name` with other case or separators; None if several are.

    If none is, return the longest one that is the beginning of `name` (whole words only), or None.
    """
    parts = _parts(name)
    ways = {one: _parts(one) for one in names}
    same = [one for one, of_one in ways.items() if "".join(of_one) == "".join(parts)]
    begins = [one for one, of_one in ways.items() if of_one and parts[: len(of_one)] == of_one]
    found = same or sorted(begins, key=lambda one: -len(ways[one]))[:1]
    return found[0] if len(found) == 1 else None


def _parts(name: str) -> list[str]:
    return [part for part in _SEPARATORS.split(name.lower()) if part]


def require_known(word: str, origin: str, names: Iterable[str], what: str) -> str:
    """Return `word` if it is one of `names`. Raises ConfigError, which lists similar names and all names.

    origin: where the user wrote `word`. what: noun for the names. Both are for the error message.
    """
    known = [str(name) for name in names]
    if word not in known:
        near = did_you_mean(word, known)
        raise ConfigError(f"{origin}: there is no {what} '{word}'.{near} Valid: {listed(known, 'and')}.")
    return word


def listed(names: Iterable[str], word: str = "or") -> str:
    """Join names, at least one, by commas and, before the last, `word`: "a, b or c"."""
    *first, last = list(names)
    return f"{', '.join(first)} {word} {last}" if first else last


def describe_type(kind: inspect.Type, *, plural: bool = False) -> str:
    """Describe the values of a type: "a whole number of at least 1", in plural "whole numbers of at least 1"."""
    match kind:
        case inspect.UnionType(types=types):
            return " or ".join(
                describe_type(one, plural=plural) for one in types if not isinstance(one, inspect.NoneType)
            )
        case inspect.IntType(ge=least):
            return ("whole numbers" if plural else "a whole number") + _bound(" of at least", least)
        case inspect.FloatType(gt=more, lt=less):
            return ("numbers" if plural else "a number") + _bound(" above", more) + _bound(" and below", less)
        case inspect.BoolType():
            return "true or false"
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return f"{'lists' if plural else 'a list'} of {describe_type(item, plural=True)}"
        case inspect.StructType() | inspect.DictType():
            return "sections" if plural else "a section with keys and values"
        case inspect.EnumType(cls=cls):
            return listed(str(member.value) for member in cls)
    return "words" if plural else "text"


def _largest(kind: inspect.Type) -> str:
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    bounds = [one.le for one in options if isinstance(one, inspect.IntType) and one.le is not None]
    return f". The maximum is {max(bounds)}" if bounds else ""


def _as_yaml(value: object, expected: inspect.Type) -> str:
    """Return ". In YAML, write 1.0e+3" for a text such as "1e3", if a number is expected; empty for anything else."""
    options = expected.types if isinstance(expected, inspect.UnionType) else (expected,)
    found = _EXPONENT.fullmatch(value) if isinstance(value, str) else None
    if found is None or len(found[0]) > _SHOWN or not any(isinstance(one, inspect.FloatType) for one in options):
        return ""
    sign, whole, part, power_sign, power = found.groups()
    return f". In YAML, write {sign}{whole}{part or '.0'}e{power_sign or '+'}{power}"


def _bound(how: str, limit: float | None) -> str:
    return "" if limit is None else f"{how} {limit:g}"


def _unknown_key(key: str, expected: inspect.Type) -> str:
    keys = [field.encode_name for field in _struct(expected).fields]
    return f"there is no such key.{did_you_mean(key, keys)} Valid keys: {listed(keys, 'and')}."


def _follow(text: str, value: object, kind: inspect.Type) -> tuple[tuple[str | int, ...], object, inspect.Type]:
    """Return (keys and indices of a path, value at its end, type expected there). text: path in a msgspec error.

    In such a path, ".name" is a field, "[n]" an item, "[...]" any value of a mapping.
    """
    path: list[str | int] = []
    for name, index in _PART.findall(text):
        if name:
            kind = next(field.type for field in _struct(kind).fields if field.encode_name == name)
            value = value.get(name) if isinstance(value, dict) else None
            path.append(name)
        elif index == "...":
            # msgspec does not name the entry of the mapping: it may be any.
            assert isinstance(kind, inspect.DictType)
            kind, value = kind.value_type, "something else in it"
        else:
            kind = _items(kind)
            value = value[int(index)] if isinstance(value, list) else None
            path.append(int(index))
    return tuple(path), value, kind


def _struct(kind: inspect.Type) -> inspect.StructType:
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return next(option for option in options if isinstance(option, inspect.StructType))


def _items(kind: inspect.Type) -> inspect.Type:
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return next(o.item_type for o in options if isinstance(o, inspect.VarTupleType | inspect.ListType))


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
