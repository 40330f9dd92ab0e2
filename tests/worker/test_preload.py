"""A launch after the preload imports next to nothing, so that it does not measure how long torch takes to load."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fakes.assignments import ONE_THREAD, run_script

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
    report = json.loads(run_script(SCRIPT, str(tmp_path), **ONE_THREAD))
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
    assert json.loads(run_script(AHEAD, **ONE_THREAD)) == [1, 1, [], False]


def test_simulated_work_does_not_import_torch() -> None:
    """Tests make hundreds of runs of it, and a selftest should not wait for torch either."""
    assert run_script("import sys; import worker.workloads.fault; print('torch' in sys.modules)") == "False\n"
