"""config/workloads.py: everything that is known of a workload."""

import ast
import pkgutil
from pathlib import Path

import pytest

import worker.workloads
from orchestrator.config.workloads import PHASES, WORKLOADS, Role
from orchestrator.kinds.burn_in.rate_checks import BESIDE
from protocol.cell import Workload

HELPERS = {"common"}
"""Modules of worker/workloads/ that are no workload."""


def test_every_workload_has_facts_and_a_module_of_its_name() -> None:
    """A worker imports worker.workloads.<name>; a workload without facts would end the plan with a KeyError."""
    modules = {module.name for module in pkgutil.iter_modules(worker.workloads.__path__)} - HELPERS
    assert modules == {workload.value for workload in Workload} == {workload.value for workload in WORKLOADS}


@pytest.mark.parametrize("workload", Workload)
def test_facts_of_a_workload_agree_with_each_other(workload: Workload) -> None:
    """What has no model has no batch; a check alone has a rate of its own; a phase has a batch size to plan."""
    facts = WORKLOADS[workload]
    assert facts.title
    assert facts.has_model or not facts.has_batch
    assert facts.role is Role.CHECK or not facts.own_rate
    assert (workload in PHASES) is (facts.role is Role.PHASE)
    assert not facts.needs_references or facts.role is Role.PHASE
    source = Path(worker.workloads.__path__[0], f"{workload}.py").read_text(encoding="utf-8")  # to import it takes 10 s
    assert "run" in {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def test_every_check_with_a_rate_of_its_own_is_compared_with_siblings() -> None:
    """The rates of a burn-in, each under a title of its own."""
    own = {workload for workload, facts in WORKLOADS.items() if facts.own_rate}
    assert BESIDE.keys() == own
