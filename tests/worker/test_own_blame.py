"""Models of the user's own that go wrong: which cannot do what, why, where, and what to do about it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.cell import InputSpec, ModelSpec, Workload
from protocol.failure import Category, Phase
from protocol.own import OwnModel
from tests.fakes.assignments import assignment, run_here
from tests.fakes.own import LINEAR, Code, code, described, fed
from worker import classify
from worker.errors import ModelCodeError


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Code]:
    """Writes a Python file and describes a model in it. What is imported is forgotten with the test."""
    with code(tmp_path) as written:
        yield written


def blamed(spec: ModelSpec, tmp_path: Path, workload: Workload = Workload.TRAINING) -> ModelCodeError:
    """What goes wrong when the model is trained."""
    with pytest.raises(ModelCodeError) as caught:
        run_here(assignment(spec, workload, tmp_path))
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class Net", "raise KeyError('x')\nclass Net", r"net\.py:Net cannot be imported: KeyError: 'x' \(.*line 4\)"),
        ("class Net", "import sys; sys.exit(3)\nclass Net", "cannot be imported: SystemExit: 3"),
        ("class Net", "import nothing_like_this\nclass Net", r"cannot be imported: ModuleNotFoundError.*--pythonpath"),
        ("width=4", "width", r"cannot be built: TypeError: .*'width'.*args and config in a file of --models-file"),
        ("super", "print(1 / 0); super", r"cannot be built: ZeroDivisionError: division by zero \(.*net\.py, line 6\)"),
        ("self.layer(x)", "self.layer(x[:, :3])", r"cannot be run: RuntimeError: .*\(.*net\.py, line 9\)"),
        ("forward(self, x)", "forward(self)", r"cannot be run: TypeError: .*A tuple of inputs is handed over by"),
        ("torch.randn(batch_size, 4)", "batch_size.foo", "cannot make its inputs: AttributeError"),
        ("self, batch_size", "self", "cannot make its inputs: TypeError: .*is called with the batch size"),
    ],
)
def test_what_the_users_code_raises_is_told_with_its_place(
    write: Code, tmp_path: Path, old: str, new: str, message: str
) -> None:
    """One line says which model cannot do what, why, and where; the traceback begins in the user's file."""
    error = blamed(write(LINEAR.replace(old, new)), tmp_path)
    assert error.__cause__ is not None
    with pytest.raises(ModelCodeError, match=message):
        raise error
    failure = classify.failure(error, Phase.BUILD)
    assert failure.traceback is not None
    lines = failure.traceback.splitlines()
    place = next((line for line in lines if line.startswith("  File")), "")
    assert str(tmp_path) in place or isinstance(error.__cause__, TypeError)
    assert lines.index(f"{type(error.__cause__).__name__}: {error.__cause__}") < len(lines) - 1


METHODS = {
    "def loss(self, outputs): return 3.0": "loss of net.py:Net returned a float; it must return a tensor with one",
    "def loss(self, outputs): return outputs.detach().sum()": r"a tensor of shape \(\) without a gradient",
    "def loss(self, outputs): raise OSError('no labels')": "net.py:Net cannot be trained: OSError: no labels",
    "def train_step(self, batch): return self(batch).mean()": "changed no parameter in 3 steps",
    "def train_step(self, batch): return None": r"train_step of net.py:Net returned nothing \(None\); it must",
    "def samples(self, batch): return 0.5": "samples of net.py:Net returned 0.5, expected a whole number above 0",
}


@pytest.mark.parametrize("method", METHODS)
def test_methods_that_do_not_do_their_part_are_named(write: Code, tmp_path: Path, method: str) -> None:
    """A number that means something else than its name is worse than none."""
    with pytest.raises(ModelCodeError, match=METHODS[method]):
        raise blamed(write(LINEAR + f"    {method}\n"), tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Net = 3", "net.py:Net is an int; name a class or a function that makes a model"),
        ("Net = nn.Linear(4, 2)", "net.py:Net is a Linear; name a class or a function that makes a model"),
        ("def Net(): return {}", "net.py:Net made a dict; it must make a torch.nn.Module"),
        (
            "class Net(nn.Linear):\n    def __init__(self): super().__init__(1, 1)",
            "nothing says what net.py:Net is fed",
        ),
        (LINEAR.replace("torch.randn(batch_size, 4)", "[7] * batch_size"), "of net.py:Net returned no tensor"),
        (
            LINEAR.replace("(batch_size, 4)", "(32, 4)"),
            "get_example_inputs of net.py:Net does not follow the batch size.*length 2 where 2 is.*"
            r"length 1 where 1 is.*define samples\(batch\)",
        ),
        (
            LINEAR.replace("return self.layer(x)", "return self.layer(x).detach()"),
            "no output of net.py:Net depends on its parameters.*--phases load,inference",
        ),
    ],
)
def test_what_is_no_model_is_told_what_it_lacks(write: Code, tmp_path: Path, text: str, message: str) -> None:
    """The message says what to change."""
    with pytest.raises(ModelCodeError, match=message):
        raise blamed(write(text), tmp_path)


def test_functions_that_could_do_anything_need_permission() -> None:
    """`class: torch.hub.load` in somebody's file would download code and run it."""
    with pytest.raises(ModelCodeError, match=r"torch\.hub\.load is neither a torch\.nn\.Module nor.*--allow-code"):
        fed(described(OwnModel(target="torch.hub.load")))


def test_a_misspelt_key_of_a_configuration_is_refused() -> None:
    """Transformers takes any key without a word, and would measure a model of another size."""
    own = OwnModel(target="transformers.BertModel", config='{"hiden_size": 8}')
    with pytest.raises(ModelCodeError, match="BertConfig has no key 'hiden_size'; did you mean hidden_size"):
        fed(described(own, (InputSpec(name="input_ids", shape=("batch", 3), dtype="int64"),)))


@pytest.mark.parametrize(
    ("error", "category"),
    [("MemoryError()", Category.OUT_OF_MEMORY), ("ImportError('lazy')", Category.IMPORT_ERROR)],
)
def test_the_category_is_that_of_the_users_error(write: Code, tmp_path: Path, error: str, category: Category) -> None:
    """Out of memory in the user's code is answered with a smaller batch like any other."""
    found = blamed(write(LINEAR.replace("return self.layer(x)", f"raise {error}")), tmp_path, Workload.INFERENCE)
    assert classify.failure(found, Phase.WARM_UP).category is category
