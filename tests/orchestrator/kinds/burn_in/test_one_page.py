"""report/one_page.py, kinds/burn_in/chapter.py: whatever a burn-in of eight GPUs has found, its report is one page."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from orchestrator.figures.burn_in import BurnInReport, Fate, GpuBurnIn, InjectedReport, LinksReport, ReasonReport
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import GRAVEST_FIRST, HealthVerdict
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.report import text
from orchestrator.report.as_brief import to_brief
from orchestrator.report.as_text import _CUT, to_text
from orchestrator.report.one_page import on_one_page
from orchestrator.report.sections import Rank
from orchestrator.report.text import Paragraph
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.runs import gpus

PAGE = 60
(CUT,) = _CUT.lines
WORDS = st.text("abc 漢0123456789:-", min_size=1, max_size=300).map(lambda text: " ".join(text.split()) or "a")
LINK = {f"{what}_gb_per_second": 1.5 for what in ("copies", "all_reduce", "all_reduce_bus", "to_host", "to_device")}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a burn-in of eight GPUs."""
    burn_in_run = FakeBurnIn(tmp_path_factory.mktemp("burn-in"), gpus(8), "10m")
    burn_in_run.work(last=8)
    burn_in_run.finish()
    return burn_in_run.report()


def reason(verdict: HealthVerdict, text: str, action: Action = Action.MONITOR) -> ReasonReport:
    """One that speaks for it."""
    return ReasonReport(verdict=verdict, text=text, action=action)


def judged(gpu: GpuBurnIn, reasons: list[ReasonReport], **changes: Any) -> GpuBurnIn:
    """The GPU with these reasons, gravest first, and what follows from them."""
    told = tuple(sorted(reasons, key=lambda one: GRAVEST_FIRST.index(one.verdict)))
    verdict, action = (told[0].verdict, told[0].action) if told else (HealthVerdict.PASS, Action.NOTHING)
    return replace(gpu, reasons=told, verdict=verdict, action=action, **changes)


def found(
    report: Report, burn_in_run: BurnInReport, told: list[str], injected: list[str], devices: list[GpuInfo]
) -> Report:
    """The report of that burn-in and of its run. told: of each GPU, before; and why the exit code."""
    segments = (replace(report.metadata.segments[0], launches=9, suspended_seconds=(17.0, 99.0, 25.0)),) * 3
    faults = tuple(
        InjectedReport(gpu_uuid=burn_in_run.gpus[0].gpu_uuid, fault=one, found=True, outcome="found")
        for one in injected
    )
    links = LinksReport(
        gpu_uuids=tuple(gpu.gpu_uuid for gpu in burn_in_run.gpus),
        precision="fp32",
        connection="NCCL " * 9,
        launches=3,
        **LINK,
    )
    earlier = zip(report.health.gpus, (*told, *[""] * 8), strict=False)
    return replace(
        report,
        metadata=replace(report.metadata, running=True, hostname="h" * 64, segments=segments),
        test_configuration=replace(report.test_configuration, allow_busy=True),
        gpu_info=tuple(devices),
        health=replace(report.health, gpus=tuple(replace(one, earlier=words) for one, words in earlier)),
        verdict=replace(report.verdict, reasons=tuple(told)),
        burn_in=replace(burn_in_run, injected=faults, links=(links,)),
    )


def lines_of(report: Report) -> list[str]:
    """The page; each GPU that is no PASS is on it with what to do, and the beginning of its gravest reason."""
    lines = to_text(report, BURN_IN.layout).splitlines()
    assert len(lines) <= PAGE, "\n".join(lines)
    assert max(map(cell_len, lines)) <= text.WIDTH
    whole = " ".join(" ".join(lines).split())
    for gpu in report.burn_in.gpus:
        if gpu.reasons:
            assert f": {gpu.action}" in whole if gpu.action else f"{gpu.verdict}: GPU" in whole
            assert f"- {gpu.reasons[0].verdict}: {gpu.reasons[0].text[:30]}".strip() in whole
    assert sum(re.match(r"\| GPU \d ", line) is not None for line in lines) == 8
    assert sum(line.startswith("|") for line in lines) == 1 + 8
    return lines


