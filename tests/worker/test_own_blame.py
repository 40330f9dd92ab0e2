"""Models of the user's own that go wrong: which cannot do what, why, where, and what to do about it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.cell import InputSpec, ModelSpec, Precision, Workload
from protocol.failure import Category, Phase
from protocol.own import OwnModel
from tests.fakes.assignments import assignment, run_here
from tests.fakes.own import LINEAR, Code, code, described, fed
from worker import exception_categories
from worker.errors import ModelCodeError, UnsuitableModelError


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
    failure = exception_categories.failure(error, Phase.BUILD)
    assert failure.traceback is not None
    lines = failure.traceback.splitlines()
    place = next((line for line in lines if line.startswith("  File")), "")
    assert str(tmp_path) in place or isinstance(error.__cause__, TypeError)
    assert lines.index(f"{type(error.__cause__).__name__}: {error.__cause__}") < len(lines) - 1


UNINITIALIZED = {
    "pass": "net.py:Net made a torch.nn.Module that was never initialized.",
    "self.layer = torch.nn.Linear(width, 2)": "cannot be built: AttributeError: cannot assign module before Module",
    "self.apply(print)": "cannot be built: AttributeError: 'Net' object has no attribute '_modules'",
}


@pytest.mark.parametrize("body", UNINITIALIZED)
def test_a_class_that_never_initialized_its_module_is_told_so(write: Code, tmp_path: Path, body: str) -> None:
    """However the omission shows: nothing of that model can be built, and the hint says what is missing."""
    bare = "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, width=4):\n        " + body + "\n"
    error = blamed(write(bare + "    def get_example_inputs(self, batch_size): return None\n"), tmp_path)
    assert str(error).startswith("net.py:Net")
    assert UNINITIALIZED[body] in str(error)
    assert str(error).endswith(". Call super().__init__() first in its __init__.")
    assert exception_categories.failure(error, Phase.BUILD).category is Category.NOT_BUILT


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
        (
            LINEAR.replace("torch.randn(batch_size, 4)", "[7] * batch_size"),
            "get_example_inputs of net.py:Net returned a list in which no tensor was found",
        ),
        (
            LINEAR.replace(
                "torch.randn(batch_size, 4)", "__import__('types').SimpleNamespace(x=torch.ones(batch_size))"
            ),
            "returned a SimpleNamespace in which no tensor was found. Tuples, lists and dicts are looked into",
        ),
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
    assert exception_categories.failure(found, Phase.WARM_UP).category is category


def test_an_error_that_cannot_say_what_it_is_is_named_all_the_same(write: Code, tmp_path: Path) -> None:
    """Its __str__ raises: the launch has failed with the user's error, at the user's line, and not with that one."""
    own = "class Mute(Exception):\n    def __str__(self): raise RuntimeError('no str')\n"
    text = own + LINEAR.replace("return self.layer(x)", "raise Mute")
    error = blamed(write(text), tmp_path, Workload.INFERENCE)
    assert re.search(r"cannot be run: Mute: <its words cannot be read: RuntimeError> \(.*net\.py, line", str(error))
    assert type(error.__cause__).__name__ == "Mute"


BROKEN = {
    "import": ("class Net", "raise KeyError('x')\nclass Net"),
    "build": ("super", "print(1 / 0); super"),
    "no model": ("class Net(nn.Module)", "Net = 3\nclass Other(nn.Module)"),
    "not fed": ("get_example_inputs", "something_else"),
}


@pytest.mark.parametrize("workload", [Workload.LOAD, Workload.INFERENCE, Workload.TRAINING])
@pytest.mark.parametrize("broken", BROKEN)
def test_what_makes_no_model_makes_none_in_any_cell(
    write: Code, tmp_path: Path, workload: Workload, broken: str
) -> None:
    """Every workload says so in the same words, by which the whole model is skipped."""
    with pytest.raises(ModelCodeError) as caught:
        run_here(assignment(write(LINEAR.replace(*BROKEN[broken])), workload, tmp_path))
    assert exception_categories.failure(caught.value, Phase.BUILD).category is Category.NOT_BUILT


COMPLEX = LINEAR.replace("self.layer =", "self.turn = nn.Parameter(torch.ones(2, dtype=torch.complex64)); self.layer =")
VIEWS = LINEAR.replace(
    "self.layer =",
    "base = torch.ones(6); self.a, self.b = nn.Parameter(base[:4]), nn.Parameter(base[2:]); self.layer =",
)
LAZY = LINEAR.replace("nn.Linear(width, 2)", "nn.LazyLinear(2)")
STATE = (
    LINEAR
    + """    def get_extra_state(self):
        return {"epoch": 3}
    def set_extra_state(self, state):
        pass
"""
)
ONCE = "ALIVE = []\n" + LINEAR.replace("super().__init__()", "assert not ALIVE; ALIVE.append(1); super().__init__()")


@pytest.mark.parametrize("text", [VIEWS, LAZY, STATE, ONCE], ids=["views", "lazy", "extra state", "made once"])
def test_what_cannot_be_saved_can_be_run(write: Code, tmp_path: Path, text: str) -> None:
    """Loading alone fails, in words that say what can still be measured; inference works, and so does training."""
    spec = write(text)
    with pytest.raises(
        UnsuitableModelError, match=r"the weights of mine cannot be saved.*--phases inference,training"
    ) as caught:
        run_here(assignment(spec, Workload.LOAD, tmp_path))
    assert exception_categories.failure(caught.value, Phase.BUILD).category is Category.EXCEPTION
    for workload in (Workload.INFERENCE, Workload.TRAINING):
        again = write(text, file=f"{workload}.py")
        assert run_here(assignment(again, workload, tmp_path)).blocks


def test_what_has_no_half_is_loaded_and_run_in_fp32(write: Code, tmp_path: Path) -> None:
    """A complex parameter: the failure is that of the cell, not one by which the whole model would be skipped."""
    spec = write(COMPLEX)
    for workload in (Workload.LOAD, Workload.INFERENCE):
        with pytest.raises(UnsuitableModelError, match=r"no counterpart in bfloat16.*with -p fp32") as caught:
            run_here(assignment(spec, workload, tmp_path, precision=Precision.BF16))
        assert exception_categories.failure(caught.value, Phase.BUILD).category is Category.EXCEPTION
        assert run_here(assignment(spec, workload, tmp_path)).blocks


def test_want_of_memory_or_room_is_told_in_its_own_words(write: Code, tmp_path: Path) -> None:
    """A disk that is full says nothing of the model's weights."""
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        run_here(assignment(write(LINEAR), Workload.LOAD, tmp_path / "file"))


@pytest.mark.parametrize(
    ("returned", "words"),
    [("None", "nothing"), ("{'loss': None}", "nothing"), ("()", "nothing"), ("(y for y in x)", "a generator")],
)
def test_a_forward_that_puts_out_nothing_is_no_result(write: Code, tmp_path: Path, returned: str, words: str) -> None:
    """Millions of items a second of nothing would be the best result of the run."""
    spec = write(LINEAR.replace("return self.layer(x)", f"return {returned}"))
    with pytest.raises(ModelCodeError, match=f"forward of mine returned.*{words}.*train_step"):
        run_here(assignment(spec, Workload.INFERENCE, tmp_path))


def test_a_forward_may_put_out_something_else_than_tensors(write: Code, tmp_path: Path) -> None:
    """Words that were recognised, numbers on the host."""
    spec = write(LINEAR.replace("return self.layer(x)", "return self.layer(x).argmax(-1).tolist()"))
    assert run_here(assignment(spec, Workload.INFERENCE, tmp_path)).blocks
