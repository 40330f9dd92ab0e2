"""Describe changes of a GPU's rates over time, by themselves and relative to its siblings. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.burn_in import CourseReport
from orchestrator.stats.drift import Course, Drift, DriftVerdict
from orchestrator.system.calendar_times import iso

SIBLINGS: Final = "against its siblings"
ITSELF: Final = "by itself"
_ROOM: Final = "Check the room temperature during the burn-in, then measure again"


def by_reference(drift: Drift) -> dict[str, Course]:
    """Return the changes of a GPU's rates: SIBLINGS → relative to siblings, if it has any; ITSELF → by themselves."""
    relative = {} if drift.relative is None else {SIBLINGS: drift.relative}
    return {**relative, ITSELF: drift.raw}


def course_reports(courses: Mapping[str, Course]) -> Iterator[CourseReport]:
    """Yield the changes of a GPU's rates over time for the report. courses: from `by_reference`."""
    for against, course in courses.items():
        change, per_hour = course.change, course.per_hour
        yield CourseReport(
            against=against,
            verdict=course.verdict,
            hours=course.hours,
            change_percent=None if change is None else change.value,
            change_low_percent=None if change is None else change.low,
            change_high_percent=None if change is None else change.high,
            percent_per_hour=None if per_hour is None else per_hour.value,
            step_at_hours=course.step_h,
        )


def describe(drift: Drift, begin: float) -> str:
    """Return how a GPU's rates changed over time, and what to do, as text. begin: epoch seconds of the first rate."""
    if drift.verdict is DriftVerdict.TOO_SHORT:
        return _open(drift)
    texts = [_course(against, course) for against, course in by_reference(drift).items() if course.change is not None]
    alone = drift.verdict is DriftVerdict.SLOWING and not drift.slows_against_siblings
    if alone:  # what shows it comes first
        texts.reverse()
    words = f"{', '.join([*texts, *_kinds(drift)])}, over {drift.raw.hours:.1f} h from {iso(begin)}"
    if drift.raw.step_h is not None:
        words += f", in one step at {iso(begin + drift.raw.step_h * 3600)}"
    if drift.verdict is DriftVerdict.STEADY:
        kinds = drift.kinds if drift.had_siblings else drift.raw_kinds
        open_kinds = sum(course.verdict is DriftVerdict.TOO_SHORT for course in kinds.values())
        return f"{words}; {plural(open_kinds, 'kind')} of work inconclusive by itself" if open_kinds else words
    if not alone:
        return words
    if drift.had_siblings and drift.relative is not None and drift.relative.verdict is DriftVerdict.STEADY:
        return f"all siblings slow down alike, perhaps because of the room: {words}. {_ROOM}"
    return f"{words}. The GPU or the room may be the cause. {_ROOM}"


def _open(drift: Drift) -> str:
    course = drift.open_course
    unsteady = course is not None and course.change is not None and course.needed_h is None
    because = "rates too unsteady" if unsteady else "burn-in too short"
    hours = f" (about {course.needed_h:.1f} h needed)" if course is not None and course.needed_h else ""
    if drift.had_siblings and course is drift.raw:
        return f"steady against its siblings; {because} to see whether all of them slow down{hours}"
    return f"{because} to see whether the GPU slows down{hours}"


def _course(against: str, course: Course) -> str:
    assert course.change is not None
    change = course.change
    return f"{change.value:+.1f} % ({change.low:+.1f} to {change.high:+.1f}) {against}"


def _kinds(drift: Drift) -> Iterator[str]:
    for against, whole, kinds in ((SIBLINGS, drift.relative, drift.kinds), (ITSELF, drift.raw, drift.raw_kinds)):
        if whole is None or whole.verdict is DriftVerdict.SLOWING:
            continue
        for kind, course in kinds.items():
            if course.verdict is DriftVerdict.SLOWING:
                yield f"{kind}: {_course(against, course)}"
