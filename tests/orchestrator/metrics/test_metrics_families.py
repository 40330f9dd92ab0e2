"""The metrics of a run, and that the dashboard uses no others."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from orchestrator.config import catalogue
from orchestrator.engine.display_events import DeviceLine, Snapshot
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.metrics import exporters
from orchestrator.metrics.families import FAILURES, FAMILIES, RUN, Family, Kind
from orchestrator.metrics.run_view import Figure, RunState, View
from orchestrator.state.slots import SlotStatus
from protocol.failure import Category
from protocol.messages import Sample
from tests.fakes.runs import gpus

BY_NAME = {family.name: family for family in FAMILIES}
GPU = gpus(1)[0]
SAMPLE = Sample(
    at_ns=90_000_000_000,
    gpu_percent=98,
    memory_percent=40,
    memory_used_bytes=1_000,
    power_mw=691_400,
    energy_mj=12_345_000,
    temperature_c=61,
    sm_clock_mhz=1_980,
    memory_clock_mhz=3_201,
)


def view(**changes: Any) -> View:
    """A run on one GPU, in the middle."""
    line = DeviceLine(uuid=GPU.uuid, label="GPU 0", name=GPU.name, cell="resnet50", sample=SAMPLE)
    snapshot = Snapshot(
        devices=(line,),
        done=3,
        total=12,
        share=0.25,
        failed=1,
        elapsed_s=60.0,
        eta_s=180.0,
        cells={SlotStatus.MEASURED: 2, SlotStatus.WAITING: 4},
    )
    figure = Figure(
        label="GPU 0",
        uuid=GPU.uuid,
        model="resnet50",
        workload="inference",
        precision="fp32",
        mode="solo",
        batch_size=8,
        iteration_s=0.01,
        items_per_second=800.0,
    )
    made = View(
        run_id="20260401-213000-1f2e3d",
        tool_version="0.1.0",
        profile="quick",
        devices=(GPU,),
        began=1_000.0,
        at=1_060.0,
        boot=910.0,
        snapshot=snapshot,
        figures={"a-cell": figure},
        failures={Category.CRASHED: 2},
        retries=1,
    )
    return msgspec.structs.replace(made, **changes)


def rows(name: str, seen: View) -> dict[tuple[str, ...], float]:
    """The samples of one metric by its labels."""
    return dict(BY_NAME[name].rows(seen))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpubench_gpu_temperature_celsius", 61),
        ("gpubench_gpu_power_watts", 691.4),
        ("gpubench_gpu_power_limit_watts", 700),
        ("gpubench_gpu_energy_joules_total", 12_345),
        ("gpubench_gpu_utilization_ratio", 0.98),
        ("gpubench_gpu_memory_utilization_ratio", 0.4),
        ("gpubench_gpu_sm_clock_hertz", 1.98e9),
        ("gpubench_gpu_memory_clock_hertz", 3.201e9),
        ("gpubench_gpu_memory_used_bytes", 1_000),
        ("gpubench_gpu_memory_total_bytes", 143_771 * 1024 * 1024),
        ("gpubench_gpu_sample_timestamp_seconds", 1_000),
        ("gpubench_gpu_busy", 1),
        ("gpubench_gpu_quarantined", 0),
    ],
)
def test_readings_are_in_base_units(name: str, value: float) -> None:
    """Of the newest sample of each GPU, by its label and UUID."""
    assert rows(name, view()) == {("GPU 0", GPU.uuid): pytest.approx(value)}


CELL = ("a-cell", "GPU 0", GPU.uuid, "resnet50", "inference", "fp32", "solo", "8")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpubench_cell_items_per_second", {CELL: 800.0}),
        ("gpubench_cell_iteration_seconds", {CELL: 0.01}),
        ("gpubench_run_progress_ratio", {(): 0.25}),
        ("gpubench_run_remaining_seconds", {(): 180.0}),
        ("gpubench_run_last_update_timestamp_seconds", {(): 1_060.0}),
        *(("gpubench_launches_planned", {(): 12}), ("gpubench_launches_done", {(): 3})),
        *(("gpubench_launches_failed", {(): 1}), ("gpubench_launch_retries_total", {(): 1})),
        ("gpubench_cells", dict.fromkeys([(one,) for one in SlotStatus], 0) | {("measured",): 2, ("waiting",): 4}),
        ("gpubench_launch_failures_total", dict.fromkeys([(one,) for one in FAILURES], 0) | {("crashed",): 2}),
    ],
)
def test_progress_of_the_run_and_figures_of_cells(name: str, expected: dict[tuple[str, ...], float]) -> None:
    """Items a second and iteration time by the labels of a cell. Launches that a person stopped are no failures."""
    assert rows(name, view()) == expected


def test_one_verdict_holds_at_a_time() -> None:
    """PENDING until there is one; a burn-in's only of a burn-in."""

    def held(name: str, seen: View) -> list[str]:
        return [labels[-1] for labels, value in rows(name, seen).items() if value == 1]

    assert held("gpubench_gpu_health", view()) == held("gpubench_node_health", view()) == ["PENDING"]
    assert rows("gpubench_gpu_burn_in", view()) == {}
    judged = view(
        health={GPU.uuid: HealthVerdict.FAIL}, node=HealthVerdict.PASS, burn_in={GPU.uuid: HealthVerdict.WARN}
    )
    assert held("gpubench_gpu_health", judged) == ["FAIL"]
    assert held("gpubench_node_health", judged) == ["PASS"]
    assert held("gpubench_gpu_burn_in", judged) == ["WARN"]


