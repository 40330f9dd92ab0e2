"""Models of the user's own are measured: whatever their inputs, their losses, and where their code lies."""

import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from protocol.cell import InputSpec, Precision, Workload
from protocol.own import OwnModel
from tests.fakes.assignments import assignment, run_here
from tests.fakes.own import LINEAR, Code, described, fed
from worker.errors import ModelCodeError
from worker.models import registry

# ── what is measured ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("workload", "precision"),
    [(Workload.LOAD, Precision.BF16), (Workload.INFERENCE, Precision.FP32), (Workload.TRAINING, Precision.BF16)],
)
def test_a_class_in_a_file_is_measured(write: Code, tmp_path: Path, workload: Workload, precision: Precision) -> None:
    """A class with inputs is all that it takes."""
    result = run_here(assignment(write(LINEAR), workload, tmp_path, precision=precision))
    assert result.parameters == 10
    assert result.times_ms("iteration")
    assert (result.loss is None) == (workload is not Workload.TRAINING)


def test_own_training_step_is_measured_as_a_whole(write: Code, tmp_path: Path) -> None:
    """Only the user's code knows where its forward pass ends."""
    spec = write(
        LINEAR
        + """
    def train_step(self, batch):
        loss = self(batch).square().mean()
        loss.backward()
        with torch.no_grad():
            for parameter in self.parameters():
                parameter -= 0.01 * parameter.grad
        self.zero_grad()
        return loss
"""
    )
    result = run_here(assignment(spec, Workload.TRAINING, tmp_path))
    assert set(result.series) == {"iteration"}
    assert result.loss is not None


def test_samples_are_counted_by_the_users_code(write: Code, tmp_path: Path) -> None:
    """Throughput counts what the user calls a sample: here tokens."""
    spec = write(LINEAR + "    def samples(self, batch): return batch.numel()\n")
    assert run_here(assignment(spec, Workload.INFERENCE, tmp_path, batch_size=3)).items_per_iteration == 12


def test_changed_code_gets_weights_of_its_own(write: Code, tmp_path: Path) -> None:
    """A file of weights that an earlier state of the code has made would not fit."""
    cache = tmp_path / "cache"
    run_here(assignment(write(LINEAR), Workload.LOAD, cache))
    sys.modules.pop("own_net")
    # Of another length: Python takes the old bytecode for a file of equal length that was written in the same second.
    run_here(assignment(write(LINEAR.replace("nn.Linear(width, 2)", "nn.Linear(width, 30)")), Workload.LOAD, cache))
    assert len(list(cache.iterdir())) == 2


def test_code_is_imported_late_and_no_model_is_kept_alive(write: Code) -> None:
    """Code may open the GPU while it is imported; loads need the memory of the earlier model."""
    registry.family(write("raise RuntimeError('imported')"))
    with pytest.raises(ModelCodeError, match="RuntimeError: imported"):
        fed(write("raise RuntimeError('imported')"))
    family, module, _ = fed(write(LINEAR))
    before = family._built
    del module
    family._loss = None
    assert before() is None


# ── inputs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

NESTED = """
Pair = collections.namedtuple("Pair", "left right")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.seen = []
    def forward(self, *args, **kwargs):
        self.seen.append((args, kwargs))
        return self.layer(torch.zeros(1, 4))
    def get_example_inputs(self, n):
        x, y = torch.ones(n, 4), torch.arange(n)
        return {example}
"""


@pytest.mark.parametrize(
    ("example", "arguments", "keywords"),
    [
        ("x", "(x,)", "{}"),
        ("(x, y)", "(x, y)", "{}"),
        ("[x, y]", "([x, y],)", "{}"),
        ("{'a': x, 'b': y}", "()", "{'a': x, 'b': y}"),
        ("((x, y), {'a': x})", "(x, y)", "{'a': x}"),
        ("(x, {'a': y})", "(x, {'a': y})", "{}"),
        ("({'a': [x, (y, None)]}, 3, 'word')", "({'a': [x, (y, None)]}, 3, 'word')", "{}"),
        ("{'a': {'b': [x]}, 'flag': True}", "()", "{'a': {'b': [x]}, 'flag': True}"),
        ("Pair(x, y)", "(Pair(x, y),)", "{}"),
        ("collections.OrderedDict(a=x)", "()", "{'a': x}"),
        ("collections.UserDict(a=x)", "()", "{'a': x}"),
        ("((x,), collections.UserDict(a=y))", "(x,)", "{'a': y}"),
        ("__import__('transformers').BatchEncoding({'a': x, 'b': y})", "()", "{'a': x, 'b': y}"),
    ],
)
def test_inputs_arrive_as_they_were_made(write: Code, example: str, arguments: str, keywords: str) -> None:
    """Tuples by position, dicts by name, pairs as both, and every nesting put together again."""
    family, module, batch = fed(write(NESTED.replace("{example}", example)))
    family.forward(module, batch)
    pair: Any = sys.modules["own_net"]
    names = {"x": torch.ones(3, 4), "y": torch.arange(3), "Pair": pair.Pair}
    ((args, kwargs),) = module.seen
    # repr shows every tensor, its type and its nesting.
    assert repr((args, kwargs)) == repr((eval(arguments, names), eval(keywords, names)))


