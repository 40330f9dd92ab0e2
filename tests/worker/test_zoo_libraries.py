"""A library that is missing or broken costs its own models, and no others."""

import json
from pathlib import Path

import pytest

from tests.worker.fresh import Fresh

SCRIPT = """
import importlib, json
from worker.models import registry

failed = {}
for family, module in registry.MODULES.items():
    try:
        importlib.import_module(module)
    except Exception as error:
        failed[family] = f"{type(error).__name__}: {error}"
print(json.dumps(failed))
"""

BROKEN = "raise RuntimeError('operator {library}::nms does not exist')"
MISSING = "raise ModuleNotFoundError('No module named {library}', name='{library}')"


@pytest.mark.parametrize(
    ("library", "fault", "families"),
    [("torchvision", BROKEN, {"torchvision"}), ("transformers", MISSING, {"bert", "causal"})],
    ids=["torchvision", "transformers"],
)
def test_library_that_cannot_be_imported_costs_its_own_models(
    fresh: Fresh, tmp_path: Path, library: str, fault: str, families: set[str]
) -> None:
    """With the library's own error. transformers would otherwise fail with torchvision."""
    (tmp_path / library).mkdir()
    (tmp_path / library / "__init__.py").write_text(fault.format(library=library), encoding="utf-8")
    failed = json.loads(fresh.script(SCRIPT, PYTHONPATH=str(tmp_path)))
    assert failed.keys() == families
    assert all(library in words for words in failed.values())
