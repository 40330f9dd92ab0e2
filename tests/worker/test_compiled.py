"""torch.compile in a launch: input sizes that change, and outputs that dropout makes random."""

import re
from collections import Counter

import pytest
from msgspec.structs import replace

from protocol.cell import CompileMode, InputSpec, Sizes, SizeUnit, Workload
from protocol.messages import ChangingShapes, Outcome
from protocol.result import Compilation, ShapeTrial, ShapeWay
from tests.fakes.assignments import assignment, result_of
from tests.fakes.own import Code
from tests.worker.fresh import Fresh

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SIZES = (10, 16, 24, 40)
BRANCHES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        if x.shape[1] > 20:
            return self.net(x) * 2
        return self.net(x)
"""


def launched(write: Code, fresh: Fresh, text: str, workload: Workload, sizes: tuple[int, ...] = ()) -> Outcome:
    """The first launch of a user's model; its inputs have a size, as those of models that ship."""
    spec = replace(
        write(text, inputs=(InputSpec(name="x", shape=("batch", "size", 4)),)),
        sizes=Sizes(unit=SizeUnit.TOKENS, default=16),
    )
    assign = assignment(spec, workload, write.folder / "cache", compile_mode=CompileMode.DEFAULT)
    shapes = ChangingShapes(sizes=sizes, bucket=16) if sizes else None
    return fresh.launch(replace(assign, compiler_caches=str(write.folder / "compiler"), shapes=shapes))


def compiled(write: Code, fresh: Fresh, text: str, workload: Workload, sizes: tuple[int, ...] = ()) -> Compilation:
    found = result_of(launched(write, fresh, text, workload, sizes)).compilation
    assert found is not None
    return found


def firsts(trial: ShapeTrial) -> dict[int, bool]:
    return {call.size: call.compiled for call in reversed(trial.calls)}


def test_recompilations_are_counted_and_named(write: Code, fresh: Fresh) -> None:
    """Static: each size compiles. Dynamic: the branch on the size does. Padded: each bucket, with padding elements.

    Precompiled headers are in the caches of the cell, too: other runs must not shorten a cold compilation.
    """
    found = compiled(write, fresh, BRANCHES, Workload.INFERENCE, SIZES)
    assert list((write.folder / "compiler").rglob("headers/*.gch"))
    static, dynamic, padded = found.shapes
    assert [trial.way for trial in found.shapes] == [*ShapeWay]
    assert not any(trial.error or trial.limited for trial in found.shapes)
    assert Counter(call.size for call in static.calls) == dict.fromkeys(SIZES, 4)
    assert [call.size for call in static.calls] == [call.size for call in padded.calls]
    assert firsts(static) == dict.fromkeys(SIZES, True)
    assert (static.recompilations, sum(call.compiled for call in static.calls)) == (3, 4)
    assert all("net.py:" in reason and "size" in reason for reason in static.reasons)
    assert (dynamic.recompilations, sum(call.compiled for call in dynamic.calls)) == (1, 2)
    assert "20" in dynamic.reasons[0]
    assert (padded.recompilations, sum(call.compiled for call in padded.calls)) == (2, 3)
    assert padded.padded_elements / padded.elements == pytest.approx((16 + 16 + 32 + 48) / sum(SIZES))
    assert (found.recompilations, found.graphs) == ((), 1)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (BRANCHES.replace("return self.net(x) * 2", "raise ValueError('no such position')"), "size 24"),
        (BRANCHES.replace("if x.shape", "x = x + torch.zeros(16, 4)\n        if x.shape"), "size 24"),
    ],
)
def test_a_model_of_one_size_names_its_reason(text: str, error: str, write: Code, fresh: Fresh) -> None:
    """That of the eager model, in every way; the measurement stands."""
    found = compiled(write, fresh, text, Workload.INFERENCE, SIZES[1:])
    assert len({trial.error for trial in found.shapes}) == 1
    assert error in found.shapes[0].error
    assert found.relative_error is not None


def test_the_limit_of_forms_is_noticed(write: Code, fresh: Fresh) -> None:
    """Beyond it torch runs eager without a word."""
    limit = "import torch._dynamo\ntorch._dynamo.config.cache_size_limit = 2\n"
    static, dynamic, _ = compiled(write, fresh, limit + BRANCHES, Workload.INFERENCE, SIZES).shapes
    assert (static.limited, dynamic.limited) == (True, False)


SHORTENS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        y = self.net(x)
        return y[:, :1] if torch.compiler.is_compiling() else y
"""


def test_outputs_of_another_size_are_a_failure(write: Code, fresh: Fresh) -> None:
    """There is no error to report, and such a mode must not be recommended."""
    failure = launched(write, fresh, SHORTENS, Workload.INFERENCE).failure
    assert failure is not None
    assert {"8", "128"} <= set(re.findall(r"\d+", failure.message))


DROPS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 64)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        y = torch.nn.functional.dropout(self.drop(self.net(x)).relu(), 0.3)
        return y * (2 if torch.compiler.is_compiling() else 1) if WRONG else y
"""


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize(("workload", "error"), [(Workload.TRAINING, 3), (Workload.INFERENCE, 1)])
def test_random_outputs_are_compared(workload: Workload, error: float, wrong: bool, write: Code, fresh: Fresh) -> None:
    """With equal random numbers. What is wrong when compiled is found, also in a loss: it is the mean of squares."""
    found = compiled(write, fresh, f"WRONG = {wrong}\n{DROPS}", workload)
    assert found.relative_error == pytest.approx(error if wrong else 0, abs=1e-4)
    assert (found.graphs, found.recompilations) == (1, ())


COMPILES_ITSELF = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.GELU()))

    def forward(self, x):
        return self.net(x)
"""


def test_code_that_compiles_itself_uses_the_caches_of_its_cell(write: Code, fresh: Fresh) -> None:
    """Caches that the user shares between programs are neither read nor written, precompiled headers included."""
    shared, own = write.folder / "shared", write.folder / "compiler"
    temporary = write.folder / "temporary"
    temporary.mkdir()
    text = f"{COMPILES_ITSELF}\nimport tempfile\ntempfile.tempdir = {str(temporary)!r}\n"  # headers default to it
    spec = write(text, inputs=(InputSpec(name="x", shape=("batch", 4)),))
    assign = assignment(spec, Workload.INFERENCE, write.folder / "cache")
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(shared)}
    found = result_of(fresh.launch(replace(assign, compiler_caches=str(own)), environment)).compilation
    assert found is not None
    assert found.own
    assert any((own / "inductor").rglob("*"))
    assert not shared.exists()
    assert not list(temporary.glob("torchinductor_*"))


def test_the_time_to_compile_is_that_of_the_compiled_call(write: Code, fresh: Fresh) -> None:
    """Without what the model's own code compiled before, in its eager calls."""
    found = compiled(write, fresh, COMPILES_ITSELF, Workload.INFERENCE)
    assert found.compile_ms is not None
    assert found.first_call_ms is not None
    assert 0 < found.compile_ms <= found.first_call_ms