def test_unknown_values_have_no_sample() -> None:
    """Never 0: before the first snapshot, without telemetry, while the run goes on."""
    seen = view(snapshot=None, figures={})
    unknown = [family.name for family in FAMILIES if not list(family.rows(seen))]
    assert {"gpubench_gpu_temperature_celsius", "gpubench_run_progress_ratio", "gpubench_cells"} <= set(unknown)
    assert rows("gpubench_run_exit_code", view()) == {}
    assert rows("gpubench_run_exit_code", view(exit_code=4)) == {(): 4}
    assert rows("gpubench_run_state", view(state=RunState.OVER))["over",] == 1


class Shown(Collector):
    """The families of a view, as they are given to Prometheus."""

    def __init__(self, seen: View) -> None:
        self.seen = seen

    def collect(self) -> Any:
        """As in the exporters."""
        return [exporters.converted(family, self.seen) for family in FAMILIES]


def test_hostile_names_break_no_line() -> None:
    """Quotes, backslashes, newlines and lone surrogates in the names of models and devices."""
    hostile = 'a"b\\c\nd\ud800\x1b[31m} 1\n'
    device = msgspec.structs.replace(GPU, name=hostile)
    figure = msgspec.structs.replace(view().figures["a-cell"], model=hostile, label=hostile)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Shown(view(devices=(device,), figures={hostile: figure}, run_id=hostile)))
    found = {
        sample.name: sample
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }
    assert found["gpubench_gpu_info"].labels["name"] == 'a"b\\c d} 1'
    assert found["gpubench_cell_items_per_second"].labels["model"] == 'a"b\\c d} 1'


