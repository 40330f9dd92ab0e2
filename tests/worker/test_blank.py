"""Models whose weights are read from a file: nothing is drawn for them, and they are those of the file all the same."""

from pathlib import Path

import msgspec
import pytest
import torch

from protocol.cell import ModelSpec, Precision, Workload
from protocol.own import OwnModel
from tests.fakes.assignments import (
    AUTOENCODER,
    FAMILIES,
    GPT2,
    LSTM,
    ROOT,
    SHORT,
    STYLEGAN2,
    VIT,
    assignment,
    run_here,
)
from worker.blank import Blank
from worker.models import registry
from worker.workloads import load

CPU = torch.device("cpu")
SPECS = [one for one in FAMILIES if one not in (GPT2, VIT, AUTOENCODER)]
"""Not tested: two that build as Qwen2 and VAE do, and one that takes seconds."""
OWN = OwnModel(target=f"{ROOT}/docs/examples/own_model.py:TwoTowers", allowed=True)


def watch(monkeypatch: pytest.MonkeyPatch, model: ModelSpec) -> list[tuple[torch.device, torch.nn.Module]]:
    built: list[tuple[torch.device, torch.nn.Module]] = []
    family = registry.family(model)

    class Watched:
        def build(self, spec: ModelSpec, device: torch.device, size: int | None) -> torch.nn.Module:
            built.append((device, family.build(spec, device, size)))
            return built[-1][1]

    monkeypatch.setattr(load.registry, "family", lambda _: Watched())
    return built


@pytest.mark.parametrize("model", SPECS, ids=lambda spec: spec.name)
def test_loaded_model_equals_the_saved_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: ModelSpec) -> None:
    """Every parameter and every buffer, those included that no file holds."""
    built = watch(monkeypatch, model)
    run_here(assignment(model, Workload.LOAD, tmp_path))
    (_, made), *_, (_, loaded) = built
    for kept in (torch.nn.Module.named_parameters, torch.nn.Module.named_buffers):
        wanted, found = dict(kept(made)), dict(kept(loaded))
        assert wanted.keys() == found.keys()
        assert [name for name in wanted if not torch.equal(wanted[name], found[name])] == []
    assert all(bool(parameter.isfinite().all()) for parameter in loaded.parameters())


@pytest.mark.parametrize("model", [one for one in SPECS if one != STYLEGAN2], ids=lambda spec: spec.name)
def test_no_random_number_is_drawn_for_a_model_that_is_loaded(model: ModelSpec) -> None:
    """Neither by layers nor by a library's own initialisation: the generator of random numbers stands still."""
    build, size = registry.family(model).build, model.sizes.default if model.sizes else None
    before = torch.get_rng_state()
    with Blank():
        build(model, CPU, size)
    assert torch.equal(before, torch.get_rng_state())
    build(model, CPU, size)
    assert not torch.equal(before, torch.get_rng_state()), "it draws where weights are wanted"


@pytest.mark.parametrize(
    ("model", "draws"),
    [(LSTM, False), (msgspec.structs.replace(LSTM, name="own", family="own", sizes=None, inputs=(), own=OWN), True)],
    ids=lambda value: getattr(value, "name", value),
)
def test_only_code_of_a_user_draws_weights_while_loading(tmp_path: Path, model: ModelSpec, draws: bool) -> None:
    """A user's code may look at what it has drawn; other models are only read from their file."""
    loading = load._Loading(registry.family(model), assignment(model, Workload.LOAD, tmp_path), CPU)
    before = torch.get_rng_state()
    loading.instantiate()
    assert torch.equal(before, torch.get_rng_state()) is not draws


def test_blank_fills_buffers_and_no_parameter() -> None:
    """A random buffer that is not kept is what the model says; transformers 4 fills `parameter.data`."""

    class Odd(torch.nn.Module):
        """Fills one of each."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(3))
            self.weight.data.normal_()
            self.register_buffer("noise", torch.zeros(3).normal_(), persistent=False)
            self.register_buffer("ones", torch.nn.init.ones_(torch.empty(3)))

    with Blank():
        odd = Odd()
    assert odd.get_buffer("noise").count_nonzero() == 3
    assert torch.equal(odd.get_buffer("ones"), torch.ones(3))
    assert odd.get_parameter("weight").count_nonzero() == 0
    own = torch.nn.Parameter(torch.zeros(3))
    with Blank():
        assert own.normal_() is own
    assert own.count_nonzero() == 0


def test_weights_file_is_made_of_a_model_drawn_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes seconds on a CPU; what is loaded is built on the host."""
    built = watch(monkeypatch, LSTM)
    monkeypatch.setattr(load, "save_model", lambda _, path: Path(path).write_bytes(b"weights"))
    monkeypatch.setattr(torch.nn.Module, "cpu", lambda module: module)  # a meta device has no numbers to move
    meta, assign = torch.device("meta"), assignment(LSTM, Workload.LOAD, tmp_path)
    loading = load._Loading(load.registry.family(LSTM), assign, meta)
    loading.make_file()
    loading.instantiate()
    assert [place for place, _ in built] == [meta, CPU]


def test_profile_that_gives_up_repeats_a_long_load_once(tmp_path: Path) -> None:
    """A profile without `give_up` repeats it three times, however long it takes."""
    short = msgspec.structs.replace(SHORT, min_s=1e-6, max_s=1e-6)
    counts = [
        len(run_here(assignment(LSTM, Workload.LOAD, tmp_path, measurement=asked, precision=Precision.BF16)).blocks)
        for asked in (short, msgspec.structs.replace(short, give_up=True))
    ]
    assert counts == [3, 1]