@pytest.mark.parametrize(
    ("made", "size"),
    [
        ("torch.ones(32, 4)", 3),
        ("torch.ones(32, 4)", 32),
        ("torch.ones(32, 4)", 4),
        ("torch.ones(1, 4)", 1),
        ("[torch.ones(4)] * 3", 3),
        ("(torch.ones(3, 3), {'scale': 32})", 32),
    ],
)
def test_inputs_that_do_not_follow_the_batch_size_are_refused(write: Code, made: str, size: int) -> None:
    """Throughput would be wrong by a factor. A method `samples` permits them. A length may be the size by chance."""
    text = NESTED.replace("{example}", made)
    with pytest.raises(ModelCodeError, match="batch size"):
        fed(write(text), batch_size=size)
    counting = write(text + "    def samples(self, batch): return 32\n", file="counting.py")
    family, _module, batch = fed(counting, batch_size=size)
    assert family.samples(batch) == 32


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("made", ["torch.ones(7, n)", "[torch.ones(4)] * n", "{'a': [(torch.ones(3), x)]}"])
def test_the_batch_may_be_any_length(write: Code, made: str, size: int) -> None:
    """The second axis, the number of tensors in a list, one tensor among others."""
    fed(write(NESTED.replace("{example}", made)), batch_size=size)


def test_described_inputs_are_drawn_from_their_ranges(write: Code) -> None:
    """Types, ranges, and a batch that need not be the first length."""
    inputs = (
        InputSpec(name="tokens", shape=("batch", 400), dtype="int64", low=3, high=6),
        InputSpec(name="image", shape=(400, "batch"), low=-2, high=-1),
        InputSpec(name="mask", shape=("batch", 400), dtype="bool"),
        InputSpec(name="bell", shape=("batch", 400), dtype="float32"),
    )
    _, _, batch = fed(write(LINEAR, inputs=inputs, by_name=True), torch.bfloat16)
    tokens, image, mask, bell = batch.values()
    assert set(tokens.unique().tolist()) == {3, 4, 5}
    assert (image.shape, image.dtype) == ((400, 3), torch.bfloat16)
    assert -2 <= image.min() < image.max() <= -1
    assert mask.dtype is torch.bool
    assert bell.dtype is torch.float32
    assert bell.min() < 0 < bell.max()


@pytest.mark.parametrize(
    ("names", "by_name", "arguments", "keywords"),
    [("0", False, 1, set()), ("01", False, 2, set()), ("ab", True, 0, {"a", "b"})],
)
def test_described_inputs_go_by_position_or_by_name(
    write: Code, names: str, by_name: bool, arguments: int, keywords: set[str]
) -> None:
    """One alone is the one argument; several are in their order."""
    inputs = tuple(InputSpec(name=name, shape=("batch", 4)) for name in names)
    family, module, batch = fed(write(NESTED, inputs=inputs, by_name=by_name))
    family.forward(module, batch)
    ((args, kwargs),) = module.seen
    assert (len(args), set(kwargs)) == (arguments, keywords)


# ── losses ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("returned", "method", "expected"),
    [
        ("y", "def loss(self, outputs): return outputs.sum()", lambda y: y.sum()),
        ("y", "def loss(self, outputs, batch): return (outputs.sum(1) - batch[:, 0]).mean()", None),
        ("{'loss': y.mean(), 'logits': y}", "", lambda y: y.mean()),
        ("collections.namedtuple('O', 'loss logits')(y.mean(), y)", "", lambda y: y.mean()),
        ("y.mean()", "", lambda y: y.mean()),
        ("y", "", lambda y: y.square().mean()),
        ("[y, {'a': 2 * y}]", "", lambda y: 5 * y.square().mean()),
    ],
)
def test_loss_is_found(write: Code, returned: str, method: str, expected: Any) -> None:
    """The method, else the outputs' own loss, else their mean squares; each reaches every parameter."""
    text = LINEAR.replace("return self.layer(x)", f"y = self.layer(x)\n        return {returned}")
    family, module, batch = fed(write(text + f"    {method}\n"))
    loss = family.loss(module, batch)
    if expected is not None:
        torch.testing.assert_close(loss, expected(module.layer(next(iter(batch.values())))))
    assert loss.shape == ()
    loss.backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_half_precision_casts_only_fp32_inputs(write: Code) -> None:
    """Inputs follow the weights; token numbers must not. A criterion named `loss` is not called."""
    text = LINEAR.replace("self.layer =", "self.loss = nn.CrossEntropyLoss()\n        self.layer =")
    family, module, batch = fed(write(text))
    assert family.loss(module, batch).requires_grad
    example = "(x, y, x.double(), y > 0)"
    _, _, batch = fed(write(NESTED.replace("{example}", example)), torch.bfloat16)
    assert [tensor.dtype for tensor in batch.values()] == [torch.bfloat16, torch.int64, torch.float64, torch.bool]


