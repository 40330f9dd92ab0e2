"""Code of the user's own: found without being imported, run only with permission, named on the command line."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator.config import own_code
from orchestrator.config.own_code import Search
from orchestrator.config.run_configuration import StoredRun
from orchestrator.errors import ConfigError
from protocol.exit_codes import ExitCode
from protocol.own import OwnModel
from protocol.paths import RunPaths

Invoke = Callable[..., Result]
Executed = list[tuple[StoredRun, RunPaths]]
BOMB = """
raise SystemExit('it was imported')
import torch
from torch.nn import Module
class Net(Module):
    def get_example_inputs(self, batch_size): ...
def build(): return Net()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file and a package that must not be imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(BOMB, encoding="utf-8")
    (tmp_path / "mypkg").mkdir()
    (tmp_path / "mypkg" / "__init__.py").write_text(BOMB, encoding="utf-8")
    return tmp_path


def found(text: str, here: Path, *pythonpath: Path, allowed: bool = True) -> tuple[str, tuple[str, ...]]:
    """Target and folders of what `text` names."""
    own = Search(here, tuple(map(str, pythonpath)), allowed).locate(text, "-m/--models")
    return own.target, own.pythonpath


@pytest.mark.parametrize(
    ("text", "base", "target"),
    [
        ("net.py:Net", "", "{here}/net.py:Net"),
        ("../net.py:Net", "sub", "{here}/net.py:Net"),
        ("{here}/net.py:Net", "sub", "{here}/net.py:Net"),
        ("star.py:Net", "", "{here}/star.py:Net"),
        ("either.py:Net.inner", "", "{here}/either.py:Net.inner"),
        ("mypkg.sub:build", "", "mypkg.sub:build"),
        ("torchvision.models:resnet18", "", "torchvision.models:resnet18"),
    ],
)
def test_code_is_found_as_python_finds_it(here: Path, text: str, base: str, target: str) -> None:
    """A file from the folder of whoever names it, a package in --pythonpath first. Star imports are believed."""
    (here / "sub").mkdir()
    (here / "star.py").write_text("from mypkg import *\n", encoding="utf-8")
    (here / "either.py").write_text("if True:\n    Net = 1\n", encoding="utf-8")
    assert found(text.format(here=here), here / base, here) == (target.format(here=here), (str(here),))


def test_what_is_installed_needs_no_permission_and_gets_no_folder(here: Path) -> None:
    """A folder that is searched first could put anything in the place of what was trusted."""
    (here / "json.py").write_text(BOMB, encoding="utf-8")
    assert found("transformers.BertModel", here, here, allowed=False) == ("transformers.BertModel", ())


def test_folders_of_the_pythonpath_must_exist(here: Path) -> None:
    """A misspelt folder would otherwise be silently empty."""
    assert own_code.folders(("mypkg", str(here)), here, "--pythonpath") == (f"{here}/mypkg", str(here))
    with pytest.raises(ConfigError, match=f"--pythonpath: {here}/none: "):
        own_code.folders(("none",), here, "--pythonpath")


def test_a_library_is_the_users_where_it_was_not_installed(here: Path) -> None:
    """Such a one may not be imported ahead of launches; one that pip has put into a folder may."""
    (here / "json").mkdir()  # without an __init__.py, and so behind the one of Python
    assert not own_code.in_a_folder_of_the_users("json", (str(here),))
    assert not own_code.in_a_folder_of_the_users("transformers", (str(here),))
    assert not own_code.in_a_folder_of_the_users("nothing", (str(here),))
    assert own_code.in_a_folder_of_the_users("mypkg", (str(here),))
    assert own_code.in_a_folder_of_the_users("net", (str(here),))
    (here / "mypkg-1.0.dist-info").mkdir()
    assert not own_code.in_a_folder_of_the_users("mypkg", (str(here),))


MINE = """
models:
  - name: lstm
    class: net.py:Net
  - name: other
    class: net.py:build
"""


@pytest.fixture
def planned(invoke: Invoke, executed: Executed) -> Callable[..., list[str]]:
    """The names of the models that a command line would measure."""
    Path("net.py").write_text(BOMB, encoding="utf-8")
    Path("mine.yaml").write_text(MINE, encoding="utf-8")

    def names(*words: str) -> list[str]:
        done = invoke("run", "--gpu-ids", "cpu:0", *words)
        assert done.exit_code == ExitCode.INTERNAL, done.output  # the disk that refuses
        return [model.name for model in executed[-1][0].configuration.models]

    return names


