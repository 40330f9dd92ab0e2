"""What the driver says of a GPU, and what it means for the launches there."""

import pytest
from msgspec import structs

from orchestrator.engine.hazards import Hazards
from orchestrator.gpu.health.xids import XidKind
from protocol.failure import Category, Failure, Phase
from protocol.messages import GpuBroken, TooHot, XidSeen

GPU = "GPU-1"


def xid(number: int, at_ns: int = 0, uuid: str = GPU) -> XidSeen:
    """An error as the sampler reports it."""
    return XidSeen(uuid=uuid, xid=number, at_ns=at_ns)


def test_only_a_grave_xid_ends_what_runs_there() -> None:
    """The failure names it; a fault of the application, and an unknown number, are only kept."""
    for number in (46, 48, 64, 79, 95, 119, 120, 140):
        failure = Hazards().heard(xid(number))
        assert failure is not None
        assert (failure.category, str(number) in failure.message) == (Category.DEVICE_HARDWARE, True)
    assert {Hazards().heard(xid(number)) for number in (13, 31, 45, 63, 94, 999)} == {None}


def test_other_gpus_that_broke_are_known() -> None:
    """By the driver's word or by a launch that failed for its hardware; never the GPU itself, nor one that is sound."""
    hazards = Hazards()
    assert hazards.broken_beside("GPU-0") == ()
    hazards.heard(xid(13, uuid="GPU-2"))
    hazards.heard(xid(79))
    hazards.ended("GPU-3", Failure(category=Category.DEVICE_HARDWARE, message="ECC", phase=Phase.MEASURE))
    hazards.ended("GPU-4", Failure(category=Category.CUDA_STICKY, message="710", phase=Phase.MEASURE))
    assert hazards.broken_beside("GPU-0") == (GPU, "GPU-3")
    assert hazards.broken_beside(GPU) == ("GPU-3",)


def test_the_first_grave_failure_of_a_launchs_gpus_counts() -> None:
    """Of several GPUs it names its own, whichever of them leads; what leaves a GPU usable is not grave."""
    hazards = Hazards()
    hazards.heard(xid(13))
    assert hazards.grave((GPU,)) is None
    first = hazards.heard(xid(79))
    assert first is not None
    for uuid in (GPU, "GPU-2"):
        hazards.heard(GpuBroken(uuid=uuid, reason="it is lost", at_ns=0, lost=True))
    assert hazards.grave((GPU,)) == first
    assert hazards.grave(("GPU-2", GPU)) == structs.replace(first, device=GPU)
    assert hazards.grave(("GPU-3", "GPU-4")) is None


def test_a_gpu_that_is_too_hot_ends_what_runs_there() -> None:
    """In its own words, every time that it is said; nobody else suffers from it, as from a broken one."""
    hazards, hot = Hazards(), TooHot(uuid=GPU, reason="too hot", at_ns=1)
    failure = hazards.heard(hot)
    assert failure is not None
    assert (failure.category, failure.message) == (Category.TOO_HOT, "too hot")
    assert hazards.is_news(hot)
    assert hazards.grave((GPU,)) == failure
    assert hazards.broken_beside("GPU-0") == ()


@pytest.mark.parametrize(("lost", "category"), [(True, Category.DEVICE_LOST), (False, Category.DEVICE_HARDWARE)])
def test_a_broken_gpu_is_lost_only_where_it_is_gone(lost: bool, category: Category) -> None:
    """NVML's own words are the message; one that still answers is broken, and not lost."""
    hazards = Hazards()
    failure = hazards.heard(GpuBroken(uuid=GPU, reason="it is damaged", at_ns=0, lost=lost))
    assert failure is not None
    assert (failure.category, failure.message) == (category, "it is damaged")
    assert hazards.broken_beside("GPU-0") == (GPU,)


def test_a_launch_is_explained_by_what_came_meanwhile() -> None:
    """Not by what came before it, nor on another GPU; the number that only follows others is left out."""
    hazards = Hazards()
    for message in (xid(8, 1), xid(31, 5), xid(45, 6), xid(13, 7, uuid="GPU-2")):
        hazards.heard(message)
    assert hazards.since(GPU, 5) == f"31 ({XidKind.APPLICATION})"
    assert hazards.since(GPU, 7) == ""


def test_a_storm_is_told_once_and_takes_no_memory() -> None:
    """The same number again is one entry, the newest."""
    hazards = Hazards()
    news = []
    for at_ns in range(3):
        news.append(hazards.is_news(xid(31, at_ns)))
        hazards.heard(xid(31, at_ns))
    assert news == [True, False, False]
    assert hazards.since(GPU, 2) == f"31 ({XidKind.APPLICATION})"
