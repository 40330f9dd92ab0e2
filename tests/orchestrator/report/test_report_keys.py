"""Names of cells: distinct, and no longer than needed."""

import pytest
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


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"model_name": "vit-base", "mode": "solo"}, ("", None)),
        ({"mode": "solo"}, (" loaded", " solo")),
        ({"input_size": 512}, (" input 224", " input 512")),
        ({"memory_format": "contiguous"}, (" channels_last", " contiguous")),
        ({"new_tokens": 32}, ("", " 32 tokens")),
        ({"compile_mode": "default"}, (" eager", " default")),
    ],
)
def test_cells_are_named_by_what_differs(change: dict[str, object], names: tuple[str, str | None]) -> None:
    """Mode, size, layout, tokens and compile mode only if two cells share their words."""
    other = replace(KEY, **change)
    words = "resnet50 training bf16 b64"
    expected = "vit-base training bf16 b64" if names[1] is None else f"{words}{names[1]}"
    assert keys.names([KEY, other, KEY]) == {KEY: f"{words}{names[0]}", other: expected}
