"""Random faults at random times into every process of a run: what was promised is kept, whatever happens."""

import pytest

from tests.e2e.chaos import campaign
from tests.e2e.chaos.kinds import KINDS, PLANTED
from tests.e2e.chaos.storm import HITS

STORMS = 2
"""All at the same time. Each has every kind of fault."""
SEED = 1


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_random_faults_break_no_promise() -> None:
    """Each result once, each failure named by its fault, no cell missing, and nothing left on the machine."""
    told: list[str] = []
    found = campaign.carry_out(STORMS * HITS, SEED, at_once=STORMS, tell=told.append)
    again = "; ".join(f"python -m tests.e2e.chaos --faults 1 --seed {seed} --keep" for seed in found.findings)
    assert found.findings == {}, f"to see it again: {again}"
    assert found.faults >= STORMS * HITS
    assert found.kinds == KINDS.keys() | PLANTED.keys(), "a kind of fault was not tried"