# ── imports ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_finds_its_neighbours(write: Code) -> None:
    """As when Python runs it: modules beside it first, whatever name the file itself has."""
    write("WIDTH = 4", file="neighbour_of_net.py")
    for name in ("worker.py", "json.py", "net.py"):
        fed(write("import neighbour_of_net\n" + LINEAR, file=name))
    assert sys.modules["worker"].__package__ == "worker"


def test_relative_imports_work_in_a_package(write: Code, tmp_path: Path) -> None:
    """By file and by module name alike, over several levels."""
    write("", file="mypkg_of_tests/__init__.py")
    write("", file="mypkg_of_tests/deep/__init__.py")
    write("def head(width): return nn.Linear(width, 2)", file="mypkg_of_tests/layers.py")
    net = LINEAR.replace("nn.Linear(width, 2)", "head(width)") + "def build(width=4): return Net(width)"
    fed(write("from ..layers import head\n" + net, file="mypkg_of_tests/deep/net.py"))
    by_name = OwnModel(target="mypkg_of_tests.deep.net:build", pythonpath=(str(tmp_path),), allowed=True)
    _, module, _ = fed(described(by_name))
    assert type(module).__module__ == "mypkg_of_tests.deep.net"


def test_functions_beside_a_factory_are_hooks_too(write: Code) -> None:
    """A function that makes a model has no methods for them. It is called with args and config."""
    text = """
    def build(width, *, out):
        return nn.Linear(width, out)
    def get_example_inputs(batch_size):
        return torch.randn(batch_size, 6)
    def loss(outputs):
        return outputs.sum()
    """
    family, module, batch = fed(write(text, name="build", arguments="[6]", config='{"out": 5}'))
    assert family.forward(module, batch).shape == (3, 5)
    torch.testing.assert_close(family.loss(module, batch), module(batch["0"]).sum())


def test_a_dotted_name_is_followed_to_its_module() -> None:
    """`class: torchvision.models.resnet18` and `class: transformers.BertModel`, without an --allow-code."""
    images = (InputSpec(name="0", shape=("batch", 3, 32, 32)),)
    family, module, batch = fed(described(OwnModel(target="torchvision.models.resnet18"), images))
    assert family.forward(module, batch).shape == (3, 1000)
    tiny = {"vocab_size": 40, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    own = OwnModel(target="transformers.BertModel", config=msgspec.json.encode(tiny).decode(), by_name=True)
    tokens = (InputSpec(name="input_ids", shape=("batch", 300), dtype="int64"),)
    family, module, batch = fed(described(own, tokens))
    assert (module.config.hidden_size, int(batch["0"].max())) == (8, 39)
    loss = family.loss(module, batch)
    loss.backward()
    assert module.pooler.dense.weight.grad is not None


SLOW_CLOCKS = """
import time
import torch

honest = {name: getattr(time, name) for name in ("perf_counter_ns", "perf_counter", "monotonic_ns")}
for name, clock in honest.items():
    setattr(time, name, lambda clock=clock: type(clock())(clock() / 4))


class Net(torch.nn.Module):
    def forward(self, x):
        end = honest["perf_counter"]() + 0.02
        while honest["perf_counter"]() < end:
            pass
        return x

    def get_example_inputs(self, batch_size):
        return torch.ones(batch_size, 2)
"""


def test_a_model_cannot_slow_the_clock_that_measures_it(
    write: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its passes of 20 ms stay as long, and its blocks too, though it quarters the clocks of the module time."""
    for name in ("perf_counter_ns", "perf_counter", "monotonic_ns"):
        monkeypatch.setattr(time, name, getattr(time, name))  # is put back in the end
    result = run_here(assignment(write(SLOW_CLOCKS), Workload.INFERENCE, tmp_path))
    assert min(result.times_ms("forward")) >= 20
    assert sum(one.end_ns - one.start_ns for one in result.blocks) / 1e6 >= sum(result.times_ms("forward"))
