"""Errors in models of the user's own: which model, what it cannot do, why, where, and what to do."""

import re
from pathlib import Path

import pytest

from protocol.cell import InputSpec, ModelSpec, Workload
from protocol.failure import Category, Phase
from protocol.own import OwnModel
from tests.fakes.assignments import assignment, run_here
from tests.fakes.own import LINEAR, Code, described, fed
from worker import exception_categories
from worker.errors import ModelCodeError, UnsuitableModelError


def error_of(spec: ModelSpec, tmp_path: Path, workload: Workload = Workload.TRAINING) -> ModelCodeError:
    with pytest.raises(ModelCodeError) as caught:
        run_here(assignment(spec, workload, tmp_path))
    return caught.value


def made(inputs: str) -> str:
    return LINEAR.replace("torch.randn(batch_size, 4)", inputs)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class Net", "raise KeyError('x')\nclass Net", r"net\.py:Net .*imported: KeyError: 'x' \(.*line 4\)"),
        ("class Net", "import sys; sys.exit(3)\nclass Net", "cannot be imported: SystemExit: 3"),
        ("class Net", "import nothing_like_this\nclass Net", r"cannot be imported: ModuleNotFoundError.*--pythonpath"),
        ("width=4", "width", r"built: TypeError: .*'width'.*args and config .*--models-file"),
        ("super", "print(1 / 0); super", r"built: ZeroDivisionError: .* \(.*net\.py, line 6\)"),
        ("self.layer(x)", "self.layer(x[:, :3])", r"cannot be run: RuntimeError: .*\(.*net\.py, line 9\)"),
        ("forward(self, x)", "forward(self)", r"cannot be run: TypeError: .*A tuple of inputs"),
        ("torch.randn(batch_size, 4)", "batch_size.foo", "its inputs: AttributeError"),
        ("self, batch_size", "self", "its inputs: TypeError: .*the batch size"),
    ],
)
def test_error_of_the_users_code_has_its_place(write: Code, tmp_path: Path, old: str, new: str, message: str) -> None:
    """The message has model, cause, and line; the traceback begins in the user's file."""
    error = error_of(write(LINEAR.replace(old, new)), tmp_path)
    assert error.__cause__ is not None
    assert re.search(message, str(error))
    lines = str(exception_categories.failure(error, Phase.BUILD).traceback).splitlines()
    place = next((line for line in lines if line.startswith("  File")), "")
    assert str(tmp_path) in place or isinstance(error.__cause__, TypeError)
    assert lines.index(f"{type(error.__cause__).__name__}: {error.__cause__}") < len(lines) - 1


@pytest.mark.parametrize("body", ["pass", "self.layer = torch.nn.Linear(width, 2)", "self.apply(print)"])
def test_missing_call_of_init_has_a_hint(write: Code, tmp_path: Path, body: str) -> None:
    """However the omission shows, the model cannot be built and the hint says what is missing."""
    bare = "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, width=4):\n        " + body + "\n"
    error = error_of(write(bare + "    def get_example_inputs(self, batch_size): return None\n"), tmp_path)
    assert str(error).startswith("net.py:Net")
    assert "super().__init__()" in str(error)
    assert exception_categories.failure(error, Phase.BUILD).category is Category.NOT_BUILT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LINEAR + "    def loss(self, outputs): return 3.0\n", "loss of net.py:Net.*a float.*tensor"),
        (LINEAR + "    def loss(self, outputs): return outputs.detach().sum()\n", r"shape \(\) without a gradient"),
        (LINEAR + "    def loss(self, outputs): raise OSError('no labels')\n", "net.py:Net.*OSError: no labels"),
        (LINEAR + "    def train_step(self, batch): return self(batch).mean()\n", "no parameter .* 3 steps"),
        (LINEAR + "    def train_step(self, batch): return None\n", "train_step of net.py:Net.*None"),
        (LINEAR + "    def samples(self, batch): return 0.5\n", "samples of net.py:Net.*0.5.*above 0"),
        ("Net = 3", "net.py:Net .*an int"),
        ("Net = nn.Linear(4, 2)", "net.py:Net is a Linear"),
        ("def Net(): return {}", r"net.py:Net made a dict.*torch\.nn\.Module"),
        (
            "class Net(nn.Linear):\n    def __init__(self): super().__init__(1, 1)",
            r"net.py:Net .*get_example_inputs\(batch_size\)",
        ),
        (made("[7] * batch_size"), "get_example_inputs of net.py:Net .*a list"),
        (made("__import__('types').SimpleNamespace(x=torch.ones(batch_size))"), "a SimpleNamespace"),
        (
            made("torch.randn(32, 4)"),
            r"get_example_inputs of net.py:Net.*batch size.*length 2 .* 2 .*length 1 .* 1\. .*samples\(batch\)",
        ),
        (
            LINEAR.replace("return self.layer(x)", "return self.layer(x).detach()"),
            "net.py:Net.*parameters.*--phases load,inference",
        ),
    ],
)
def test_error_names_what_the_model_lacks(write: Code, tmp_path: Path, text: str, message: str) -> None:
    """Methods that do not do their part, and objects that are no model or have no inputs."""
    assert re.search(message, str(error_of(write(text), tmp_path)))


