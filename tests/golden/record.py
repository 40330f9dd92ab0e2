"""`python -m tests.golden.record [RUN ...]`: make the stored runs, or these of them, anew. Takes about ten minutes.

Runs on CPU devices are real; those of GPUs are fakes, whose values are the same whenever they are made.
Afterwards `python -m tests.golden` makes the outputs of the new runs.
"""

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.compare import references
from orchestrator.compare.references import Against
from orchestrator.compare.run_figures import of_report
from orchestrator.compare.thresholds import Threshold
from orchestrator.config.run_configuration import Configuration
from orchestrator.figures.table import LimitName
from orchestrator.gpu.health.records import LOOK_NS, NOT_COUNTED, UNSUPPORTED, NodeVitals, Vitals, Watch, XidSeen
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.plan import load_windows
from orchestrator.store.journal_records import Beside, ClockSet, Foreign, Skipped, StopRequest, Suspension
from protocol import codec
from protocol.cell import AUTO, Cell, Mode, Workload
from protocol.failure import Category, Phase
from protocol.messages import Deadlines
from protocol.result import SteadyState
from protocol.verification import Seen, Verification
from tests.fakes import faults, gangs
from tests.fakes.burn_ins import NODE, FakeBurnIn, sound
from tests.fakes.commands import python
from tests.fakes.findings import mismatch
from tests.fakes.health import LINKS, UNLINKED, WELL
from tests.fakes.node import ROOT, Node
from tests.fakes.operator_runs import SHAPES, OperatorRun, failing, right, wrong
from tests.fakes.runs import BOOT, SECOND_NS, FakeRun, cpus, gpus, shipped
from tests.golden.neutral import neutralise
from tests.golden.rendering import INPUTS

SHORT: Final = Deadlines(start=30, import_=30, build=30, warm_up=1.5, measure=30, finish=20)
OWN_MODEL: Final = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.layer(x).relu()

    def get_example_inputs(self, batch_size):
        return torch.randn(batch_size, 64)

class Bad(Net):
    def forward(self, x):
        return self.no_such_layer(x)
"""
OWN_OPERATORS: Final = """
import time

def wrong(x):
    return x.softmax(0)

def slow(x):
    time.sleep(0.005)
    return x.softmax(-1)
