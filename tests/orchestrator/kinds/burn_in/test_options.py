"""What --steps, --max-temperature and --inject hot make of a burn-in, and how long its cells last."""

import msgspec
import pytest

from orchestrator.config.run_configuration import Configuration
from orchestrator.engine.launches import lifecycle
from orchestrator.engine.launches.live import Live
from orchestrator.errors import ConfigError
from orchestrator.kinds.burn_in import levels, planning, settings
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.state.slots import NextLaunch
from orchestrator.stats.windows import WINDOW_NS
from protocol.cell import Device, DeviceKind, Workload
from protocol.failure import Phase
from protocol.messages import Assign, LaunchSpec, LoadSteps
from tests.fakes.configurations import configuration, options, shipped_catalogue
from tests.fakes.runs import cpus, gpus

TABLE = levels.load()
SPEC = LaunchSpec(
    launch=1,
    token="token",
    endpoint="",
    parent_pid=1,
    folder="",
    environment={},
    cpus=(),
    isolation="fork",
    requested_ns=0,
    root="",
)


def burn_in(duration: str = "10m") -> Configuration:
    """The configuration of a burn-in."""
    base = configuration(probes=shipped_catalogue().probes)
    return settings.configured(base, duration, None, shipped_catalogue(), TABLE)


def offsets(*, in_phase: bool, devices: int = 4) -> list[float]:
    """When each device begins."""
    found = settings.with_steps(burn_in(), gpus(devices), TABLE, in_phase=in_phase).burn_in
    assert list(found.steps) == [device.uuid for device in gpus(devices)]
    return [one.offset_s for one in found.steps.values()]


def test_steps_of_load_are_spread_over_their_period() -> None:
    """So that the node's load is as even as it can be; in phase they come together."""
    period_s = TABLE.steps.on_s + TABLE.steps.off_s
    assert offsets(in_phase=False) == [place * period_s / 4 for place in range(4)]
    assert offsets(in_phase=True) == [0.0] * 4
    assert offsets(in_phase=False, devices=1) == [0.0]


def assigned(asked: Configuration, following: NextLaunch, device: Device) -> Assign:
    """What a launch of a burn-in is told."""
    terms = BURN_IN.launch_terms(asked, device, following.slot, following.cell)
    launch = lifecycle.requested(terms.deadlines, terms.measurement, 0.0)
    live = Live(next=following, device=device, spec=SPEC, launch=launch, begun=0.0, oom_kills=None)
    return live.assignment(asked, terms)


def test_steps_are_a_cell_of_every_round() -> None:
    """Of the heaviest precision, only where requested; each device is told its times and its round."""
    devices = gpus(2)
    without = planning.make(burn_in(), devices, TABLE)
    assert not [cell for cell in without.cells if cell.workload is Workload.STEPS]
    stepped = settings.with_steps(burn_in(), devices, TABLE, in_phase=False)
    made = planning.make(stepped, devices, TABLE)
    cells = {cell.devices[0]: cell for cell in made.cells if cell.workload is Workload.STEPS}
    assert {cell.precision for cell in cells.values()} == {TABLE.levels["quick"].soak[0]}
    for device in devices:
        rounds = {number for _, number in made.order[device.uuid]}
        assert {(cells[device.uuid].id, number) for number in rounds} <= set(made.order[device.uuid])
        cell = cells[device.uuid]
        for number in (0, 3):
            following = NextLaunch(slot=(cell.id, number), cell=cell, launch=1, attempt=1, scans=False)
            given = assigned(stepped, following, device)
            assert given.steps == LoadSteps(on_s=1, off_s=1, offset_s=float(devices.index(device)))
            assert given.round == number  # the memory test continues by it
            assert assigned(burn_in(), following, device).steps is None


def test_they_need_a_burn_in() -> None:
    """Elsewhere nothing would heed them."""
    for key, value in {"steps": True, "max_temperature": 80, "level": "quick", "inject": "flip:0:1"}.items():
        with pytest.raises(ConfigError, match=r"^an option: .*burn-in"):
            settings.of_settings(options(burn_in={key: value}), configuration(), shipped_catalogue(), TABLE)


@pytest.mark.parametrize(
    ("fault", "devices", "message"),
    [
        ("hot:1:95", cpus(2), "cpu:1 .*temperature"),
        ("slow:cpu:0:50", cpus(2), "rates of cpu:0"),
        ("slow:0:10", gpus(1), "3 sibling GPUs, .* 0"),
        ("slow:0:10", gpus(3), "3 sibling GPUs, .* 2"),
        ("slow:0:10", (*gpus(3), *cpus(1)), "3 sibling GPUs, .* 2"),
    ],
)
def test_a_fault_that_nothing_would_find_is_refused(fault: str, devices: tuple[Device, ...], message: str) -> None:
    """Temperature and rates of a CPU device, a slow GPU with fewer than three siblings; flips are found anywhere."""
    with pytest.raises(ConfigError, match=message):
        settings.with_injections(burn_in(), ["flip:0:1", fault], devices)
    assert settings.with_injections(burn_in(), ["flip:0:1"], devices).tainted