def test_descriptions_are_checked_before_use() -> None:
    """torch.hub.load would run downloaded code; transformers would ignore a misspelt key."""
    with pytest.raises(ModelCodeError, match=r"torch\.hub\.load.*--allow-code"):
        fed(described(OwnModel(target="torch.hub.load")))
    own = OwnModel(target="transformers.BertModel", config='{"hiden_size": 8}')
    with pytest.raises(ModelCodeError, match=r"BertConfig.*'hiden_size'.*hidden_size"):
        fed(described(own, (InputSpec(name="input_ids", shape=("batch", 3), dtype="int64"),)))


@pytest.mark.parametrize(
    ("error", "category"),
    [("MemoryError()", Category.OUT_OF_MEMORY), ("ImportError('lazy')", Category.IMPORT_ERROR)],
)
def test_the_category_is_that_of_the_users_error(write: Code, tmp_path: Path, error: str, category: Category) -> None:
    """Out of memory in the user's code is answered with a smaller batch like any other."""
    found = error_of(write(LINEAR.replace("return self.layer(x)", f"raise {error}")), tmp_path, Workload.INFERENCE)
    assert exception_categories.failure(found, Phase.WARM_UP).category is category


def test_error_whose_str_raises_is_reported(write: Code, tmp_path: Path) -> None:
    """The failure is the user's error, at the user's line, and not the one of its `__str__`."""
    own = "class Mute(Exception):\n    def __str__(self): raise RuntimeError('no str')\n"
    text = own + LINEAR.replace("return self.layer(x)", "raise Mute")
    error = error_of(write(text), tmp_path, Workload.INFERENCE)
    assert re.search(r"Mute: .*RuntimeError.*net\.py, line", str(error))
    assert type(error.__cause__).__name__ == "Mute"


BROKEN = {
    "import": ("class Net", "raise KeyError('x')\nclass Net"),
    "build": ("super", "print(1 / 0); super"),
    "no model": ("class Net(nn.Module)", "Net = 3\nclass Other(nn.Module)"),
    "not fed": ("get_example_inputs", "something_else"),
}


@pytest.mark.parametrize(
    ("broken", "workload"),
    [
        ("import", Workload.LOAD),
        ("build", Workload.INFERENCE),
        ("no model", Workload.LOAD),
        ("no model", Workload.TRAINING),
        ("not fed", Workload.INFERENCE),
        ("not fed", Workload.TRAINING),
    ],
)
def test_model_that_cannot_be_built_is_skipped(write: Code, tmp_path: Path, workload: Workload, broken: str) -> None:
    """Every workload fails with the category by which the whole model is skipped."""
    error = error_of(write(LINEAR.replace(*BROKEN[broken])), tmp_path, workload)
    assert exception_categories.failure(error, Phase.BUILD).category is Category.NOT_BUILT


VIEWS = LINEAR.replace(
    "self.layer =",
    "base = torch.ones(6); self.a, self.b = nn.Parameter(base[:4]), nn.Parameter(base[2:]); self.layer =",
)
LAZY = LINEAR.replace("nn.Linear(width, 2)", "nn.LazyLinear(2)")
STATE = LINEAR + "    def get_extra_state(self): return {'epoch': 3}\n    def set_extra_state(self, state): pass\n"
ONCE = "ALIVE = []\n" + LINEAR.replace("super().__init__()", "assert not ALIVE; ALIVE.append(1); super().__init__()")


@pytest.mark.parametrize("text", [VIEWS, LAZY, STATE, ONCE], ids=["views", "lazy", "extra state", "made once"])
def test_model_that_cannot_be_saved_can_be_run(write: Code, tmp_path: Path, text: str) -> None:
    """Loading alone fails, with a hint at what can be measured: inference and training."""
    with pytest.raises(UnsuitableModelError, match="--phases inference,training") as caught:
        run_here(assignment(write(text), Workload.LOAD, tmp_path))
    assert exception_categories.failure(caught.value, Phase.BUILD).category is Category.EXCEPTION
    for workload in (Workload.INFERENCE, Workload.TRAINING):
        again = write(text, file=f"{workload}.py")
        assert run_here(assignment(again, workload, tmp_path)).blocks


def test_error_of_the_disk_is_not_one_of_the_model(write: Code, tmp_path: Path) -> None:
    """A full disk is unrelated to the model's weights."""
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        run_here(assignment(write(LINEAR), Workload.LOAD, tmp_path / "file"))


@pytest.mark.parametrize(
    ("returned", "words"),
    [("None", "nothing"), ("{'loss': None}", "nothing"), ("()", "nothing"), ("(y for y in x)", "a generator")],
)
def test_forward_without_outputs_fails(write: Code, tmp_path: Path, returned: str, words: str) -> None:
    """Millions of items a second of nothing would be the best result of the run."""
    spec = write(LINEAR.replace("return self.layer(x)", f"return {returned}"))
    with pytest.raises(ModelCodeError, match=f"forward of mine.*{words}.*train_step"):
        run_here(assignment(spec, Workload.INFERENCE, tmp_path))


def test_forward_may_return_no_tensors(write: Code, tmp_path: Path) -> None:
    """Recognised words, numbers on the host."""
    spec = write(LINEAR.replace("return self.layer(x)", "return self.layer(x).argmax(-1).tolist()"))
    assert run_here(assignment(spec, Workload.INFERENCE, tmp_path)).blocks
