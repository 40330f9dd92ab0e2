"""A launch after the preload imports next to nothing, so that it does not measure how long torch takes to load."""

import json
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from protocol.cell import Precision, Workload
from protocol.messages import Assign
from tests.fakes.assignments import BERT, GPT2, LSTM, assignment, run_script
from tests.worker.fresh import Fresh
from tests.worker.test_probe import SHIPPED
from tests.worker.test_workloads import SMALL_RESNET

LAUNCHES = {
    "models": [
        (LSTM, Workload.LOAD, Precision.BF16),
        (BERT, Workload.INFERENCE, Precision.BF16),
        (BERT, Workload.TRAINING, Precision.BF16),
        (SMALL_RESNET, Workload.TRAINING, Precision.FP32),
        (GPT2, Workload.GENERATION, Precision.BF16),
    ],
    "probes": [(SHIPPED[name], Workload.PROBE, Precision.BF16) for name in ("gemm", "hbm")],
}
HANDFUL = {"models": 5, "probes": 0}

SCRIPT = """
import importlib, json, os, sys
import msgspec, torch
from protocol.messages import Assign
from tests.fakes import assignments

assigns = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[Assign])
for assign in assigns:
    for module in (f"worker.workloads.{assign.cell.workload}", *assign.model.preload):
        importlib.import_module(module)
threads = [len(os.listdir(f"/proc/{pid}/task")) for pid in (os.getppid(), os.getpid())]
cuda, late = torch.cuda.is_initialized(), {}
for assign in assigns:
    before = set(sys.modules)
    assignments.run_here(assign)
    late[f"{assign.model.name} {assign.cell.workload}"] = sorted(set(sys.modules) - before)
print(json.dumps({"threads": threads, "late": late, "cuda": cuda or torch.cuda.is_initialized()}))
"""


@pytest.mark.parametrize("kind", LAUNCHES)
def test_launch_after_the_preload_imports_a_handful_of_modules(fresh: Fresh, tmp_path: Path, kind: str) -> None:
    """The preload leaves one thread and no CUDA behind, so that it can be forked; probes import nothing."""
    assigns: list[Assign] = [
        assignment(model, workload, tmp_path, precision=precision) for model, workload, precision in LAUNCHES[kind]
    ]
    report = json.loads(fresh.script(SCRIPT, stdin=msgspec.msgpack.encode(assigns)))
    assert {case: names for case, names in report["late"].items() if len(names) > HANDFUL[kind]} == {}
    assert len(report["late"]) == len(assigns)
    assert (report["threads"], report["cuda"]) == ([1, 1], False)


AHEAD = """
import json, os, sys
from worker.verify import triton_ahead
import torch, triton
from triton.runtime.cache import triton_key
threads = len(os.listdir("/proc/self/task"))
before, known = set(sys.modules), triton_key.cache_info().currsize
import triton.experimental.gluon
print(json.dumps([threads, known, sorted(set(sys.modules) - before), torch.cuda.is_initialized()]))
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_triton_is_ready_before_a_launch_and_touches_no_gpu(fresh: Fresh) -> None:
    """The key of its cache is known, Gluon is there, and the zygote can be forked: one thread, no CUDA."""
    assert json.loads(fresh.script(AHEAD)) == [1, 1, [], False]


def test_simulated_work_does_not_import_torch() -> None:
    """Tests make hundreds of runs of it, and a selftest should not wait for torch either."""
    assert run_script("import sys; import worker.workloads.fault; print('torch' in sys.modules)") == "False\n"