"""


def run(folder: Path, words: str, *, command: str = "run", expected: int = 0) -> Path:
    options = f"{command} --runs-folder {folder}/runs -o {folder}/report.json --no-history --quiet {words}"
    done = python("-m", "orchestrator", *options.split(), cwd=folder)
    assert done.returncode == expected, done.stdout + done.stderr
    return made_in(folder)


def made_in(folder: Path) -> Path:
    (made,) = (folder / "runs").iterdir()
    return made


def prepared(folder: Path, *, expected: int) -> Path:
    """Do the run that a fake has prepared in `folder`/runs/run."""
    node = Node(folder / "runs" / "run")
    assert node.wait(200) == expected, node.output
    return node.paths.folder


def plain(folder: Path) -> Path:
    return run(folder, "--gpu-ids cpu:0,cpu:1 -m lstm,h2d -b 1,2 -p fp32 -i 4 -w 1 --launches 2")


def triage(folder: Path) -> Path:
    """Each device alone and all together."""
    words = "--gpu-ids cpu:0,cpu:1 -m lstm,h2d -b 1 -p fp32 -i 2 -w 1 --launches 2"
    return run(folder, words, command="triage")


def own_model(folder: Path) -> Path:
    (folder / "net.py").write_text(OWN_MODEL)
    return run(folder, "--gpu-ids cpu:0 -m net.py:Net,net.py:Bad -b 2 -p fp32 -i 3 -w 1 --allow-code", expected=4)


def failures(folder: Path) -> Path:
    wrong = {"raises": "raise", "lacks-a-module": "import error", "crashes": "segfault", "is-killed": "kill"}
    wrong |= {"leaves": "leave without an outcome", "is-nan": "not finite", "hangs": "hang"}
    models = [faults.model(name, do=what) for name, what in wrong.items()]
    faults.prepare(folder / "runs" / "run", *models, faults.model("works"), devices=2, deadlines=SHORT)
    return prepared(folder, expected=4)


def batch_scan(folder: Path) -> Path:
    models = faults.model("up-to-20", do="raise", above=20), faults.model("never", do="raise")
    faults.prepare(folder / "runs" / "run", *models, batch_sizes=(AUTO,), launches=2)
    return prepared(folder, expected=4)


def gang(folder: Path) -> Path:
    gangs.prepare(folder / "runs" / "run", 3)
    return prepared(folder, expected=0)


def resumed(folder: Path) -> Path:
    """Killed in the middle of a launch, then stopped by Ctrl-C, then brought to its end."""
    place = folder / "runs" / "run"
    faults.prepare(place, *(faults.model(f"m{number}", seconds=0.5) for number in range(4)), devices=2, launches=2)
    for number, how in ((3, signal.SIGKILL), (8, signal.SIGINT)):
        _stopped(Node(place), number, how)
    return prepared(folder, expected=0)


def interrupted(folder: Path) -> Path:
    place = folder / "runs" / "run"
    faults.prepare(place, *(faults.model(f"m{number}", seconds=0.5) for number in range(4)), devices=2)
    _stopped(Node(place), 3, signal.SIGKILL)
    return place


def _stopped(node: Node, number: int, how: signal.Signals) -> None:
    node.until(lambda: sum(type(record).__name__ == "Spawned" for record in node.records()) >= number)
    time.sleep(0.2)
    node.kill(how)
    node.wait()


def burn_in_passed(folder: Path) -> Path:
    return run(folder, "--burn-in 90s --gpu-ids cpu:0,cpu:1")


def burn_in_flip(folder: Path) -> Path:
    """A burn-in in which bits of one device are flipped on purpose."""
    return run(folder, "--burn-in 90s --gpu-ids cpu:0,cpu:1 --inject flip:1:1:2", expected=3)


def burn_in_interrupted(folder: Path) -> Path:
    words = f"run --burn-in 90s --gpu-ids cpu:0,cpu:1 --runs-folder {folder}/runs -o {folder}/report.json --quiet"
    running = subprocess.Popen([sys.executable, "-m", "orchestrator", *words.split(), "--no-history"], cwd=ROOT)
    time.sleep(50)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 4
    return made_in(folder)


LITTLE: Final = {"blocks": 8, "iterations": 4}
"""How much of a launch is stored: enough for intervals."""


def degraded(folder: Path) -> Path:
    """Cells that need a smaller batch, that do not fit at all, and that fail on the way."""
    fake = FakeRun(folder / "runs" / "run", models=shipped("resnet50", "bert-base"), batch_sizes=(1, 8))
    for batch_size in (8, 4):
        fake.failed(fake.cell(batch_size=8), Category.OUT_OF_MEMORY, batch_size=batch_size, message="CUDA OOM")
    fake.measured(fake.cell(batch_size=8), batch_size=2, **LITTLE)
    fake.measured(fake.cell(batch_size=1), **LITTLE)
    for batch_size in (8, 4, 2, 1):
        cell = fake.cell("bert-base", batch_size=8)
        fake.failed(cell, Category.OUT_OF_MEMORY, batch_size=batch_size, phase=Phase.BUILD, message="CUDA OOM")
    fake.failed(fake.cell("bert-base", batch_size=1), Category.OUT_OF_MEMORY, message="CUDA OOM")
    fake.finish()
    return fake.paths.folder


def gpu_scan(folder: Path) -> Path:
    """`-b auto` on a GPU: throughput by batch size until memory ends, in inference and in training."""
    phases = (Workload.INFERENCE, Workload.TRAINING)
    fake = FakeRun(folder / "runs" / "run", batch_sizes=(AUTO,), workloads=phases)
    for cell in fake.stored.plan.cells:
        for batch_size, forward_ms in ((1, 4.0), (2, 5.0), (4, 16.0)):
            fake.measured(cell, batch_size=batch_size, forward_ms=forward_ms, **LITTLE)
        fake.failed(cell, Category.OUT_OF_MEMORY, batch_size=5, message="CUDA out of memory")
    fake.finish()
    return fake.paths.folder


def _launches(fake: FakeRun, forward_ms: Callable[[Cell, int, int], float]) -> None:
    """Every planned launch. forward_ms: of a cell, by the place of its device and the round."""
    cells = {cell.id: cell for cell in fake.stored.plan.cells}
    for place, queue in enumerate(fake.stored.plan.order.values()):
        for cell_id, number in queue:
            cell = cells[cell_id]
            work = {"bytes_per_iteration": {"copy": 84 * 10**9, "triad": 126 * 10**9}} if cell.model == "hbm" else {}
            fake.measured(
                cell, number=number, forward_ms=forward_ms(cell, place, number), noise=0.001, **LITTLE, **work
            )


LIMITED: Final = (
    *("speed_of_siblings_percent", "speed_of_solo_percent", "latency_ms", "forward_time_ms", "peak_memory_gb"),
    *("gpu_utilization_percent", "power_draw_w", "temperature_max_c", "energy_per_sample_j"),
)
"""Figures with a limit."""


def siblings(folder: Path) -> Path:
    """Four GPUs, alone and together: one is slower than the others, hot and slowed down; one has a failed row."""
    models = {"models": shipped("resnet50"), "probes": shipped("hbm"), "modes": (Mode.LOADED, Mode.SOLO)}
    fake = FakeRun(folder / "runs" / "run", devices=gpus(4), batch_sizes=(8,), launches=3, **models)
    chance = random.Random(1)
    slow = {2: 1.08}
    loaded = {Mode.LOADED: 1.04, Mode.SOLO: 1.0}
    _launches(fake, lambda cell, place, _: 10 * slow.get(place, 1) * loaded[cell.mode] * (1 + chance.gauss(0, 0.002)))
    fake.added((fake.stored.plan.order[fake.stored.devices[2].uuid][0][0], 3), suspect=2)
    begun_ns = 1_000_000_000_000
    for number in range(4):
        hot = {"temperature_c": 88, "reasons": 0x40, "sm_clock_mhz": 1_200} if number == 2 else {}
        fake.samples(number, **hot)
    file = FrameFile(fake.paths.health)
    file.append(codec.encode(Watch(at_ns=begun_ns, boot_id=fake.boot_id, kernel_log=True)))
    for at_ns in range(begun_ns, fake.now_ns + LOOK_NS, LOOK_NS):
        for number, device in enumerate(fake.stored.devices):
            late = number == 1 and at_ns > begun_ns + 3 * LOOK_NS
            values = WELL | ({"rows_failed": 1, "ecc_uncorrected": 2} if late else {})
            file.append(codec.encode(Vitals(at_ns=at_ns, uuid=device.uuid, values=values)))
        file.append(codec.encode(NodeVitals(at_ns=at_ns, values={"aer_fatal": 0})))
    file.append(codec.encode(XidSeen(at_ns=fake.now_ns, uuid=fake.stored.devices[1].uuid, xid=64)))
    file.close()
    fake.quarantined("Xid 64: the row could not be remapped", 1)
    fake.finish()
    limits = [Threshold(name=one, figure=LimitName(one), phase=Workload.INFERENCE, at_least=95.0) for one in LIMITED]
    references.store(Against(thresholds=tuple(limits)), fake.paths)
    return fake.paths.folder


class _Triage(FakeRun):
    def asked(self, configuration: Configuration) -> Configuration:
        return msgspec.structs.replace(configuration, preset="triage")


def triage_gpus(folder: Path) -> Path:
    """Eight GPUs, of which the fifth is slow because its clock is."""
    models = {"models": shipped("bert-base"), "workloads": (Workload.TRAINING,), "batch_sizes": (256,)}
    probes, launches = shipped("hbm"), 3
    fake = _Triage(folder / "runs" / "run", devices=gpus(8), probes=probes, launches=launches, **models)
    chance = random.Random(2)
    _launches(fake, lambda cell, place, _: 10 * (1.08 if place == 5 else 1) * (1 + chance.gauss(0, 0.002)))
    for number in range(8):
        fake.samples(number, reasons=0, sm_clock_mhz=1_380 if number == 5 else 1_500)
    fake.finish()
    return fake.paths.folder


def _side(folder: Path, *, slow: float, seed: int, driver: str, gpt2: float) -> FakeRun:
    fake = FakeRun(
        folder / "runs" / "run",
        devices=gpus(1, driver_version=driver),
        models=shipped("resnet50", "lstm", "gpt2"),
        workloads=(Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION),
        batch_sizes=(1,),
        launches=3,
        run_id=f"20240115-1030{seed:02}-000000",
    )
    chance = random.Random(seed)
    of_model = {"gpt2": gpt2}
    _launches(fake, lambda cell, *_: 10 * slow * of_model.get(cell.model, 1) * (1 + chance.gauss(0, 0.003)))
    fake.samples()
    return fake


def before(folder: Path) -> Path:
    """The first of two runs that are compared."""
    fake = _side(folder, slow=1.0, seed=1, driver="570.86", gpt2=1.0)
    fake.finish()
    return fake.paths.folder


def after(folder: Path) -> Path:
    """The second: slower by 5 %, but faster in one model; compared with a baseline and thresholds, and with a price."""
    fake = _side(folder, slow=1.05, seed=2, driver="580.95", gpt2=0.9)
    fake.finish()
    first = _side(folder / "first", slow=1.0, seed=1, driver="570.86", gpt2=1.0)
    first.finish()
    limits = (
        Threshold(name="fast enough", figure="throughput_per_sec", phase=Workload.INFERENCE, at_least=97.0),
        Threshold(name="impossible", figure="iteration_time_ms", phase=Workload.TRAINING, below=1.0),
        Threshold(name="nothing measured", figure="peak_memory_gb", phase=Workload.LOAD, below=1.0),
    )
    baseline = of_report(first.report(), "before.json")
    references.store(Against(baseline=baseline, thresholds=limits, price_per_hour=2.5), fake.paths)
    return fake.paths.folder


def damaged(folder: Path) -> Path:
    """A result is missing, another one is not the promised one, and launches were dropped for want of time."""
    fake = FakeRun(folder / "runs" / "run", models=shipped("resnet50", "lstm"), batch_sizes=(1, 8), launches=2)
    first, second, third, fourth = fake.stored.plan.cells
    for number in range(2):
        for cell in (first, second, third):
            fake.measured(cell, number=number, **LITTLE)
        fake.dropped(fourth, "no time was left", number=number)
    fake.telemetry_ended()
    fake.finish(interrupted=True, reason="no time was left")
    fake.paths.launch(first.id, 1).result.unlink()
    fake.paths.launch(second.id, 2).result.write_bytes(fake.paths.launch(third.id, 2).result.read_bytes())
    return fake.paths.folder


def eventful(folder: Path) -> Path:
    """Everything that happens around launches: drivers, boots, a pause, a set clock, strangers, retries, a lost GPU."""
    models = shipped("resnet50", "lstm", "gpt2")
    fake = FakeRun(folder / "runs" / "run", devices=gpus(2), models=models, batch_sizes=(8,), launches=2)
    journal = fake._journal  # records that no method of the fake writes
    first, second = (device.uuid for device in fake.stored.devices)
    launch = fake.measured(fake.cell(batch_size=8), **LITTLE)
    journal.append(Foreign(device=first, at_ns=fake.now_ns, by="PID 4712 (python, 2.0 GiB)"))
    journal.append(Beside(launch=launch, at_ns=fake.now_ns, by="PID 4712 (python, 2.0 GiB)"))
    fake.failed(fake.cell("lstm", batch_size=8), Category.KILLED, message="killed by SIGKILL", signal=9)
    fake.measured(fake.cell("lstm", batch_size=8), **LITTLE)
    fake.failed(fake.cell("lstm", batch_size=8, device=1), Category.DEADLINE, message="took longer than 20 s")
    journal.append(Foreign(device=first, at_ns=fake.now_ns, by=""))
    journal.append(Suspension(at_ns=fake.now_ns, seconds=2.5))
    journal.append(ClockSet(at_ns=fake.now_ns, wall=1_705_314_700.0, by_s=3600.0))
    fake.interrupted(fake.cell(batch_size=8, device=1))
    journal.append(StopRequest(at_ns=fake.now_ns))
    settings = (("CUDA_LAUNCH_BLOCKING", "1"),)
    fake.segment(boot_id=BOOT.replace("1", "2"), now_ns=10**11, driver_version="570.86", settings=settings)
    fake.measured(fake.cell(batch_size=8), number=1, forward_ms=11.0, steady_state=SteadyState.NONE, **LITTLE)
    for device in range(2):
        fake.failed(fake.cell("gpt2", batch_size=8, device=device), Category.IMPORT_ERROR, phase=Phase.IMPORT)
    journal.append(Skipped(model="gpt2", at_ns=fake.now_ns, reason="import error"))
    fake.measured(fake.cell(batch_size=8, device=1), **LITTLE)
    fake.failed(fake.cell(batch_size=8, device=1), Category.DEVICE_LOST, number=1, message="Xid 79", device=second)
    fake.quarantined("Xid 79: GPU has fallen off the bus", 1)
    fake.dropped(fake.cell("lstm", batch_size=8), "no time was left", number=1)
    fake.finish()
    return fake.paths.folder


def burn_in_gpus(folder: Path) -> Path:
    """A burn-in of four GPUs: wrong bits in one, one that gets slower and hotter, one that is ended for its heat."""
    burn_in_run = FakeBurnIn(folder / "runs" / "run", gpus(4), "10m")
    work = next(cell.workload for cell in burn_in_run.stored.plan.cells if cell.workload is Workload.SOAK)
    bad = next(cell for cell in burn_in_run.stored.plan.cells if cell.workload is work)
    wrong: Verification = msgspec.structs.replace(sound(bad), mismatches=1, kept=(mismatch(),))
    burn_in_run.work(rate=lambda gpu, hours: 0.85 - hours if gpu == 1 else 1.0, verified={(2, work, 0): wrong})
    end = burn_in_run.hours
    courses = {1: lambda hours: 60 + 90 * hours, 3: lambda hours: 92 if hours > end - 10 / 3600 else 60}
    for number in range(4):
        burn_in_run.climate(number, temperature=courses.get(number, lambda _: 60))
    burn_in_run.well()
    burn_in_run.too_hot(3, "92 °C for 10 s, and its limit is 90 °C")
    burn_in_run.finish()
    return burn_in_run.paths.folder


def burn_in_lost_time(folder: Path) -> Path:
    """A burn-in with slow starts, a suspended worker, failures, a pause, and wrong bits without a result."""
    burn_in_run = FakeBurnIn(folder / "runs" / "run", cpus(2), "10m", start_s=7)
    burn_in_run.work(last=12)
    cells = {cell.id: cell for cell in burn_in_run.stored.plan.cells}
    alone = [(cells[name], number) for name, number in burn_in_run.stored.plan.order["cpu:0"] if "peers" not in name]
    cell, number = alone[14]
    hung = {"forward_ms": 100.0, "blocks": 3, "iterations": 10, "suspended_s": 45.0}
    burn_in_run.measured(cell, number=number, verification=sound(cell), **hung)
    for cell, number in alone[15:18]:
        burn_in_run.failed(cell, Category.CRASHED, number=number, lasted_s=20.0, signal=11)
    burn_in_run.segment(boot_id=BOOT.replace("1", "2"), now_ns=10**11)
    burn_in_run.work(first=24, last=28)
    cell, number = alone[30]
    burn_in_run.interrupted(cell, number=number)
    burn_in_run.finish(interrupted=True, reason="stopped on request")
    launch = burn_in_run.archive().attempts[-1].start
    seen = Seen(at=0, mismatch=mismatch())
    place = burn_in_run.paths.launch(launch.cell, launch.attempt).mismatches
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"\n" + msgspec.json.encode(seen) + b"\n")
    return burn_in_run.paths.folder


def one_gpu(folder: Path) -> Path:
    """A benchmark on the only GPU of a virtual machine, which has neither links nor error counters. Power is read."""
    models = shipped("resnet50", "bert-base")
    fake = FakeRun(
        folder / "runs" / "run", devices=gpus(1), models=models, batch_sizes=(1, 8), launches=3, watched=False
    )
    for number in range(3):
        for cell in fake.stored.plan.cells:
            load_s = load_windows.window_s(cell, fake.stored.configuration, fake.stored.devices[0], number)
            fake.measured(cell, number=number, blocks=2, load_s=load_s)
    fake.samples()
    file = FrameFile(fake.paths.health)
    file.append(codec.encode(Watch(at_ns=1_000 * SECOND_NS, boot_id=BOOT, kernel_log=True)))
    unsupported = dict.fromkeys(LINKS, UNSUPPORTED)
    for at_ns in (*range(1_000 * SECOND_NS, fake.now_ns, LOOK_NS), fake.now_ns):
        (gpu,) = fake.stored.devices
        file.append(codec.encode(Vitals(at_ns=at_ns, uuid=gpu.uuid, values=UNLINKED, refusals=unsupported)))
        file.append(codec.encode(NodeVitals(at_ns=at_ns, values={}, refusals=dict.fromkeys(NODE, NOT_COUNTED))))
    file.close()
    fake.finish()
    return fake.paths.folder


def burn_in_one_gpu(folder: Path) -> Path:
    """A burn-in of such a GPU."""
    burn_in_run = FakeBurnIn(folder / "runs" / "run", gpus(1), "10m")
    burn_in_run.work()
    burn_in_run.climate(0)
    burn_in_run.well(UNLINKED, dict.fromkeys(LINKS, UNSUPPORTED), node={})
    burn_in_run.finish()
    return burn_in_run.paths.folder


def operators(folder: Path) -> Path:
    """Operators on a CPU device, with two implementations of the user's: one is wrong, one slow."""
    (folder / "kernels.py").write_text(OWN_OPERATORS)
    words = "--gpu-ids cpu:0 --op softmax,relu --fast --allow-code"
    own = " ".join(f"--against kernels.py:{name}=softmax" for name in ("wrong", "slow"))
    return run(folder, f"{words} {own}", command="ops", expected=1)