def test_own_models_are_named_by_their_code(planned: Callable[..., list[str]], executed: Executed) -> None:
    """Beside those that ship, and called as they were typed."""
    assert planned("-m", "net.py:Net, resnet50", "--allow-code") == ["net.py:Net", "resnet50"]
    own = executed[-1][0].configuration.models[0].own
    assert own is not None
    assert own.target == f"{Path.cwd()}/net.py:Net"
    assert own.allowed


def test_a_models_file_alone_means_its_models(planned: Callable[..., list[str]]) -> None:
    """Without -m only the file's models run. -m selects from all models, and the file wins over equal names."""
    assert planned("--models-file", "mine.yaml", "--allow-code") == ["lstm", "other"]
    assert planned("--models-file", "mine.yaml", "-m", "resnet50,lstm", "--allow-code") == ["resnet50", "lstm"]
    everything = planned("--models-file", "mine.yaml", "-m", "all", "--allow-code")
    assert everything[:2] == ["lstm", "other"]
    assert everything.count("lstm") == 1
    assert "bert-base" in everything


def _joined(text: str) -> str:
    """Without its spaces: a long path is broken where a line ends."""
    return "".join(text.split())


def test_a_mistake_in_a_model_that_was_not_chosen_refuses_nothing(
    invoke: Invoke, planned: Callable[..., list[str]]
) -> None:
    """It is said, once, where the others are measured; whoever names the model is refused, wherever it is named."""
    Path("mine.yaml").write_text(f"{MINE}    typo: 1\n  - name: third\n    class: nothing:build\n", encoding="utf-8")
    given = ("--models-file", "mine.yaml", "--allow-code")
    file = f"{Path.cwd()}/mine.yaml"
    typo = f"{file}, line 7, models[1].typo: "
    assert planned(*given, "-m", "lstm,resnet50") == ["lstm", "resnet50"]
    shown = _joined(invoke("run", "--gpu-ids", "cpu:0", *given, "-m", "lstm", "--dry-run").output)
    for name, mistake in (("other", typo), ("third", f"{file}, line 9, models[2].class:")):
        assert len(re.findall(f"Note:{name}[^:]*:{re.escape(_joined(mistake))}", shown)) == 1
    Path("night.yaml").write_text("models: other\n", encoding="utf-8")
    chosen = (("-m", "lstm,other"), ("-m", "all"), (), ("--config", "night.yaml", "-m", "lstm"))
    for words in chosen:
        refused = invoke("run", "--gpu-ids", "cpu:0", *given, *words)
        assert (refused.exit_code, typo in refused.output) == (2, True)


def test_code_of_a_model_that_was_not_chosen_needs_no_permission(
    invoke: Invoke, planned: Callable[..., list[str]]
) -> None:
    """It is not run, and there is nothing to say."""
    assert planned("--models-file", "mine.yaml", "-m", "resnet50") == ["resnet50"]
    shown = invoke("run", "--gpu-ids", "cpu:0", "--models-file", "mine.yaml", "-m", "resnet50", "--dry-run")
    assert "not measured" not in " ".join(shown.output.split())


def test_a_configuration_file_can_name_them_and_cannot_allow_them(
    invoke: Invoke, planned: Callable[..., list[str]]
) -> None:
    """models_file and pythonpath are keys; the permission is given on the command line alone."""
    Path("night.yaml").write_text("models_file: mine.yaml\npythonpath: [.]\nmodels: other\n", encoding="utf-8")
    assert planned("--config", "night.yaml", "--allow-code") == ["other"]
    for key, where in (("models: other", "mine.yaml, line 6, models[1].class: "), ("allow_code: true", "allow_code: ")):
        Path("night.yaml").write_text(f"models_file: mine.yaml\n{key}\npythonpath: [.]\n", encoding="utf-8")
        refused = invoke("run", "--gpu-ids", "cpu:0", "--config", "night.yaml")
        assert (refused.exit_code, where in refused.output) == (ExitCode.USAGE, True)


