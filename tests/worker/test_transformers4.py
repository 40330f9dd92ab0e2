"""The cells of transformers 5, which the constraints pin, are measured with transformers 4 as well."""

import subprocess
import sys
from pathlib import Path

import pytest

from protocol.cell import ModelSpec, Workload
from tests.fakes.assignments import BERT, GPT2, assignment, result_of
from tests.worker.fresh import Fresh

TOKENIZERS = {"4.48.0": "0.21.4", "4.57.6": "0.22.2"}
"""The oldest that pyproject.toml allows, and the last of 4, each with the tokenizers that it needs."""
OTHERS = ("huggingface_hub==0.36.2", "requests", "urllib3", "idna", "certifi", "charset_normalizer")
"""What 5 has in a version too new for 4, or does not need at all; the rest is there."""
CELLS = (
    *((BERT, workload) for workload in (Workload.LOAD, Workload.TRAINING)),
    (GPT2, Workload.GENERATION),
)


@pytest.fixture(scope="module", params=TOKENIZERS)
def transformers4(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    version: str = request.param
    folder = tmp_path_factory.mktemp("transformers4")
    wanted = (f"transformers=={version}", f"tokenizers=={TOKENIZERS[version]}", *OTHERS)
    options = ("--quiet", "--no-deps", "--no-compile", "--target", str(folder))
    command = [sys.executable, "-m", "pip", "install", *options, *wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"{wanted[0]} cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    return version, folder


@pytest.mark.slow
@pytest.mark.parametrize(("model", "workload"), CELLS, ids=[f"{model.name} {work}" for model, work in CELLS])
def test_models_of_transformers_4_are_measured(
    fresh: Fresh, transformers4: tuple[str, Path], tmp_path: Path, model: ModelSpec, workload: Workload
) -> None:
    """Built, saved, loaded, trained, and made to write."""
    version, folder = transformers4
    result = result_of(fresh.launch(assignment(model, workload, tmp_path), {"PYTHONPATH": str(folder)}))
    assert result.environment.transformers == version
    assert result.times_ms("iteration")
