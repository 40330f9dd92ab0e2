"""The YAML file of a study, and the entries of its grid."""

from pathlib import Path

import pytest

from orchestrator.config import operators
from orchestrator.config.own_code import Search
from orchestrator.errors import ConfigError
from orchestrator.kinds.study import grid
from protocol.cell import DeviceKind, ModelSpec, Precision
from worker.operators.variants import VARIANTS

GOOD = {
    "operations": "[softmax]",
    "sizes": "{r: [8, 16], c: 4}",
    "implementations": "[eager, compiled, jax]",
    "precisions": "[fp32]",
}


def written(folder: Path, **changes: str) -> str:
    (folder / "kernels.py").write_text("def f(x):\n    return x\n")
    (folder / "my.yaml").write_text("".join(f"{key}: {value}\n" for key, value in {**GOOD, **changes}.items()))
    return "./my.yaml"


def entries(word: str, folder: Path, *, allowed: bool = False) -> tuple[ModelSpec, ...]:
    return grid.entries(grid.read(word, folder), Search(folder, (), allowed))


def test_the_seed_of_27_experiments_is_one_study(tmp_path: Path) -> None:
    """Three sizes, three kernels, im2col, Inductor and JAX, and cuDNN beside them."""
    found = [one.operator for one in entries("conv", tmp_path) if one.operator]
    assert len(found) == 27 + 9
    assert {one.implementation for one in found} == {"eager", "im2col", "im2col+compiled", "jax"}
    sizes = {(shape.sizes["h"], shape.sizes["k"]) for one in found for shape in one.shapes[DeviceKind.CUDA]}
    assert sizes == {(side, kernel) for side in (32, 64, 128) for kernel in (3, 5, 7)}


def test_the_study_of_attention_has_every_backend(tmp_path: Path) -> None:
    """From 512 to 16384 tokens, causal or not."""
    found = [one.operator for one in entries("attention", tmp_path) if one.operator]
    assert {one.name for one in found} == {"attention", "attention_causal"}
    assert {one.variant for one in found} == {"math", "flash", "efficient", "cudnn"}
    lengths = sorted({shape.sizes["t"] for one in found for shape in one.shapes[DeviceKind.CPU]})
    assert (lengths[0], lengths[-1]) == (512, 16384)


def test_the_worker_has_every_variant_of_the_catalogue() -> None:
    """The file and the worker name the same ones."""
    named = {(name, variant) for name in operators.load() for variant in operators.variants(name)}
    assert named == VARIANTS.keys()


def test_an_entry_says_what_is_run(tmp_path: Path) -> None:
    """Variant, own code and compilation follow from the implementation."""
    word = written(tmp_path, implementations='[eager, compiled, jax, "kernels.py:f+compiled"]')
    found = entries(word, tmp_path, allowed=True)
    assert len({one.name for one in found}) == 8
    firsts = found[:4]
    assert [one.operator.variant for one in firsts if one.operator] == ["", "", "jax", ""]
    assert [grid.compiles(one.operator.implementation) for one in firsts if one.operator] == [False, True, False, True]
    assert [one.own is not None for one in firsts] == [False, False, False, True]


def test_a_part_of_the_grid(tmp_path: Path) -> None:
    """Implementations of the study, and any sizes."""
    study = grid.read("conv", tmp_path)
    found = grid.narrowed(study, ["jax"], ["h=8,16", "k=3"])
    assert (found.implementations, found.sizes["h"], found.sizes["k"]) == (("jax",), (8, 16), (3,))
    assert found.precisions == (Precision.FP32,)
    for implementations, sizes in ((["eagre"], []), ([], ["z=3"]), ([], ["h=0"]), ([], ["h"]), ([], ["h=3,x"])):
        with pytest.raises(ConfigError):
            grid.narrowed(study, implementations, sizes)


@pytest.mark.parametrize(
    "changes",
    [
        {"operations": "[sofmax]"},
        {"operations": "[]"},
        {"operations": "[softmax, softmax]"},
        {"operations": "[softmax, add]"},
        {"sizes": "{r: 8}"},
        {"sizes": "{r: 8, c: 4, z: 1}"},
        {"sizes": "{r: [], c: 4}"},
        {"sizes": "{r: 0, c: 4}"},
        {"sizes": "{r: [8, 8], c: 4}"},
        {"sizes": f"{{r: {[*range(1, 2001)]}, c: 4}}"},
        {"implementations": "[egaer]"},
        {"implementations": "[flash]"},
        {"implementations": "[jax+compiled]"},
        {"implementations": '["kernels.py:f"]'},
        {"implementations": '["kernels.py:g"]'},
        {"precisions": "[fp8]"},
        {"more": "1"},
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, changes: dict[str, str]) -> None:
    """With the file, before anything runs."""
    word = written(tmp_path, **changes)
    with pytest.raises(ConfigError, match=r"my\.yaml"):
        entries(word, tmp_path)


def test_an_unknown_study_is_named(tmp_path: Path) -> None:
    """With the one that was meant."""
    with pytest.raises(ConfigError, match="conv"):
        grid.read("cnov", tmp_path)
