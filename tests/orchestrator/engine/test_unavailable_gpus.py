"""GPUs that wait until others have left, until their memory is back, or until they are cool; and never for ever."""

import pytest

from orchestrator.engine.unavailable_gpus import Waiting
from orchestrator.state import blocked_gpus
from orchestrator.state.blocked_gpus import PATIENCE_S, BlockOutcome, block, judge
from protocol.messages import Sample


def sample(used_bytes: int | None = 0, temperature_c: int = 30) -> Sample:
    """A reading."""
    return Sample(at_ns=1, memory_used_bytes=used_bytes, temperature_c=temperature_c, reasons=0)


@pytest.mark.parametrize(
    ("foreign", "used_bytes", "now", "verdict"),
    [
        ("", 100, 1.0, BlockOutcome.FREE),
        ("", 101, 1.0, BlockOutcome.WAITS),
        ("PID 7", 0, 1.0, BlockOutcome.WAITS),
        ("", None, 1.0, BlockOutcome.FREE),
        ("PID 7", 0, PATIENCE_S, BlockOutcome.GIVEN_UP),
        ("", 101, PATIENCE_S, BlockOutcome.GIVEN_UP),
        ("", 100, PATIENCE_S, BlockOutcome.FREE),
    ],
)
def test_a_gpu_waits_for_people_and_for_memory(
    foreign: str, used_bytes: int | None, now: float, verdict: BlockOutcome
) -> None:
    """Free when nobody is there and memory is back, as far as it can be read; given up after ten minutes."""
    assert judge(block(100, 0.0), foreign, sample(used_bytes), now) is verdict
    assert judge(block(None, 0.0), foreign, sample(used_bytes), 1.0) is (
        BlockOutcome.WAITS if foreign else BlockOutcome.FREE
    )


def test_who_waits_for_two_things_waits_for_both() -> None:
    """A hot GPU that somebody uses is used again when it is cool and left."""
    waiting, foreign = Waiting(), {"GPU-0": "PID 7"}
    waiting.rest("GPU-0", 90, 0.0, now_ns=0)
    waiting.block("GPU-0", 100, 0.0)

    def released(now: float, temperature_c: int, *, stopping: bool = False) -> list[tuple[str, str]]:
        samples = {"GPU-0": sample(0, temperature_c)}
        return list(waiting.released(now, samples, lambda uuid: foreign.get(uuid, ""), stopping=stopping))

    assert released(1.0, 90) == []
    assert released(2.0, 70) == []
    assert "GPU-0" in waiting
    foreign.clear()
    assert released(3.0, 70) == [("GPU-0", "")]
    assert not waiting


def test_what_was_waited_for_in_vain_is_given_up_and_a_stop_waits_for_nothing() -> None:
    """After ten minutes with the reason; at once, without one, when the run is to end."""
    waiting = Waiting()
    waiting.block("GPU-0", 100, 0.0)
    waiting.block("GPU-1", 100, 0.0)
    assert list(waiting.released(1.0, {}, lambda _: "PID 7 python3", stopping=False)) == []
    given_up = dict(waiting.released(PATIENCE_S, {}, lambda _: "PID 7 python3", stopping=False))
    assert given_up == dict.fromkeys(("GPU-0", "GPU-1"), blocked_gpus.given_up("PID 7 python3"))
    assert given_up["GPU-0"].startswith("PID 7 python3 ")
    waiting.block("GPU-0", 100, 0.0)
    assert list(waiting.released(1.0, {}, lambda _: "PID 7 python3", stopping=True)) == [("GPU-0", "")]
    assert not waiting
