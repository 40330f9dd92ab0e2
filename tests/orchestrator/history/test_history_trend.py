"""history/trend.py and reading.py: which points make a series, what is judged in it, and what is said beside it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.config import margins
from orchestrator.errors import HistoryError
from orchestrator.history import queries, store, trend
from orchestrator.history.records import Filter, Point, RunRecord
from orchestrator.history.trend import Trend
from protocol.cell import Workload
from tests.fakes import sides
from tests.fakes.histories import UUID, kept, record, run_id

OTHER = "GPU-99999999-1111-2222-3333-444455556666"


def points(folder: Path, records: Sequence[RunRecord], model: str = "resnet50", **wanted: object) -> list[Point]:
    """Those of a history of these runs."""
    with store.reading(kept(folder, records)) as connection:
        return queries.points(connection, model, **wanted)


def trends(folder: Path, records: Sequence[RunRecord], figure: str | None = None) -> tuple[Trend, ...]:
    """The trends of a history of these runs."""
    return trend.trends(points(folder, records), margins.load(), figure)


def slower(first: int, runs: int, **changes: object) -> list[RunRecord]:
    """Runs of which those from number `first` on are 5 % slower."""
    return [
        record(number, (95.0 if number >= first else 100.0) + 0.1 * (number % 3), **changes)
        for number in range(1, runs + 1)
    ]


def test_a_change_stands_at_the_run_in_which_it_came(tmp_path: Path) -> None:
    """With its size, in percent of the figure; a change of the stack stands beside it."""
    runs = slower(7, 12)
    runs = [
        record(number, made.cells[0].figures["throughput_samples_per_sec"], stack={**sides.STACK, "driver": "580"})
        if number >= 7
        else made
        for number, made in enumerate(runs, 1)
    ]
    [found] = trends(tmp_path, runs)
    changed = {point.run_id: point.change_percent for point in found.points if point.change_percent is not None}
    assert {run: round(percent) for run, percent in changed.items()} == {run_id(7): -5}
    assert [(point.run_id, point.stack) for point in found.points if point.stack] == [
        (run_id(7), ("driver 570.86 -> 580",))
    ]
    assert [point.run_id for point in found.points] == [run_id(number) for number in range(1, 13)]


def test_a_time_that_grows_is_a_change_upwards(tmp_path: Path) -> None:
    """Beyond the margin of what goes through the host."""
    load = {"key": sides.cell(phase=Workload.LOAD).key, "metric": "model_load_time_ms"}
    times_ms = [10.0] * 4 + [11.0] * 5
    runs = [record(at, figures={"model_load_time_ms": time_ms}, **load) for at, time_ms in enumerate(times_ms, 1)]
    [found] = trends(tmp_path, runs)
    assert found.margin_percent == margins.load().runs.end_to_end.percent
    assert [round(point.change_percent) for point in found.points if point.change_percent is not None] == [10]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tainted": True}, "tainted: "),
        ({"doubt": "throttled"}, "throttled"),
    ],
)
def test_what_is_no_measurement_is_shown_and_not_judged(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    """Half of a history that was throttled is no change; each such run says why it does not count."""
    runs = [record(number, 60.0, **changes) if number > 6 else record(number) for number in range(1, 13)]
    [found] = trends(tmp_path, runs)
    assert [point.excluded[: len(why)] for point in found.points] == ["" if at <= 6 else why for at in range(1, 13)]
    assert {point.change_percent for point in found.points} == {None}
    assert found.points[-1].value == 60.0


def test_a_run_without_a_result_is_in_its_place(tmp_path: Path) -> None:
    """And a figure that no run has makes no trend."""
    runs = [record(1), record(2, figures={}, launches=(), doubt="without a result (failed)"), record(3)]
    [found] = trends(tmp_path, runs)
    assert [point.value for point in found.points] == [100.0, None, 100.0]
    assert trends(tmp_path / "again", runs, "no_such_figure") == ()


def test_each_gpu_and_each_kind_of_cell_is_a_series(tmp_path: Path) -> None:
    """A GPU stays the same one in another host, and a cell of another precision is another one."""
    other = sides.device(gpu_uuid=OTHER)
    runs = [
        record(1),
        record(2, hostname="node-02"),
        record(3, device=other, gpu_uuid=OTHER),
        record(4, key=sides.cell(precision="fp32").key),
    ]
    found = trends(tmp_path, runs)
    assert [(one.gpu_uuid, one.key.precision, len(one.points)) for one in found] == [
        (UUID, "bf16", 2),
        (OTHER, "bf16", 1),
        (UUID, "fp32", 1),
    ]


def test_a_cpu_device_belongs_to_its_host_and_is_not_judged(tmp_path: Path) -> None:
    """Every host has a cpu:0, and its machine drifts."""
    cpu = sides.device(gpu_uuid="cpu:0", kind="cpu", gpu_name="Some Processor")
    runs = slower(7, 12, device=cpu, gpu_uuid="cpu:0")
    found = trends(tmp_path, [*runs, record(20, device=cpu, gpu_uuid="cpu:0", hostname="node-02")])
    assert [(one.hostname, len(one.points)) for one in found] == [("node-01", 12), ("node-02", 1)]
    assert all(point.change_percent is None for one in found for point in one.points)


def test_any_figure_of_the_report_has_a_trend(tmp_path: Path) -> None:
    """Memory that grew; figures that can be zero have no ratio."""
    runs = [
        record(number, figures={"peak_memory_mb": 900.0 if number < 5 else 1200.0, "loss": 0.0})
        for number in range(1, 9)
    ]
    [memory] = trends(tmp_path, runs, "peak_memory_mb")
    assert [round(point.change_percent) for point in memory.points if point.change_percent is not None] == [33]
    [loss] = trends(tmp_path / "loss", runs, "loss")
    assert all(point.change_percent is None for point in loss.points)
    assert trend.figures(points(tmp_path / "names", runs)) == ("loss", "peak_memory_mb")


def test_what_changed_on_the_device_is_said(tmp_path: Path) -> None:
    """A power limit, a VBIOS."""
    capped = sides.device(gpu_uuid=UUID, power_limit_w=500.0, stack={"VBIOS": "97.00"})
    [found] = trends(tmp_path, [record(1), record(2, device=capped)])
    assert found.points[1].stack == ("VBIOS 96.00 -> 97.00", "power limit in W 700 -> 500")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(), [5, 4, 3, 2, 1]),
        (Filter(limit=2), [5, 4]),
        (Filter(since="2026-04-03T21:30:00Z"), [5, 4, 3]),
        (Filter(gpu="GPU-5317"), [5, 3, 2, 1]),
        (Filter(gpu="gpu-9999"), [4]),
        (Filter(gpu="h200"), [5, 4, 3, 2, 1]),
        (Filter(gpu="%"), []),
        (Filter(gpu="' OR 1=1 --"), []),
        (Filter(model="lstm"), [5]),
        (Filter(model="lst"), []),
        (Filter(verdict="fail"), [3, 2]),
        (Filter(verdict="COMPLETE"), [5, 4, 3, 2, 1]),
        (Filter(run_id="2026040"), [5, 4, 3, 2, 1]),
        (Filter(run_id=run_id(3), verdict="fail"), [3]),
    ],
)
def test_runs_are_filtered(tmp_path: Path, wanted: Filter, found: list[int]) -> None:
    """Newest first; a word of SQL is a word."""
    records = [
        record(1),
        record(2, health="FAIL"),
        record(3, burn_in="FAIL"),
        record(4, device=sides.device(gpu_uuid=OTHER), gpu_uuid=OTHER),
        record(5, key=sides.cell("lstm").key),
    ]
    with store.reading(kept(tmp_path, records)) as connection:
        assert [line.run_id for line in queries.lines(connection, wanted)] == [run_id(number) for number in found]


@pytest.mark.parametrize("name", ["2026040", "zz", "", "%"])
def test_a_run_must_be_named_without_doubt(tmp_path: Path, name: str) -> None:
    """Several, none, and nothing at all."""
    expected = pytest.raises(HistoryError, match="begin")
    with store.reading(kept(tmp_path, [record(1), record(2)])) as connection, expected:
        queries.run(connection, name)


def test_points_are_filtered(tmp_path: Path) -> None:
    """By GPU, precision, batch size and date."""
    runs = [record(1), record(2, key=sides.cell(precision="fp32", batch_size=1).key)]
    for wanted, found in (
        ({"precision": "fp32"}, [2]),
        ({"batch_size": 8}, [1]),
        ({"gpu": "GPU-5317"}, [1, 2]),
        ({"gpu": "GPU-0"}, []),
        ({"since": "2026-04-02"}, [2]),
    ):
        assert [point.run_id for point in points(tmp_path, runs, **wanted)] == [run_id(number) for number in found]


def test_only_gpus_that_did_badly_are_offenders(tmp_path: Path) -> None:
    """FAIL and WARN of health and of burn-ins; no tainted run, no CPU device, no verdict that says less."""
    cpu = sides.device(gpu_uuid="cpu:0", kind="cpu")
    records = [
        record(1, burn_in="FAIL"),
        record(2, health="WARN"),
        record(3, health="UNKNOWN", burn_in="UNKNOWN"),
        record(4, burn_in="FAIL", tainted=True),
        record(5, device=cpu, gpu_uuid="cpu:0", burn_in="FAIL"),
        record(6, device=sides.device(gpu_uuid=OTHER), gpu_uuid=OTHER, burn_in="FAIL"),
    ]
    with store.reading(kept(tmp_path, records)) as connection:
        assert [one.run_id for one in queries.offences(connection, [UUID, "cpu:0"])] == [run_id(1), run_id(2)]
