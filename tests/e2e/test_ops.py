"""A run of operators in whole: a wrong one and a slow one of the user's are found and named."""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.report_formats import ReportFormat
from orchestrator.store.journal_records import End
from tests.fakes import operator_runs
from tests.fakes.commands import python
from tests.fakes.node import Node

KERNELS = """
import os
import pathlib
import signal
import time

import torch

def wrong(x):
    return x.softmax(0)

def wrong_without_gradients(x):
    return x.softmax(-1 if torch.is_grad_enabled() else 0)

def wrong_after_a_while(x, calls=[]):
    calls.append(x.shape)
    return x.softmax(-1 if calls.count(x.shape) < 5 else 0)

def returns_an_earlier_output(x, made={}):
    if torch.is_grad_enabled():
        return x.softmax(-1)
    return made.setdefault(x.shape, x.softmax(-1))

def slow(x):
    time.sleep(0.02)  # slow by the clock: a loop would be as fast as eager in a moment with less load
    return x.softmax(-1)

def fails_at_first(x, calls=[]):
    calls.append(x.shape)
    if len(calls) == 1:
        raise RuntimeError("not yet")
    return torch.relu(x)

def dies_with_many_columns(x):
    if x.shape[-1] > 200:
        os.kill(os.getpid(), signal.SIGSEGV)
    return x.softmax(-1)

def dies_once_with_many_columns(x, died=pathlib.Path(__file__).with_name("died")):
    if x.shape[-1] > 200 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGSEGV)
    return x.softmax(-1)

def fails_from_its_second_shape_on(x, seen=set()):
    seen.add(x.shape)
    if len(seen) > 1:
        raise RuntimeError("the context is lost")
    return torch.relu(x)
"""
WRONG = ("wrong", "wrong_without_gradients", "wrong_after_a_while", "returns_an_earlier_output")
ON_ONE_CORE = """
import os, runpy
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
"""
"""On several cores the threads of one call wait for each other: 25 ms for a softmax on a loaded machine."""
OPTIONS = "--fast --gpu-ids cpu:0 --no-history -f json -o out.json"


def ops(folder: Path, words: str, expected: int) -> dict[str, Any]:
    (folder / "kernels.py").write_text(KERNELS)
    done = python("-c", ON_ONE_CORE, *f"ops {words} {OPTIONS}".split(), cwd=folder)
    assert done.returncode == expected, done.stdout + done.stderr
    report: dict[str, Any] = json.loads((folder / "out.json").read_bytes())
    return report


def test_a_wrong_operator_has_no_speed_and_a_slow_one_is_named(tmp_path: Path) -> None:
    """WRONG and exit code 1, also if only later calls are. A shape that failed once stands after another launch."""
    words = "--allow-code --op softmax,relu --implementations eager " + " ".join(
        f"--against kernels.py:{one}"
        for one in (*(f"{name}=softmax" for name in (*WRONG, "slow")), "fails_at_first=relu")
    )
    report = ops(tmp_path, words, 1)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in report["operators"]["rows"]:
        rows.setdefault(f"{row['operator']} {row['implementation']}", []).append(row)
    for name in WRONG:
        assert {one["status"] for one in rows[f"softmax kernels.py:{name}"]} == {"WRONG"}
        assert [one["times"] for one in rows[f"softmax kernels.py:{name}"]] == [{}] * 3
    assert {one["grade"] for one in rows["softmax kernels.py:slow"]} == {"critical"}
    assert {one["status"] for one in rows["relu kernels.py:fails_at_first"]} == {"ok"}
    assert [(one["status"], one["gradient_verified"]) for one in rows["relu eager"]] == [("ok", True)] * 3
    assert [cause["kind"] for cause in report["verdict"]["causes"]] == ["wrong result"] * len(WRONG)
    assert all(one["memory_percent"] for one in rows["softmax eager"])


def test_an_error_that_ends_the_process_spoils_one_shape_alone(tmp_path: Path) -> None:
    """The shapes after it come first in one more launch, and there is no third."""
    words = "--allow-code --op relu --implementations eager --against kernels.py:fails_from_its_second_shape_on=relu"
    report = ops(tmp_path, words, 4)
    mine = [row["status"] for row in report["operators"]["rows"] if row["implementation"] != "eager"]
    assert sorted(mine) == ["failed", "ok", "ok"]
    launches = {cell["cell"].partition("-")[0]: cell["launches"] for cell in report["cells"]}
    assert (launches["kernels.py"], launches["relu"]) == (2, 1)


def test_a_shape_that_ends_its_process_does_not_cost_the_others(tmp_path: Path) -> None:
    """The retry measures the others, and one more launch tries the shape again: exit code 4 if that dies, too."""
    words = "--allow-code --op softmax --implementations eager --against kernels.py:dies_with_many_columns=softmax"
    report = ops(tmp_path, words, 4)
    mine = {row["shape"]: row["status"] for row in report["operators"]["rows"] if row["implementation"] != "eager"}
    assert mine == {"small": "ok", "medium": "ok", "large": "failed"}


def test_a_shape_that_ends_its_process_is_tried_again(tmp_path: Path) -> None:
    """By one more launch, after the retry has measured the others."""
    words = "--allow-code --op softmax --implementations eager --against kernels.py:dies_once_with_many_columns=softmax"
    report = ops(tmp_path, words, 0)
    assert {row["status"] for row in report["operators"]["rows"]} == {"ok"}


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    """Its report has what was measured, in HTML too; the other shapes are measured later."""
    place = tmp_path / "runs" / "run"
    operator_runs.prepare(place, "relu", "exp", "layer_norm")
    node = Node(place)
    node.until(lambda: len(node.of(End)) >= 1, timeout_s=60)
    node.kill(signal.SIGINT)
    early = node.ended(4)
    assert node.paths.report(ReportFormat.HTML).stat().st_size
    statuses = Counter(row["status"] for row in early["operators"]["rows"])
    assert statuses.keys() == {"ok", "not measured"}
    assert statuses["ok"] >= 3
    late = Node(place).ended(0)
    assert Counter(row["status"] for row in late["operators"]["rows"]) == {"ok": 9}


def test_a_compiled_operator_is_compared_with_eager(tmp_path: Path) -> None:
    """By torch.compile, verified as the others."""
    report = ops(tmp_path, "--op matmul_square", 0)
    rows = {(row["implementation"], row["shape"]): row for row in report["operators"]["rows"]}
    compiled = [row for (implementation, _), row in rows.items() if implementation == "compiled"]
    assert [row["status"] for row in compiled] == ["ok"] * 3
    for row in compiled:  # beside other work, one of the two times may vary too much to judge anything
        times = (row["times"]["pure"], rows["eager", row["shape"]]["times"]["pure"])
        assert (row["grade"] is None) is any((one["interval_percent"] or 0) >= 50 for one in times)


@pytest.mark.parametrize("words", ["--op sofmax", "--against kernels.py:wrong", "--against kernels.py:wrong=softmax"])
def test_what_cannot_be_measured_is_refused(tmp_path: Path, words: str) -> None:
    """Unknown operators, implementations of nothing, and code without --allow-code: exit code 2."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    assert python("-m", "orchestrator", *f"ops {words} {OPTIONS}".split(), cwd=tmp_path).returncode == 2