def test_what_is_imported_ahead_is_never_a_library_of_the_users(
    planned: Callable[..., list[str]], executed: Executed
) -> None:
    """Also for models that ship: the zygote imports the installed torchvision, or none."""
    torchvision = Path("library", "torchvision")
    torchvision.mkdir(parents=True)
    (torchvision / "__init__.py").write_text(BOMB, encoding="utf-8")

    def ahead(*words: str) -> list[tuple[str, ...]]:
        planned("-m", "resnet50,bert-base,lstm,net.py:Net", "--allow-code", *words)
        return [model.preload for model in executed[-1][0].configuration.models]

    usual = ("torchvision.models.resnet",), ("worker.models.huggingface",), (), ()
    assert ahead() == [*usual]
    assert ahead("--pythonpath", "library") == [(), (), (), ()]


IN_A_FILE = """
import torch
from torch import nn
def product(a, b): ...
def made(width=8): return Wide(width, depth=1)
def product_of_defaults(a=1, b=2):
    def inner(): return a
    print(inner() * b)
def number(): return 3
class Plain: ...
class Counts(dict): ...
class Creates:
    def __new__(cls): return made()
class Wide(nn.Module):
    def __init__(self, width, *, depth): ...
class Blind(nn.Module):
    def forward(self, x): ...
class Inherits(Wide): ...
@wrapped
class Decorated(nn.Module):
    def __init__(self, width): ...
CONSTANT = 3
"""


NO_MODULES = "product_of_defaults", "number", "Plain", "Counts", "CONSTANT"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("product", ".* a and b"),
        ("Wide", ".* width and depth"),
        ("Blind", ".* get_example_inputs"),
        *((name, "makes no torch.nn.Module") for name in NO_MODULES),
        *((name, "") for name in ("made", "Creates", "Inherits", "Decorated")),
    ],
)
def test_what_certainly_cannot_work_is_refused_before_it_is_run(tmp_path: Path, name: str, message: str) -> None:
    """By the text of its file, and so also by --dry-run; what only running it would tell is let pass."""
    path = tmp_path / "ops.py"
    path.write_text(IN_A_FILE, encoding="utf-8")
    own = OwnModel(target=f"{path}:{name}", pythonpath=(), allowed=True)
    with pytest.raises(ConfigError, match=f"^-m: .*:{name} {message}") if message else nullcontext():
        own_code.require_buildable(own, "-m")
    path.write_text(f"{IN_A_FILE}\ndef get_example_inputs(batch_size): ...\n", encoding="utf-8")
    with pytest.raises(ConfigError) if name in {"product", "Wide", *NO_MODULES} else nullcontext():
        own_code.require_buildable(own, "-m")


@pytest.mark.parametrize(
    "text",
    [
        "from mylib import Module\nclass Net(Module): ...",
        "try:\n    from mylib import Base as Net\nexcept ImportError:\n    class Net: ...",
        "from functools import partial\ndef Net(width): ...\nNet = partial(Net, 8)",
        "from mylib import Base\nglobals()['Net'] = type('Net', (Base,), {})",
        "from mylib import add_inputs\nfrom torch import nn\nclass Net(nn.Module): ...\nadd_inputs(Net)",
    ],
)
def test_what_only_running_would_tell_is_let_pass(tmp_path: Path, text: str) -> None:
    """A base of the user's own, a name that is bound twice, and code that may change the class."""
    path = tmp_path / "ops.py"
    path.write_text(text, encoding="utf-8")
    own_code.require_buildable(OwnModel(target=f"{path}:Net", pythonpath=(), allowed=True), "-m")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("import os, nothing.sub", "line 1: .*'nothing'"),
        ("import torch.nn\nfrom nothing import *", "line 2: .*'nothing'"),
        ("import sys, time, mypkg.sub", ""),
        ("from . import nothing", ""),
        ("try:\n    import nothing\nexcept ImportError:\n    nothing = None", ""),
        ("import sys\nsys.path.append('..')\nimport nothing", ""),
        ("from sys import path\npath += ['..']\nimport nothing", ""),
        ("import site\nsite.addsitedir('..')\nimport nothing", ""),
        ("import mypkg\nimport nothing", ""),
    ],
)
def test_an_import_that_fails_is_refused_before_it_is_run(here: Path, text: str, missing: str) -> None:
    """Unless the file, or code of the user's that it imports first, may extend the search path."""
    (here / "deep.py").write_text(f"{text}\nclass Net: ...\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"^-m/--models: {here}/deep.py, {missing}") if missing else nullcontext():
        found("deep.py:Net", here)