@given(st.data())
@settings(max_examples=15, deadline=None, derandomize=True)
def test_whatever_was_found_fits_one_page(quick: Report, data: st.DataObject) -> None:
    """Each GPU with any reasons, and whatever else there is to say, however long."""
    draw, burn_in_run = data.draw, quick.burn_in
    made = st.builds(
        reason,
        st.sampled_from([HealthVerdict.FAIL, HealthVerdict.UNKNOWN, HealthVerdict.WARN]),
        WORDS,
        st.sampled_from(Action),
    )
    several = st.lists(WORDS, max_size=12)
    judged_gpus = tuple(
        judged(
            gpu, draw(st.lists(made, max_size=6)), not_tested=dict(draw(st.lists(st.tuples(WORDS, WORDS), max_size=4)))
        )
        for gpu in burn_in_run.gpus
    )
    changed = replace(burn_in_run, gpus=judged_gpus, tainted=draw(st.booleans()))
    report = found(quick, changed, draw(several), draw(several), [*quick.gpu_info])
    stacks = dict.fromkeys(("pytorch_version", "cuda_version", "python_version"), draw(st.sampled_from(["2", "2, 3"])))
    lines_of(replace(report, metadata=replace(report.metadata, **stacks)))


def test_the_worst_of_burn_ins_fits_one_page(quick: Report) -> None:
    """Eight GPUs, each of another kind, taken out and with nine reasons of its own; and it says that it was cut."""
    burn_in_run = quick.burn_in
    long = "wrong bits and more of them " * 12
    worst = tuple(
        judged(
            gpu,
            [reason(HealthVerdict.FAIL, f"{gpu.gpu_uuid} {place}: {long}", Action.REPLACE) for place in range(9)],
            checks=tuple(replace(check, checks=10**9, mismatches=10**7) for check in gpu.checks),
            not_tested={f"{what}: {gpu.gpu_uuid}": long for what in range(9)},
            under_load_seconds=599.4,
            temperature_max_c=88.0,
            average_power_draw_w=690.0,
        )
        for gpu in burn_in_run.gpus
    )
    devices = [
        replace(info, gpu_name=f"Board {info.gpu_id} {long}", quarantined=long, serial="9" * 40)
        for info in quick.gpu_info
    ]
    changed = replace(burn_in_run, gpus=worst, tainted=True)
    lines = lines_of(found(quick, changed, [f"{place} {long}" for place in range(8)], [long] * 20, devices))
    assert len(lines) == PAGE
    assert CUT in lines
    assert sum(re.match(f"TEST FAIL: GPU .*: {Action.REPLACE}", line) is not None for line in lines) == 8
    assert any(line.startswith("injected: FOUND: ") for line in lines)
    assert ": 20 of 20 found" in " ".join(" ".join(lines).split())
    assert any(line.startswith("soak: ") for line in lines)


def test_the_answer_about_eight_faulty_gpus_fits_forty_lines(quick: Report) -> None:
    """Each has its verdict and its next step."""
    burn_in_run = quick.burn_in
    worst = tuple(
        judged(gpu, [reason(HealthVerdict.FAIL, f"{gpu.gpu_id} {'wrong bits ' * 20}", Action.REPLACE)])
        for gpu in burn_in_run.gpus
    )
    lines = to_brief(replace(quick, burn_in=replace(burn_in_run, gpus=worst)), BURN_IN.layout).splitlines()
    assert len(lines) <= 40
    assert sum("to do: " in line for line in lines) == len(burn_in_run.gpus) == 8
    assert not any(line.startswith("BEST") for line in lines)


