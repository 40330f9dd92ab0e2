"""One storm: a run of short cells, some on several of the GPUs of our own NVML, and faults at moments a seed chooses.

    prepare ─▶ life ─▶ (struck, killed, stopped …) ─▶ resume ─▶ … ─▶ quiet lives until nothing is missing
                 └─ each fault is written into the Ledger, with the process and the launch that it hit

The seed fixes what is done, and after how long; where the run stands then is up to the machine.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.e2e.chaos import hands, traces
from tests.e2e.chaos.hands import Victim
from tests.e2e.chaos.kinds import KINDS, PLANTED, ZYGOTES, Deed, Kind, Target
from tests.e2e.chaos.ledger import Hit, Ledger, Life
from tests.fakes import nvml
from tests.fakes.cuda import beside
from tests.fakes.node import ROOT
from tests.fakes.nvml import FakeNvml

GPUS = 4
HITS = 30
"""Faults from outside, at most: a run that is over cannot be struck."""
PLAIN_MODELS = 32
PLANTED_MODELS = 8
PLAIN_GANGS = 7
PLANTED_GANGS = 4
CELL_S = (0.05, 0.4)
GANG_S = (0.3, 0.9)
GANG_PHASES = ("warm-up", "measure")
PACE_S = (0.02, 0.5)
"""Shortest and longest time between two faults."""
QUIET_LIVES = 6
LIFE_S = 180.0
"""No process of the orchestrator lasts longer than this, or the promise that a run always ends is broken."""

_PREPARE = """
import json, os, sys
import msgspec
from pathlib import Path
from orchestrator.store import run_files
from orchestrator.gpu import devices
from protocol.messages import Deadlines
from protocol.paths import RunPaths
from tests.fakes import faults, gangs
told = json.load(sys.stdin)
paths = RunPaths(Path(told["folder"]))
stored = faults.prepare(
    paths.folder,
    *(faults.model(name, **config) for name, config in told["models"].items()),
    machines=devices.resolve("all", visible=None, cores=tuple(sorted(os.sched_getaffinity(0)))),
    deadlines=Deadlines(start=20, import_=3, build=12, warm_up=2, measure=3, finish=3),
)
stored = gangs.added(stored, told["gangs"])
run_files.store(stored, paths)
print(json.dumps({cell.id: msgspec.to_builtins(cell) for cell in stored.plan.cells}))
"""
"""`start` is longer than a zygote may take to fork (10 s), or a stopped zygote would be taken for a slow launch. So is
`build`, in which the processes of a cell on several devices wait for those that are still to be forked."""


class Storm:
    """Carries out one seed in a folder of its own. `run` returns what was done."""

    def __init__(self, seed: int, place: Path, hits: int = HITS) -> None:
        """place: an empty folder with a short path, because sockets lie in it."""
        self._dice = random.Random(seed)
        self._place = place
        self._wanted = hits
        self._ledger = Ledger(seed=seed, folder=place / "run")
        self._nvml = FakeNvml(place, gpus=GPUS)
        self._paused: list[tuple[Victim, float]] = []
        self._descriptors: list[tuple[int, int]] = []
        self._kinds = self._dice.sample(tuple(KINDS.values()), len(KINDS))
        self._misdeeds = self._dice.sample(tuple(PLANTED), len(PLANTED))
        self._next = self._kinds[0]
        for name in ("tmp", "runtime", "planted", "told"):
            (place / name).mkdir(mode=0o700)
        self._environment = {
            **os.environ,
            **self._nvml.environment,
            **beside(self._nvml),
            "TMPDIR": str(place / "tmp"),
            "XDG_RUNTIME_DIR": str(place / "runtime"),
            traces.MARK: str(place),
        }

    def run(self) -> Ledger:
        """Strike until enough was done or nothing is left to strike, then let the run end in peace."""
        before = traces.shared_memory()
        self._prepare()
        quiet = 0
        while quiet < QUIET_LIVES:
            quiet += len(self._ledger.hits) >= self._wanted
            life = self._live()
            self._ledger.lives.append(life)
            unprovoked = not any(hit.life == life.pid for hit in self._ledger.hits)
            if (life.code in (0, 4) and self._complete()) or (life.code not in (0, 4) and unprovoked):
                break
        self._ledger.sprung = {one.name: self._told(one.name) for one in (self._place / "planted").iterdir()}
        self._ledger.findings += traces.left(self._place, self._ledger.folder, before)
        (self._place / "ledger.json").write_text(json.dumps(asdict(self._ledger), indent=1, default=str))
        return self._ledger

    @property
    def _journal(self) -> Path:
        return self._ledger.folder / "journal.gpj"

    def _prepare(self) -> None:
        """Plan the run: models that do nothing, and some that do themselves one wrong thing, once."""
        models: dict[str, dict[str, object]] = {}
        for number in range(PLAIN_MODELS):
            models[f"plain{number}"] = {"seconds": round(self._dice.uniform(*CELL_S), 3)}
        for name in (f"planted{number}" for number in range(PLANTED_MODELS)):
            models[name] = self._planted(name)
        done = subprocess.run(
            [sys.executable, "-P", "-c", _PREPARE],
            input=json.dumps({"folder": str(self._ledger.folder), "models": models, "gangs": self._gangs()}),
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self._ledger.cells = json.loads(done.stdout)

    def _gangs(self) -> dict[str, dict[str, object]]:
        """Cells on two devices or more, each once, of which some do themselves one wrong thing on one of them."""
        gangs: dict[str, dict[str, object]] = {}
        for number in range(PLAIN_GANGS + PLANTED_GANGS):
            devices = self._dice.sample(range(GPUS), self._dice.randint(2, GPUS))
            config: dict[str, object] = {"seconds": round(self._dice.uniform(*GANG_S), 3)}
            name = f"plaingang{number}"
            if number >= PLAIN_GANGS:
                name = f"plantedgang{number}"
                on = nvml.uuid(self._dice.choice(devices))
                config |= self._planted(name) | {"on": on, "in": self._dice.choice(GANG_PHASES)}
                self._ledger.planted_on[name] = on
            gangs[name] = {"devices": devices, "config": config}
        names = self._dice.sample(tuple(gangs), len(gangs))
        return {name: gangs[name] for name in names}

    def _planted(self, name: str) -> dict[str, object]:
        """How a model does itself one wrong thing, once, and says so before."""
        do = self._ledger.planted[name] = self._misdeeds[len(self._ledger.planted) % len(self._misdeeds)]
        once, told = self._place / "planted" / name, self._place / "told" / name
        return {"do": do, "once": str(once), "told": str(told), "seconds": 0.1}

    def _told(self, model: str) -> int | None:
        """When a cell did it to itself, in monotonic nanoseconds; None where it was struck before it could say so."""
        path = self._place / "told" / model
        words = path.read_text().split() if path.exists() else []
        return int(words[1]) if len(words) == 2 else None

    def _live(self) -> Life:
        """Start or resume the run, and strike it until its process has ended."""
        self._descriptors.clear()
        log = self._place / f"life-{len(self._ledger.lives)}.log"
        began = time.monotonic_ns()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "orchestrator", "resume", str(self._ledger.folder), "--log-format", "json"],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
            )
        try:
            self._strike_until_it_ends(process)
        finally:
            self._let_go_on(everybody=True)
            if process.poll() is None:
                self._ledger.findings.append(f"the orchestrator (PID {process.pid}) did not end within {LIFE_S:g} s")
                process.kill()
            code = process.wait()
        return Life(process.pid, began, time.monotonic_ns(), code, log, tuple(self._descriptors))

    def _strike_until_it_ends(self, process: subprocess.Popen[bytes]) -> None:
        give_up = time.monotonic() + LIFE_S
        due = time.monotonic() + self._dice.uniform(*PACE_S)
        self._next = self._choose(process.pid)
        while process.poll() is None and time.monotonic() < give_up:
            self._let_go_on()
            self._descriptors.append((time.monotonic_ns(), traces.descriptors(process.pid)))
            if time.monotonic() >= due and len(self._ledger.hits) < self._wanted and self._strike(process.pid):
                due = time.monotonic() + self._dice.uniform(*PACE_S)
                self._next = self._choose(process.pid)
            try:
                process.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                continue

    def _strike(self, orchestrator: int) -> bool:
        """One fault of the kind that is next. False when there is no process for it yet."""
        kind = self._next
        if not self._journal.exists():
            return False
        victim = hands.find(kind, orchestrator, self._journal, self._ledger.cells, self._dice)
        if victim is None:
            return False
        hit = Hit(kind.name, time.monotonic_ns(), time.time(), orchestrator, victim.launch, victim.device)
        if not hands.strike(victim, kind, self._journal, self._dice):
            victim.let_go()
            return False
        self._ledger.hits.append(hit)
        self._afterwards(kind, victim)
        return True

    def _choose(self, orchestrator: int) -> Kind:
        """The kind of the next fault: each once in the seed's order, then by weight; none that may not come now."""
        no_more = set()
        if self._struck(orchestrator, Target.ZYGOTE) >= ZYGOTES - 1:  # one more ends the run, as it should
            no_more.add(Target.ZYGOTE)
        if self._struck(orchestrator, Target.TELEMETRY):  # it may be gone, and is not started again
            no_more.add(Target.TELEMETRY)
        struck = {hit.kind for hit in self._ledger.hits}
        kinds = [kind for kind in self._kinds if kind.target not in no_more]
        waiting = [kind for kind in kinds if kind.name not in struck]
        return waiting[0] if waiting else self._dice.choices(kinds, [kind.weight for kind in kinds])[0]

    def _afterwards(self, kind: Kind, victim: Victim) -> None:
        """Remember who is to go on; the orchestrator does so while nothing else is done."""
        pause_s = self._dice.uniform(*kind.pause_s)
        if kind.deed is not Deed.PAUSE:
            victim.let_go()
        elif kind.target is Target.ORCHESTRATOR:
            time.sleep(pause_s)
            victim.signal(signal.SIGCONT)
            victim.let_go()
        else:
            self._paused.append((victim, time.monotonic() + pause_s))

    def _let_go_on(self, *, everybody: bool = False) -> None:
        now = time.monotonic()
        for victim, until in [one for one in self._paused if everybody or now >= one[1]]:
            victim.signal(signal.SIGCONT)
            victim.let_go()
            self._paused.remove((victim, until))

    def _struck(self, orchestrator: int, target: Target) -> int:
        return sum(hit.life == orchestrator and KINDS[hit.kind].target is target for hit in self._ledger.hits)

    def _complete(self) -> bool:
        path = self._ledger.folder / "report.json"
        if not path.exists():
            return False  # it was stopped before it had begun
        report = json.loads(path.read_text())
        return not report["metadata"]["interrupted"] and report["summary"]["cells"]["missing"] == 0


def place(seed: int) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-", dir="/tmp"))
