"""What cells are called: no two alike, and no longer than that needs."""

from msgspec.structs import replace

from orchestrator.figures import keys
from orchestrator.figures.keys import CellKey
from protocol.cell import Workload

KEY = CellKey(
    phase=Workload.TRAINING,
    model_name="resnet50",
    precision="bf16",
    mode="loaded",
    compile_mode="eager",
    input_size=224,
    memory_format="channels_last",
    new_tokens=None,
    batch_size=64,
)


def test_a_cell_alone_has_short_words() -> None:
    """Neither mode nor size, where nothing else has its words."""
    other = replace(KEY, model_name="vit-base", mode="solo")
    assert keys.names([KEY, other]) == {KEY: "resnet50 training bf16 b64", other: "vit-base training bf16 b64"}


def test_what_shares_its_words_is_told_apart_by_what_differs() -> None:
    """Mode, size, layout, tokens and compile mode: those that differ, and no other; the same cell has one name."""
    solo = replace(KEY, mode="solo")
    assert list(keys.names([KEY, solo, KEY]).values()) == [
        "resnet50 training bf16 b64 loaded",
        "resnet50 training bf16 b64 solo",
    ]
    for change, word in (
        ({"input_size": 512}, "input 512"),
        ({"memory_format": "contiguous"}, "contiguous"),
        ({"new_tokens": 32}, "32 tokens"),
        ({"compile_mode": "default"}, "default"),
    ):
        other = replace(KEY, **change)
        assert keys.names([KEY, other])[other] == f"resnet50 training bf16 b64 {word}"