def _operators(folder: Path, seed: int, factor: float) -> OperatorRun:
    """Softmax on a GPU, right in three launches, and a product to come. factor: of the times where compiled."""
    names, chance = ("softmax", "matmul_square"), random.Random(seed)
    run_id = f"20240115-1040{seed:02}-000000"
    fake = OperatorRun(folder / "runs" / "run", *names, launches=3, run_id=run_id)
    fake.probed()
    for number in range(3):
        for cell in fake.operators[:2]:
            compiled = factor if cell.compiles else 1.0
            times = (compiled * ms * (1 + chance.gauss(0, 0.002)) for ms in (0.05, 0.3, 2.0))
            fake.did(cell, *(right(name, ms, 30) for name, ms in zip(SHAPES, times, strict=True)), number=number)
    return fake


def operators_before(folder: Path) -> Path:
    """The first of two runs of operators."""
    fake = _operators(folder, 1, 1.2)
    for number in range(3):
        for cell in fake.operators[2:]:
            fake.did(cell, *(right(name, 0.5) for name in SHAPES), number=number)
    fake.samples()
    fake.finish()
    return fake.paths.folder


def operators_after(folder: Path) -> Path:
    """The second, interrupted: softmax is slower, the compiled product is wrong and fails, the other one is missing."""
    fake = _operators(folder, 2, 1.6)
    fake.did(fake.operators[3], right("small", 0.5), wrong("medium"), failing("large"))
    fake.samples()
    fake.finish(interrupted=True, reason="stopped on request")
    return fake.paths.folder


RECORDED: Final[tuple[Callable[[Path], Path], ...]] = (
    *(plain, failures, degraded, resumed, interrupted, batch_scan, gpu_scan, own_model, gang, triage, siblings),
    *(before, after, damaged, burn_in_passed, burn_in_flip, burn_in_interrupted, burn_in_gpus, eventful),
    *(burn_in_lost_time, one_gpu, burn_in_one_gpu, triage_gpus, operators, operators_before, operators_after),
)
"""The number of each decides the id of its run: append."""


def main(names: list[str]) -> None:
    known = {record.__name__.replace("_", "-"): record for record in RECORDED}
    if unknown := set(names) - set(known):
        sys.exit(f"no such run: {', '.join(sorted(unknown))}. Runs: {', '.join(known)}")
    for number, (name, record) in enumerate(known.items()):
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory(prefix="golden-") as folder:
            source = record(Path(folder))
            shutil.rmtree(INPUTS / name, ignore_errors=True)
            neutralise(source, INPUTS / name, number)


if __name__ == "__main__":
    main(sys.argv[1:])
