"""kinds/burn_in/settings.py, injections.py, levels.py and planning.py: from options to rounds of cells."""

from collections import Counter
from itertools import pairwise

import msgspec
import pytest

from orchestrator.config.run_configuration import Configuration, InjectedFault
from orchestrator.errors import ConfigError
from orchestrator.kinds.burn_in import injections, levels, planning, settings
from orchestrator.kinds.burn_in.kind import BURN_IN
from protocol.cell import DeviceKind, Mode, Workload
from tests.fakes.configurations import configuration, options, shipped_catalogue
from tests.fakes.nvml import ROOT
from tests.fakes.runs import cpus, gpus

TABLE = levels.load()


DEVICES = gpus(2)


@pytest.mark.parametrize(
    ("texts", "seconds"),
    [
        (("30s",), 30),
        (("90s", "1m30s"), 90),
        (("150s", "2m30s"), 150),
        (("10m",), 600),
        (("1h30m", "1.5h"), 5400),
        (("3661s", "1h1m1s"), 3661),
        (("8h",), 28_800),
    ],
)
def test_durations_are_read_and_written_as_people_write_them(texts: tuple[str, ...], seconds: float) -> None:
    """Written the shortest way, without what is zero."""
    assert {settings.seconds(text) for text in texts} == {seconds}
    assert settings.seconds(settings.written(seconds)) == seconds
    assert settings.written(seconds) in texts


@pytest.mark.parametrize("text", ["", "8", "h", "8 h", "8hours", "-1h", "10s", "15d", "1h30", "nanh", "1e9h"])
def test_what_is_no_duration(text: str) -> None:
    """Refused, with examples of what is."""
    with pytest.raises(ConfigError, match="--burn-in"):
        settings.seconds(text)


@pytest.mark.parametrize(
    ("seconds", "level"), [(60, "quick"), (600, "quick"), (601, "standard"), (3600, "standard"), (3601, "full")]
)
def test_the_duration_means_a_level(seconds: float, level: str) -> None:
    """Up to ten minutes, up to an hour, longer; an unknown level is refused with the nearest."""
    assert TABLE.level_for(seconds) == level
    with pytest.raises(ConfigError, match=f"Did you mean {level}"):
        settings.refuse_mistakes(options(burn_in={"level": f"{level}x"}), TABLE)


def test_the_docs_say_which_models_each_level_trains() -> None:
    """docs/burn-in-reference.md repeats configs/burn_in.yaml; after a change of it, paste what this test expected."""
    rows = ["| level | replay on a GPU | replay on a CPU device |", "|---|---|---|"]
    for name, level in levels.load().levels.items():
        kinds = (level.replay[kind] for kind in (DeviceKind.CUDA, DeviceKind.CPU))
        trained = (", ".join(f"{model} ({precision})" for model, precision in kind.items()) for kind in kinds)
        rows.append(f"| `{name}` | {' | '.join(trained)} |")
    assert "\n".join(rows) in (ROOT / "docs" / "burn-in-reference.md").read_text(encoding="utf-8")


def test_the_levels_that_ship_name_models_that_ship() -> None:
    """Every model of a level is in the catalogue, on every kind of device."""
    known = {model.name for model in shipped_catalogue().models}
    for level in TABLE.levels.values():
        assert set(level.replay) == set(DeviceKind)
        assert all(set(models) <= known for models in level.replay.values())


def configured(**changes: object) -> Configuration:
    """A burn-in of ten minutes."""
    base = msgspec.structs.replace(configuration(probes=shipped_catalogue().probes), **changes)
    return settings.configured(base, "10m", None, shipped_catalogue(), TABLE)


@pytest.mark.parametrize("modes", [(Mode.SOLO,), (Mode.LOADED, Mode.SOLO)])
def test_a_burn_in_loads_all_devices_at_once(modes: tuple[Mode, ...]) -> None:
    """One at a time, they would be idle for most of the burn-in."""
    with pytest.raises(ConfigError, match="--solo"):
        configured(modes=modes)


def test_rounds_hold_every_cell_once_and_fill_the_time() -> None:
    """The first launch is a soak; every round has each cell; together they last at least as long as requested."""
    made, burn_in = planning.make(configured(), DEVICES, TABLE), configured().burn_in
    for device in DEVICES:
        mine = [cell for cell in made.cells if device.uuid in cell.devices]
        assert {cell.workload for cell in mine} == set(levels.CHECKS)
        order = made.order[device.uuid]
        by_id = {cell.id: cell for cell in mine}
        assert by_id[order[0][0]].workload is Workload.SOAK
        rounds = max(number for _, number in order) + 1
        assert Counter(order) == Counter((cell.id, number) for cell in mine for number in range(rounds))
        assert len(order) * burn_in.cell_s[device.kind] >= burn_in.duration_s
    orders = {tuple(made.order[device.uuid][at][1] for at in range(len(order))) for device in DEVICES}
    assert len(orders) == 1


