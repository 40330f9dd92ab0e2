"""The orchestrator's end of the zygote, where no zygote can be started."""

from pathlib import Path

import pytest

from orchestrator.engine.launches.zygote_client import ZygoteClient, ZygoteError


def test_a_zygote_that_cannot_be_started_is_an_error_that_ends_the_run_in_order(tmp_path: Path) -> None:
    """Its log cannot be opened, as on a full or unmounted disk."""
    with pytest.raises(ZygoteError):
        ZygoteClient((), tmp_path / "gone" / "zygote.log", 1.0, {}).start(0.0)