def test_two_runs_on_one_machine_have_no_series_in_common() -> None:
    """node_exporter reads the files of both, and would drop a series that is there twice."""

    def series(run_id: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        families = Shown(view(run_id=run_id, exit_code=0)).collect()
        return {(one.name, tuple(one.labels.items())) for family in families for one in family.samples}

    one, other = series("run-1"), series("run-2")
    assert one
    assert {labels[0] for _, labels in one} == {("run_id", "run-1")}
    assert not one & other


def test_each_panel_separates_runs() -> None:
    """In its legend; a sum over two runs at once would be of neither."""
    for query, legend in queries():
        assert "{{instance}}" not in legend or f"{{{{{RUN}}}}}" in legend
        assert all(RUN in group for group in re.findall(r"by \(([^)]*)\)", query))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_follow_the_conventions(family: Family) -> None:
    """One prefix, no unit but a base unit, _total for counters alone, a sentence of help."""
    assert re.fullmatch(r"gpubench_[a-z]+(_[a-z]+)*", family.name)
    assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
    assert not re.search(r"_(ms|mb|mhz|percent|kwh|c|w|j)(_|$)", family.name)
    assert family.help.endswith(".")
    assert all(re.fullmatch(r"[a-z_]+", label) for label in family.labels)


# ── the dashboard ─────────────────────────────────────────────────────────────────────────────────────────────────────

DASHBOARD = catalogue.configs_folder() / "grafana" / "gpubench.json"
DOCS = Path(__file__).parents[3] / "docs" / "monitoring.md"
EVERYWHERE = {"instance", "job", RUN}
"""Labels that every metric has once it was scraped."""
FUNCTIONS = {"sum", "rate", "time", "by", "label_values", "label_replace", "or", "increase"}


def queries() -> list[tuple[str, str]]:
    """Each query of the dashboard, with the words of its legend."""
    made = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = [(target["expr"], target["legendFormat"]) for panel in made["panels"] for target in panel["targets"]]
    return found + [(one["query"]["query"], "") for one in made["templating"]["list"] if one["type"] == "query"]


def places(x: int, y: int, w: int, h: int) -> list[tuple[int, int]]:
    """The fields of the page that a panel takes."""
    return [(x + column, y + row) for column in range(w) for row in range(h)]


def wrong(query: str, legend: str) -> list[str]:
    """Metrics and labels of a query that no metric of ours has."""
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", query)
    outside = re.sub(r"\{[^}]*\}|by \([^)]*\)|label_values\(([^,]*),[^)]*\)", r" \1 ", bare)
    names = set(re.findall(r"[a-z_]{2,}", outside)) - FUNCTIONS
    labels = {label for group in re.findall(r"\{([^}]*)\}", bare) for label in re.findall(r"[a-z_]+(?=[=!])", group)}
    labels |= {label.strip() for group in re.findall(r"by \(([^)]*)\)", bare) for label in group.split(",")}
    labels |= set(re.findall(r"label_values\([^,]*, *([a-z_]+)\)", bare)) | set(re.findall(r"{{(\w+)}}", legend))
    known = EVERYWHERE.union(*(BY_NAME[name].labels for name in names & BY_NAME.keys()))
    return sorted(names - BY_NAME.keys()) + sorted(labels - known) if names else ["no metric"]


@pytest.mark.parametrize(("query", "legend"), queries())
def test_queries_of_the_dashboard_use_existing_metrics(query: str, legend: str) -> None:
    """With labels that these have."""
    assert wrong(query, legend) == []


def test_wrong_queries_are_found() -> None:
    """An unknown metric, an unknown label in braces, behind by, and in a legend."""
    assert wrong("sum(gpubench_gpu_temperature)", "") == ["gpubench_gpu_temperature"]
    assert wrong('gpubench_cells{statu="x"}', "") == ["statu"]
    assert wrong("sum by (statu) (gpubench_cells)", "{{state}}") == ["state", "statu"]
    assert wrong("time()", "") == ["no metric"]


def test_metrics_outside_the_dashboard_are_in_the_docs() -> None:
    """A new one is shown or listed as not shown, and never both."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    shown = {name for panel in panels for one in panel["targets"] for name in re.findall(r"gpubench_\w+", one["expr"])}
    (unshown,) = re.findall(r"Not shown: ([^.]*)\.", DOCS.read_text(encoding="utf-8"))
    assert set(re.findall(r"`(\w+)`", unshown)) == BY_NAME.keys() - shown


def test_panels_do_not_hide_each_other() -> None:
    """Each has its own id and place on the page. A table has one query, as Grafana shows only the first."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert {len(panel["targets"]) for panel in panels if panel["type"] == "table"} == {1}
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [place for panel in panels for place in places(**panel["gridPos"])]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


def test_each_verdict_has_an_alert() -> None:
    """On the machine too: else a FAIL shows as an exit code alone. Each alert uses existing metrics."""
    alerts = DOCS.read_text(encoding="utf-8").partition("## Alerts\n")[2].partition("\n## ")[0].splitlines()
    asked = [line.strip() for line in alerts if line.startswith("    ")]
    assert [wrong(query, "") for query in asked] == [[]] * len(asked)
    alerting = {name for query in asked for name in re.findall(r'(gpubench_\w+){verdict="FAIL"}', query)}
    assert alerting == {family.name for family in FAMILIES if "verdict" in family.labels}


def test_the_table_of_metrics_is_the_code() -> None:
    """docs/monitoring.md repeats the table; after a change of it, paste what this test expected."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in (RUN, *family.labels))
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.help} |")
    text = DOCS.read_text(encoding="utf-8")
    assert text.partition("<!-- metrics: begin -->\n")[2].partition("\n<!-- metrics: end -->")[0] == "\n".join(rows)
