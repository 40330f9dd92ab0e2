"""orchestrator/plan/launches.py: how many launches of each cell where nobody says."""

from msgspec.structs import replace

from orchestrator.plan import estimate, launches, planner
from protocol.cell import AUTO, Workload
from tests.fakes.configurations import configuration, cpu, gpu, shipped_catalogue
from tests.fakes.runs import shipped


def number(**changes: object) -> int:
    return launches.fitted(configuration(**changes), (cpu(0),)).launches


def test_a_small_run_gets_five_launches_of_each_cell() -> None:
    """More would not be worth their time; a large profile keeps its own number."""
    assert number(models=shipped("lstm")) == launches.MOST
    assert number(models=shipped("lstm"), launches=7) == 7


def test_the_whole_suite_gets_what_its_profile_says() -> None:
    """One launch with quick, three with standard, however long they take."""
    assert number() == 1
    assert number(launches=3) == 3


def test_as_many_launches_as_fit_into_five_minutes_by_the_estimate() -> None:
    """One more of each cell would take longer."""
    asked = configuration(models=shipped("bert-base", "vit-base"), workloads=(Workload.INFERENCE,), batch_sizes=(1, 8))
    found = launches.fitted(asked, (cpu(0),))
    assert 1 < found.launches < launches.MOST

    def lasts_s(count: int) -> float:
        counted = replace(asked, launches=count)
        return estimate.total_s(planner.make(counted, (cpu(0),)), counted, (cpu(0),))

    assert lasts_s(found.launches) <= launches.FITTING_S < lasts_s(found.launches + 1)


def test_a_scan_is_made_once() -> None:
    """Its launches for the batch size are no launches of a cell: they leave the number alone."""
    assert number(models=shipped("lstm"), batch_sizes=(AUTO,), workloads=(Workload.INFERENCE,)) == 1


def test_gpus_share_the_time() -> None:
    """Eight GPUs measure side by side, so that they get as many launches as one."""
    asked = configuration(models=shipped("resnet50"), probes=shipped_catalogue().probes)
    eight = tuple(map(gpu, range(8)))
    assert launches.fitted(asked, eight).launches == launches.fitted(asked, eight[:1]).launches > 1
