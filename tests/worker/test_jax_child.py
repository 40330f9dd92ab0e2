"""JAX in a process of its own: every operator, what its launch says of its end, and that it never imports torch."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from protocol import floats
from protocol.cell import Precision, Workload
from protocol.messages import Assign, Deadlines
from tests.fakes.assignments import PROBE, ROOT, assignment
from tests.worker.test_operators import OPERATORS, inputs_of
from worker.errors import UnsupportedError, WorkerError
from worker.operators import jax_client, verification
from worker.operators.functions import REFERENCES

EVERY_OPERATOR = """
import jax, torch
from tests.worker.test_operators import inputs_of, verified
from worker.jax_child.functions import FUNCTIONS
from worker.operators.functions import FUNCTIONS as OF_TORCH

assert FUNCTIONS.keys() == OF_TORCH.keys()
for name, function in FUNCTIONS.items():
    output = jax.jit(function)(*(tensor.numpy() for tensor in inputs_of(name)))
    tensor = torch.from_dlpack(output).clone()
    found = verified(name, lambda *_: tensor)
    if found.wrong:
        print(name, found.wrong)
"""
ONLY_JAX = "import sys, worker.jax_child.__main__, worker.jax_child.functions; print('torch' in sys.modules)"
WAITS = """
import jax.numpy as jnp
from worker.jax_child.__main__ import _Calls

counts = {"calls": 0, "waits": 0}

class Output:
    def block_until_ready(self):
        counts["waits"] += 1

def compiled(x):
    counts["calls"] += 1
    return Output()

_Calls(compiled, [jnp.ones(4)], 64).pure_ms(0.001, ordered=False)
print(counts["waits"] / counts["calls"])
"""
LAUNCH = """
import sys
from pathlib import Path
from tests.worker.test_jax_child import assigned, inputs_of
from worker.operators import jax_client
jax_client.measure(assigned(Path(sys.argv[1])), "relu", inputs_of("relu"), 1)
"""


def printed(source: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", source]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def assigned(folder: Path, measure_s: float = 200) -> Assign:
    made = assignment(PROBE, Workload.OPERATOR, folder)
    deadlines = Deadlines(start=60, import_=60, build=60, warm_up=60, measure=measure_s, finish=60)
    return Assign(**{name: getattr(made, name) for name in made.__struct_fields__} | {"deadlines": deadlines})


def pretend(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "jax").mkdir()
    (folder / "jax/__init__.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.slow
def test_every_operator_is_right_in_jax() -> None:
    """All functions of the worker exist in JAX, and agree with the references."""
    assert printed(EVERY_OPERATOR) == ""


def test_the_process_of_jax_never_imports_torch() -> None:
    """Neither by itself nor through what it shares with the launch."""
    assert printed(ONLY_JAX) == "False"


def test_a_call_on_a_cpu_is_waited_for_once() -> None:
    """Waits for earlier calls, too, would be part of the time: with 128 copies of the inputs they were most of it."""
    assert 0 < float(printed(WAITS)) <= 1


def test_an_operator_is_measured_and_its_output_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of calls, and the output in a type that numpy does not know. A cache of the user's is not used."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    inputs = [tensor.to(torch.bfloat16) for tensor in inputs_of("conv2d")]
    answer, output = jax_client.measure(assigned(tmp_path), "conv2d", inputs, 2)
    series = {name: floats.unpack(data) for name, data in answer.series.items()}
    assert series.keys() == {"host", "real", "pure"}
    assert all(len(times) >= 5 and min(times) > 0 for times in series.values())
    assert answer.profile.compile_ms
    assert answer.profile.kernels
    assert not (tmp_path / "cache").exists()
    tolerance = OPERATORS["conv2d"].tolerance[Precision.BF16]
    found = verification.verify(lambda *_: output, REFERENCES["conv2d"], inputs, 1, tolerance, backward=False)
    assert (output.dtype, found.wrong) == (torch.bfloat16, "")


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("def devices():\n    raise RuntimeError('no GPU')", UnsupportedError, "no GPU"),
        ("import os\nos.kill(os.getpid(), 9)", WorkerError, "-9"),
        ("print('noise')\nraise ImportError('gone')", UnsupportedError, "gone"),
    ],
)
def test_the_end_of_the_process_is_explained(
    tmp_path: Path, code: str, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without JAX or its device: unsupported. Killed: an error. What it prints disturbs nothing."""
    pretend(tmp_path, code, monkeypatch)
    with pytest.raises(error, match=words):
        jax_client.measure(assigned(tmp_path), "relu", inputs_of("relu"), 1)


def test_the_process_ends_with_its_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the launch is killed."""
    place = tmp_path / "pid"
    os.mkfifo(place)
    hanging = f"import os, signal\nopen({str(place)!r}, 'w').write(str(os.getpid()))\nsignal.pause()"
    pretend(tmp_path, hanging, monkeypatch)
    with subprocess.Popen([sys.executable, "-c", LAUNCH, str(tmp_path)], cwd=ROOT) as launch:
        child = os.pidfd_open(int(place.read_text()))
        launch.kill()
    assert select.select([child], [], [], 60)[0] == [child]
    os.close(child)


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the deadline of the launch."""
    pretend(tmp_path, "import signal\nsignal.pause()", monkeypatch)
    short = assigned(tmp_path, measure_s=1)
    with pytest.raises(WorkerError, match="answer within"):
        jax_client.measure(short, "relu", inputs_of("relu"), 1)
