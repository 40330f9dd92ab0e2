"""A cell of a baseline that two boards measured: their launches together, as those of one."""

import math
from statistics import fmean, variance

import pytest

from orchestrator.compare import pooling
from orchestrator.compare.cell_facts import Place
from orchestrator.compare.comparison import compare
from orchestrator.compare.run_figures import SideCell
from orchestrator.config import margins
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.cell import Workload
from tests.fakes.sides import baseline, cell, device, side


def on(number: int, rate: float = 100.0) -> SideCell:
    """A cell of three launches on that GPU."""
    return cell("a", rate, rate * 1.002, rate * 0.999, gpu_uuid=f"GPU-{number}")


def test_what_two_boards_differ_by_is_no_noise_of_launches() -> None:
    """A regression is found beside two boards 3 % apart as beside one: their gap is in the margin already."""
    run = side(on(7, 92.0), devices=(device(7),))
    known = (baseline(on(2, 98.5), on(3, 101.5), devices=(device(2), device(3))), baseline(on(2), devices=(device(2),)))
    two, one = (compare(before, run, margins.load()).cells[0] for before in known)
    assert (two.verdict, one.verdict) == (ChangeVerdict.SLOWER, ChangeVerdict.SLOWER)
    assert (two.ratio, two.launches_before) == (pytest.approx(one.ratio, rel=1e-3), 6)
    assert two.before == pytest.approx(math.sqrt(98.5 * 101.5), rel=1e-3)


@pytest.mark.parametrize("phase", [Workload.INFERENCE, Workload.LOAD])
def test_launches_of_two_boards_vary_as_they_do_within_a_board(phase: Workload) -> None:
    """The sum of squares over the launches less the boards, of rates and of times; each board counts alike."""
    found = [
        Place(device(at), cell("a", *values, phase=phase, gpu_uuid=f"GPU-{at}"))
        for at, values in enumerate(((100.0, 101.0), (110.0, 112.0, 114.0, 113.0)))
    ]
    logs = [[math.log(rate) for rate in place.cell.rates] for place in found]
    joined = [math.log(rate) for rate in pooling.combined(found).cell.rates]
    within = sum((one - fmean(own)) ** 2 for own in logs for one in own)
    assert variance(joined) == pytest.approx(within / (6 - 2))
    assert fmean(joined) == pytest.approx(fmean(map(fmean, logs)))


def test_two_boards_of_one_launch_each_keep_their_gap() -> None:
    """Nothing is known of how launches of a board vary, and moved onto each other they would vary by nothing."""
    found = [Place(device(at), cell("a", rate, gpu_uuid=f"GPU-{at}")) for at, rate in enumerate((100.0, 103.0))]
    assert pooling.combined(found).cell.values == (100.0, 103.0)