def test_no_cell_is_done_twice_in_a_row() -> None:
    """Where one round ends and the next begins, too, also of the first, in which the soak was moved to the front."""
    for seed in range(50):
        made = planning.make(configured(seed=seed), DEVICES, TABLE)
        for order in made.order.values():
            assert all(before != after for (before, _), (after, _) in pairwise(order))


def test_what_is_compared_works_on_the_same_numbers() -> None:
    """The seed of a cell does not depend on the device."""
    made = planning.make(configured(), DEVICES, TABLE)
    seeds: dict[tuple[str, ...], set[int]] = {}
    for cell in made.cells:
        seeds.setdefault((cell.workload, cell.model, cell.precision), set()).add(cell.seed)
    assert all(len(found) == 1 for found in seeds.values())


def test_injections_are_parsed_and_taint_the_run() -> None:
    """Rounds count from 1 on the command line; the second device is meant by its number or its UUID."""
    devices = gpus(4)
    second = devices[1]
    clean = configured()
    for name in (str(second.gpu_id), second.uuid):
        made = settings.with_injections(clean, [f"flip:{name}:3:2", f"slow:{name}:5", f"hot:{name}:95"], devices)
        assert made.tainted
        assert made.burn_in.injections == (
            InjectedFault(device=second.uuid, round=2, flip_bits=2),
            InjectedFault(device=second.uuid, slow_percent=5.0),
            InjectedFault(device=second.uuid, hot_c=95),
        )
        assert injections.hot(made.burn_in.injections) == {second.uuid: 95}
    assert not settings.on_devices(options(burn_in={"inject": []}), clean, devices, TABLE).tainted


@pytest.mark.parametrize(
    "texts",
    [
        ("", "flip", "hot:0"),  # something is missing
        ("flip:99:1",),  # no such device
        ("flip:0", "flip:0:0", "flip:0:x", "flip:0:inf", "flip:0:nan", "flip:0:1.9", "flip:0:1e12", "flip:0:-1"),
        ("flip:0:1:0", "flip:0:1:65", "flip:0:1:2.7"),
        ("slow:0:inf", "slow:0:1001", "slow:0:0", "slow:0:-5"),
        ("hot:0:90.5", "hot:0:inf", "hot:0:0", "hot:0:201", "hot:0:x", "hot:0:90:1"),
        ("melt:0:1",),
    ],
    ids=["incomplete", "device", "round", "bits", "percent", "degrees", "fault"],
)
def test_injections_that_make_no_sense(texts: tuple[str, ...]) -> None:
    """Refused, with the option."""
    for text in texts:
        with pytest.raises(ConfigError, match="--inject"):
            settings.with_injections(configured(), [text], DEVICES)


@pytest.mark.parametrize(
    ("text", "carried"),
    [("flip:0:2", ("1 bit", "round 2")), ("slow:0:12.5", ("12.5 %",)), ("hot:0:95", ("95 °C",))],
)
def test_a_fault_is_described_with_its_device_and_its_size(text: str, carried: tuple[str, ...]) -> None:
    """In words, for the report."""
    said = injections.describe(injections.parse(text, DEVICES), DEVICES[0])
    assert [part for part in (DEVICES[0].label, *carried) if part not in said] == []


def test_no_profile_says_how_long_a_cell_measures() -> None:
    """Nor anything else that run.yaml has of it: a cell lasts its time, in blocks of which a window holds many."""
    slow = msgspec.structs.replace(
        configuration().measurement, block_s=0.05, warm_up_cap_s=60, give_up=True, min_s=9, max_s=9
    )
    made = configured()
    assert configured(measurement=slow) == made
    for device in (*gpus(1), *cpus(1)):
        cell, cell_s = planning.make(made, (device,), TABLE).cells[0], made.burn_in.cell_s[device.kind]
        measurement = BURN_IN.launch_terms(made, device, (cell.id, 0), cell).measurement
        assert (measurement.block_s, measurement.min_s, measurement.max_s) == (0.25, cell_s, cell_s)
        assert measurement.relative_half_width == 0


@pytest.mark.parametrize(
    ("device", "number", "workload", "bits", "slow"),
    [
        ("a", 2, Workload.SOAK, 3, 5.0),
        ("a", 1, Workload.REPLAY, 0, 5.0),
        ("a", 2, Workload.LINKS, 3, 0.0),
        ("b", 2, Workload.SOAK, 0, 0.0),
    ],
)
def test_which_launch_gets_which_fault(device: str, number: int, workload: Workload, bits: int, slow: float) -> None:
    """Flips in every check of their round on their GPU, slowness in all that it does alone; nobody else gets any."""
    given = (
        InjectedFault(device="a", round=2, flip_bits=3),
        InjectedFault(device="a", slow_percent=5.0),
        InjectedFault(device="b", hot_c=90),
    )
    found = injections.for_launch(given, device, number, workload)
    assert (found.flip_bits, found.slow_percent) == (bits, slow) if found else (bits, slow) == (0, 0.0)
