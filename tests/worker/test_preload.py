"""A launch after the preload imports next to nothing: what it measures is not how long torch takes to load itself."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fakes.assignments import ROOT

HANDFUL = 5

SCRIPT = """
import importlib, json, os, pathlib, sys
from worker import preload
from tests.fakes import assignments
from protocol.cell import Precision, Workload

models = (assignments.LSTM, assignments.BERT, assignments.RESNET, assignments.GPT2)
for module in (*preload.COMMON, *(module for model in models for module in model.preload)):
    importlib.import_module(module)
threads = len(os.listdir("/proc/self/task"))
late = {}
for model in models:
    written = (Workload.GENERATION,) if model.generation else ()
    for workload in (Workload.INFERENCE, Workload.TRAINING, Workload.LOAD, *written):
        before = set(sys.modules)
        cache = pathlib.Path(sys.argv[1])
        assignments.run_here(assignments.assignment(model, workload, cache, precision=Precision.BF16))
        late[f"{model.name} {workload}"] = sorted(set(sys.modules) - before)
import torch
print(json.dumps({"threads": threads, "late": late, "cuda": torch.cuda.is_initialized()}))
"""


def test_launch_after_the_preload_imports_a_handful_of_modules(tmp_path: Path) -> None:
    """For every model and workload; and the preload leaves one thread and no CUDA behind, so that it can be forked."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=200,
        cwd=ROOT,
        env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    report = json.loads(done.stdout)
    assert {case: names for case, names in report["late"].items() if len(names) > HANDFUL} == {}
    assert report["threads"] == 1
    assert not report["cuda"]


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
def test_triton_is_ready_before_a_launch_and_touches_no_gpu() -> None:
    """The key of its cache is known, Gluon is there, and the zygote can be forked: one thread, no CUDA."""
    done = subprocess.run(
        [sys.executable, "-c", AHEAD],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
        cwd=ROOT,
        env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert json.loads(done.stdout) == [1, 1, [], False]


def test_made_up_work_leaves_torch_alone() -> None:
    """Runs of it are made by the hundred in tests, and a selftest should not wait for torch either."""
    code = "import sys; import worker.workloads.fault; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "False\n"