@pytest.mark.parametrize("faults", [("slow:0:10", "slow:0:50"), ("hot:0:60", "hot:0:99"), ("flip:0:1", "flip:0:1:2")])
def test_a_device_has_one_fault_of_a_kind(faults: tuple[str, str]) -> None:
    """One alone of two would happen; of two devices each has its own."""
    with pytest.raises(ConfigError, match=f"--inject {faults[0].partition(':')[0]}: .* 2 "):
        settings.with_injections(burn_in(), faults, gpus(4))
    other = faults[1].replace(":0:", ":1:", 1)
    assert settings.with_injections(burn_in(), [faults[0], other], gpus(4)).tainted


@pytest.mark.parametrize("level", TABLE.levels)
def test_what_all_gpus_compute_wrong_alike_is_found_at_every_level(level: str) -> None:
    """Truth has every precision in which products are made: those of soak are only ever compared."""
    assert set(TABLE.levels[level].soak) <= set(TABLE.levels[level].truth)


@pytest.mark.parametrize("level", TABLE.levels)
def test_every_cell_on_a_gpu_holds_a_whole_window(level: str) -> None:
    """In as short a burn-in as the level is meant for, wherever on the grid it begins; and a whole round fits."""
    shortest_s = {"quick": 600.0, "standard": 601.0, "full": 3601.0}[level]
    cell_s = TABLE.cell_s(shortest_s, DeviceKind.CUDA, level)
    assert cell_s * 1e9 >= 2 * WINDOW_NS
    round_s = cell_s * TABLE.levels[level].cells(DeviceKind.CUDA, steps=False)
    assert TABLE.starting_s + TABLE.least_rounds * round_s <= shortest_s + 1e-6


@pytest.mark.parametrize("seconds", [30, 60, 120])
@pytest.mark.parametrize("steps", [False, True])
def test_a_short_burn_in_has_short_cells(seconds: int, steps: bool) -> None:
    """All checks are to come to their end in it, steps of load too, and half of the time is left for starting."""
    made = burn_in(f"{seconds}s")
    if steps:
        made = settings.with_steps(made, gpus(2), TABLE, in_phase=False)
    per_round = len({cell for cell, _ in planning.make(made, gpus(2), TABLE).order[gpus(2)[0].uuid]})
    assert per_round == TABLE.levels["quick"].cells(DeviceKind.CUDA, steps=steps)
    assert made.burn_in.cell_s[DeviceKind.CUDA] * per_round * 2 == pytest.approx(seconds)


@pytest.mark.parametrize("level", TABLE.levels)
@pytest.mark.parametrize("kind", DeviceKind)
def test_a_longer_burn_in_never_has_shorter_cells(level: str, kind: DeviceKind) -> None:
    """Whichever of the bounds holds."""
    lengths_s = [TABLE.cell_s(duration_s, kind, level) for duration_s in range(30, 28_800, 10)]
    assert lengths_s == sorted(lengths_s)


@pytest.mark.parametrize(("level", "duration_s"), [("quick", 600), ("standard", 3600), ("full", 28_800)])
def test_a_level_keeps_a_gpu_at_work(level: str, duration_s: float) -> None:
    """For 97 % of its time, as an H200 is idle for 1.9 s of a cell (docs/measurements-reference.md)."""
    cell_s = TABLE.cell_s(duration_s, DeviceKind.CUDA, level)
    assert cell_s / (cell_s + 1.9) >= 0.97
    launches = TABLE.levels[level].cells(DeviceKind.CUDA, steps=False) + 1
    assert 20 + launches * (cell_s + 3) <= duration_s, "a whole round, and one cell that is tried again"


def test_what_was_asked_for_survives_the_disk() -> None:
    """run.yaml holds all of it."""
    made = settings.with_steps(settings.with_temperature_stop(burn_in(), 80), gpus(2), TABLE, in_phase=False)
    made = settings.with_injections(made, ["hot:0:99"], gpus(2))
    assert made.burn_in.max_temperature_c == 80
    assert msgspec.convert(msgspec.to_builtins(made), Configuration) == made


@pytest.mark.parametrize(("duration", "kind", "most_s"), [("8h", DeviceKind.CUDA, 420), ("90s", DeviceKind.CPU, 63)])
def test_deadlines_are_made_for_cells_of_a_known_length(duration: str, kind: DeviceKind, most_s: float) -> None:
    """Measuring may take a minute, and three times as long as planned; shorter ones of a person's own stay."""
    burn_in_run, (device,) = burn_in(duration), gpus(1) if kind is DeviceKind.CUDA else cpus(1)
    cell = planning.make(burn_in_run, (device,), TABLE).cells[0]
    following = NextLaunch(slot=(cell.id, 0), cell=cell, launch=1, attempt=1)
    given = assigned(burn_in_run, following, device)
    allowed = given.deadlines
    assert allowed.allowance(Phase.MEASURE, given.measurement) == most_s
    assert (allowed.build, allowed.warm_up) == (allowed.measure, allowed.measure)
    assert (allowed.start, allowed.import_, allowed.finish) == (
        burn_in_run.deadlines.start,
        burn_in_run.deadlines.import_,
        burn_in_run.deadlines.finish,
    )
    brief = msgspec.structs.replace(burn_in_run.deadlines, build=1, warm_up=2, measure=3)
    assert assigned(msgspec.structs.replace(burn_in_run, deadlines=brief), following, device).deadlines == brief