def test_whether_faults_were_found_is_never_cut_off(quick: Report) -> None:
    """One for each of eight GPUs, each with reasons of its own: how many, and the one that was not found at once."""
    burn_in_run = quick.burn_in
    worst = tuple(
        judged(gpu, [reason(HealthVerdict.FAIL, f"{gpu.gpu_id} {place} {'wrong bits ' * 20}") for place in range(9)])
        for gpu in burn_in_run.gpus
    )
    faults = tuple(
        InjectedReport(
            gpu_uuid=gpu.gpu_uuid,
            fault=f"GPU {gpu.gpu_id} flips 2 bits of one output in every check of round 1",
            found=gpu.gpu_id != 5,
            outcome="injected into 7 launches",
            fate=Fate.IN_PART if gpu.gpu_id == 5 else None,
        )
        for gpu in burn_in_run.gpus
    )
    lines = lines_of(replace(quick, burn_in=replace(burn_in_run, gpus=worst, injected=faults, tainted=True)))
    assert ": NOT ALL FOUND: 7 of 8" in " ".join(" ".join(lines).split())
    told = [line for line in lines if line.startswith("injected: ")]
    assert told[0].startswith(f"injected: {Fate.IN_PART.upper()}: GPU 5 ")


def test_the_gravest_come_first_and_share_what_is_left(quick: Report) -> None:
    """With room for more than a line each: none has all of its own while another has one alone."""
    burn_in_run = quick.burn_in
    long = "wrong bits and more of them " * 6
    verdicts = [HealthVerdict.WARN, HealthVerdict.UNKNOWN, HealthVerdict.FAIL, *[HealthVerdict.PASS] * 5]
    changed = tuple(
        judged(
            gpu,
            [reason(verdict, f"{gpu.gpu_id} {place} {long}") for place in range(3)]
            if verdict is not HealthVerdict.PASS
            else [],
        )
        for gpu, verdict in zip(burn_in_run.gpus, verdicts, strict=True)
    )
    lines = to_text(replace(quick, burn_in=replace(burn_in_run, gpus=changed)), BURN_IN.layout).splitlines()
    assert len(lines) == PAGE
    assert CUT in lines
    end = next(at for at, line in enumerate(lines) if line.startswith("soak: "))
    heads = [number for number, line in enumerate(lines) if re.match(r"[A-Z]+: GPU \d, serial", line)]
    assert [lines[at].split(": ")[1][:5] for at in heads] == ["GPU 2", "GPU 1", "GPU 0"]
    taken = [after - before for before, after in pairwise([*heads, end])]
    assert max(taken) - min(taken) <= 1
    assert min(taken) > 2


def some(rank: Rank, name: str, count: int, section: str = "") -> Paragraph:
    """A paragraph of so many lines."""
    return Paragraph(rank, tuple(f"{name}{place}" for place in range(count)), section or name)


def test_a_line_is_cut_between_words() -> None:
    """No time of day is cut in two where a paragraph has fewer lines than it would take."""
    lines = tuple(text.bullet("2026-11-22T19:28:49Z " * 9))
    (line,) = on_one_page([Paragraph(Rank.TOLD, lines)], 1, Paragraph(Rank.MUST, ("cut",)))
    assert line == "  - " + " ".join(["2026-11-22T19:28:49Z"] * 3) + " ..."


def test_lines_go_round_until_the_page_is_full() -> None:
    """First what must be there, then a line of each that is told, of each section in turn, then more of them."""
    cut = Paragraph(Rank.MUST, ("cut",))
    page = [
        some(Rank.GRAVEST, "g", 3),
        some(Rank.MORE, "m", 2, "g"),
        cut,
        some(Rank.TOLD, "a", 2, "x"),
        some(Rank.TOLD, "b", 1, "x"),
        some(Rank.TOLD, "c", 1, "y"),
    ]
    assert list(on_one_page(page, 9, cut)) == ["g0", "g1", "g2", "m0", "m1", "a0", "a1", "b0", "c0"]
    steps = ["g0 cut", "g0 cut a0", "g0 cut a0 c0", "g0 cut a0 b0 c0", "g0 g1 cut a0 b0 c0", "g0 g1 g2 cut a0 b0 c0"]
    for room, expected in enumerate(steps, start=2):
        shown = [line.split()[0] for line in on_one_page(page, room, cut)]
        assert shown == expected.split()
    assert next(iter(on_one_page(page, 5, cut))) == "g0 g1 g2"
