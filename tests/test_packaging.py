"""What is installed: the wheel's contents, the constraints, and which of them a driver gets."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONSTRAINTS = ("constraints-cu13.txt", "constraints-cu12.txt")
SOURCES = ("protocol", "worker", "orchestrator", "configs", "pyproject.toml", "README.md", "LICENSE")


def normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {normal(name): version for name, version in pairs}


def required() -> set[str]:
    """Names of everything that pyproject.toml asks for, extras included."""
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    return {normal(re.split(r"[<>=!~ \[;]", line)[0]) for line in wanted}


@pytest.mark.parametrize("file", CONSTRAINTS)
def test_constraints_are_exact_versions_without_addresses(file: str) -> None:
    """Each line is name==version, and whatever the project asks for is there."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    wrong = [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)]
    assert wrong == []
    assert required() - set(pins(file)) == set()


def test_constraints_differ_in_the_framework_alone() -> None:
    """Both drivers get the same gpubench; only torch and what comes with it differ."""
    newer, older = map(pins, CONSTRAINTS)
    differing = {name for name in newer.keys() | older.keys() if newer.get(name) != older.get(name)}
    assert {name for name in differing if not re.match(r"torch|triton|nvidia-|cuda-", name)} == set()


def test_every_package_is_listed() -> None:
    """A package that is missing in pyproject.toml would be missing in the wheel, and nowhere else."""
    rooms = ("protocol", "worker", "orchestrator")
    found = {
        ".".join(path.parent.relative_to(ROOT).parts) for room in rooms for path in (ROOT / room).rglob("*.py")
    } | {"orchestrator.configs"}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what the project needs for it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    command = ["pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), "."]
    done = subprocess.run([sys.executable, "-m", *command], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return made


def test_wheel_holds_code_configurations_and_licence(wheel: Path) -> None:
    """The wheel has every module, every file of configs/, and the licence."""
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(path.relative_to(ROOT))
        for room in ("protocol", "worker", "orchestrator")
        for path in (ROOT / room).rglob("*")
        if path.suffix == ".py" or path.name == "py.typed"
    }
    page = ROOT / "orchestrator" / "report" / "html"
    expected |= {str(path.relative_to(ROOT)) for path in page.glob("[!_]*/*") if path.is_file()}
    expected |= {
        str("orchestrator" / path.relative_to(ROOT)) for path in (ROOT / "configs").rglob("*") if path.is_file()
    }
    assert expected - names == set()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests", "docs", "configs/")) for name in names)


def test_wheel_measures_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    """Installed anywhere, with no checkout in sight, it measures and writes its report."""
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    install = [
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run([sys.executable, "-m", *install], check=True)
    options = "--gpu-ids cpu:0 -m lstm -b 1 --phases inference -i 3 -w 1 --launches 1 --no-history"
    done = subprocess.run(
        [sys.executable, site / "bin" / "gpubench-orchestrate", *options.split()],
        **{"cwd": empty, "env": os.environ | {"PYTHONPATH": str(site)}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((empty / "benchmark_report.json").read_text())
    assert [cell["status"] for cell in report["cells"]] == ["ok"]
    (log,) = empty.glob("runs/*/run.yaml")
    assert str(ROOT) not in log.read_text()


NEW, OLD = CONSTRAINTS


@pytest.mark.parametrize(
    ("nvidia_smi", "code", "words"),
    [
        ("echo '| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |'", 0, OLD),
        ("echo '| NVIDIA-SMI 595.44   KMD Version: 595.44   CUDA UMD Version: 13.2     |'", 0, NEW),
        ("echo 'NVIDIA-SMI has failed' >&2; exit 9", 0, NEW),
        ("echo '| Driver Version: 470.57.02    CUDA Version: 11.4     |'", 2, "driver from 535 on"),
    ],
    ids=[
        "CUDA 12",
        "CUDA 13, in another spelling",
        "a broken driver, which the run then names",
        "CUDA 11, for no torch",
    ],
)
def test_the_driver_decides_which_constraints_are_taken(tmp_path: Path, nvidia_smi: str, code: int, words: str) -> None:
    """Each driver gets a torch that runs on it, however nvidia-smi spells its header, or hears which driver could."""
    for name in ("sh", "sed", "head", "dirname", "timeout"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{nvidia_smi}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    command = [str(ROOT / "scripts" / "install.sh"), "--constraints"]
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert words in (done.stderr if code else done.stdout), done.stderr


def installed(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of scripts/install.sh, which can spoil no .venv of ours. Without constraints files, pip refuses."""
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "install.sh", tmp_path / "scripts")
    unset = {"PYTHON": "", "WHEELS": ""}
    return subprocess.run(
        [script], env={**os.environ, **unset, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"PYTHON": "/nope"}, "found: no /nope"),
        ({"PYTHON": "false"}, "found: no false"),
        ({"PYTHON": sys.executable, "WHEELS": "nofolder"}, "no folder nofolder"),
        ({"PYTHON": sys.executable, "WHEELS": "empty"}, "wheels in empty"),
    ],
)
def test_what_cannot_be_installed_with_is_refused(tmp_path: Path, environment: dict[str, str], message: str) -> None:
    """An explicitly named Python is never replaced by another one, and without wheels pip is not tried."""
    (tmp_path / "empty").mkdir()
    done = installed(tmp_path, **environment)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_an_installation_says_which_python_it_takes(tmp_path: Path) -> None:
    """With its version, before pip begins."""
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "one.whl").touch()
    python = tmp_path / "python"
    leave_out = '[ "$2" != venv ] || set -- "$@" --without-pip'  # it takes seconds to install
    python.write_text(f'#!/bin/sh\n{leave_out}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    done = installed(tmp_path, PYTHON=str(python), WHEELS="wheels")
    version = ".".join(map(str, sys.version_info[:3]))
    assert f"Installing into .venv (Python {version}, from {python})" in done.stdout


def verdicts(same: int, slower: int) -> str:
    """What `compare --format json` would print."""
    cells = [{"verdict": word} for word in ["SAME"] * same + ["SLOWER"] * slower + ["INCONCLUSIVE"]]
    return json.dumps({"comparisons": [{"cells": cells}]})


@pytest.mark.parametrize(
    ("name", "compared", "code"),
    [
        ("new", verdicts(same=4, slower=0), 0),
        ("new", verdicts(same=3, slower=0), 1),
        ("new", verdicts(same=40, slower=1), 1),
        ("old", "", 2),
        ("", "", 2),
    ],
)
def test_a_baseline_is_kept_if_a_second_run_finds_the_same(tmp_path: Path, name: str, compared: str, code: int) -> None:
    """`make baseline` measures with options of the user's, and replaces no baseline."""
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "baseline.sh", tmp_path / "scripts")
    (folder := tmp_path / "configs" / "baselines").mkdir(parents=True)
    (folder / "old.json").touch()
    (python := tmp_path / ".venv" / "bin" / "python").parent.mkdir(parents=True)
    log, answer = tmp_path / "log", tmp_path / "answer"
    answer.write_text(compared)
    python.write_text(
        f'#!/bin/sh\n[ "$1" != - ] || exec {sys.executable} "$@"\necho "$*" >>{log}\n'
        f'case "$3" in make-baseline) touch "$6" ;; compare) cat {answer} ;; esac\n'
    )
    python.chmod(0o755)
    done = subprocess.run([script, name, "-m", "lstm"], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert {file.stem for file in folder.iterdir()} == ({"old", "new"} if code == 0 else {"old"})
    commands = [line.split()[2] for line in log.read_text().splitlines()] if log.exists() else []
    assert commands == ([] if code == 2 else ["run", "make-baseline", "run", "compare", "compare"])
    assert not commands or "--profile rigorous --solo -m lstm -o " in log.read_text()
