"""The configuration and plan of a run as files in its folder: run.yaml for people, plan.json for cells and order.

StoredRun ── store ──▶ plan.json, then run.yaml ── load ──▶ StoredRun
the journal begins with the hashes of both files ── require_one_run compares them
"""

import hashlib
from pathlib import Path
from typing import Final

import msgspec
import yaml

from orchestrator import TOOL_VERSION
from orchestrator.config import yaml_file
from orchestrator.config.run_configuration import Plan, StoredRun
from orchestrator.errors import ConfigError, RunFolderError
from orchestrator.store import damage, journal
from orchestrator.store.journal_records import Header
from orchestrator.system import safe_read
from protocol.paths import RunPaths

MAX_RUN_BYTES: Final = 16 * 1024 * 1024
"""Largest run.yaml to read, in bytes. 17 models and eight GPUs take 30 KB."""
_HASH_DIGITS: Final = 16
MAX_PLAN_BYTES: Final = 128 * 1024 * 1024
"""Largest plan.json to read, in bytes, which takes 3 GB of memory. 20,000 cells with three launches take 10 MB."""


def store(stored: StoredRun, paths: RunPaths) -> None:
    """Write plan.json, then run.yaml, which marks a folder as that of a run. Raises StorageError."""
    contents = msgspec.to_builtins(stored, builtin_types=())
    del contents["plan"]
    text = yaml.dump(contents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    journal.write_durably(paths.plan, msgspec.json.encode(stored.plan))
    journal.write_durably(paths.config, text.encode())


def load(paths: RunPaths) -> StoredRun:
    """Read run.yaml and plan.json. Raises RunFolderError if one is missing, damaged or not readable by this version."""
    try:
        contents: object = yaml_file.parse(_config(paths), str(paths.config)).value
    except ConfigError as error:
        raise RunFolderError(f"damaged: {error}. {damage.advice(paths.config)}") from error
    if isinstance(contents, dict):
        contents = {**contents, "plan": _plan(paths.plan, contents)}
    try:
        return msgspec.convert(contents, StoredRun)
    except msgspec.ValidationError as error:
        raise _refused(paths.config, contents, error) from error


def config_hash(paths: RunPaths) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of run.yaml. Raises RunFolderError if it is unreadable."""
    return hashlib.sha256(_config(paths)).hexdigest()[:_HASH_DIGITS]


def _config(paths: RunPaths) -> bytes:
    try:
        with paths.config.open("rb") as file:
            data = file.read(MAX_RUN_BYTES + 1)
    except OSError as error:
        raise RunFolderError(f"{paths.config}: not the folder of a run: {error.strerror}") from error
    if len(data) > MAX_RUN_BYTES:
        raise RunFolderError(
            f"{paths.config}: larger than {MAX_RUN_BYTES >> 20} MiB, so gpubench did not write it. "
            f"{damage.advice(paths.config)}"
        )
    return data


def _plan(path: Path, contents: object) -> Plan:
    try:
        return msgspec.json.decode(safe_read.read(path, cap_bytes=MAX_PLAN_BYTES), type=Plan)
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {error.strerror}. {damage.advice(path)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(path, contents, error) from error


def _refused(path: Path, contents: object, error: Exception) -> RunFolderError:
    version = contents.get("tool_version") if isinstance(contents, dict) else None
    if isinstance(error, msgspec.ValidationError) and isinstance(version, str) and version != TOOL_VERSION:
        return RunFolderError(f"{path}: {_of_another_version(version)}: {error}")
    return RunFolderError(f"{path}: damaged: {error}. {damage.advice(path)}")


def _of_another_version(version: str) -> str:
    return (
        f"gpubench {version} wrote this run, and this version, {TOOL_VERSION}, cannot read it. Use gpubench {version} "
        "to report or resume the run"
    )


class _Dumper(yaml.SafeDumper):
    """Writes YAML: tuples as lists, and repeated values without aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_representer(tuple, _Dumper.represent_list)


def require_one_run(stored: StoredRun, header: Header, paths: RunPaths) -> None:
    """Check that the journal's `header` has the run's id and the hashes of its files. Raises RunFolderError if not."""
    if (header.run_id, header.plan_hash, header.config_hash) == (stored.run_id, stored.plan.hash, config_hash(paths)):
        return
    if header.run_id == stored.run_id and header.tool_version != TOOL_VERSION:
        raise RunFolderError(f"{paths.folder}: {_of_another_version(header.tool_version)}.")
    raise RunFolderError(
        f"{paths.folder}: run.yaml, plan.json and journal.gpj do not belong together (one was changed, files of two "
        f"runs were mixed, or another build of gpubench {header.tool_version} wrote them). Restore the run.yaml "
        "and the plan.json that were written with this journal, or use the gpubench that wrote this journal."
    )
