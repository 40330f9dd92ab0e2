"""A GPU's rates over time, compared with its siblings and by itself: in words and for the report. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.burn_in import CourseReport
from orchestrator.stats.drift import Course, Drift, DriftVerdict
from orchestrator.system.calendar_times import iso

SIBLINGS: Final = "against its siblings"
ITSELF: Final = "by itself"
_ROOM: Final = "look at the room's temperature over the night first, then measure again"


def by_reference(one: Drift) -> dict[str, Course]:
    """Return the courses by what the rates were compared with."""
    relative = {} if one.relative is None else {SIBLINGS: one.relative}
    return {**relative, ITSELF: one.raw}


def told_courses(courses: Mapping[str, Course]) -> Iterator[CourseReport]:
    """Return the courses for the report."""
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


def in_words(one: Drift, begin: float) -> str:
    """Describe both courses and the conclusion. begin: seconds since the epoch at the first judged window."""
    if one.verdict is DriftVerdict.TOO_SHORT:
        return _open(one)
    told = [_course(against, course) for against, course in by_reference(one).items() if course.change is not None]
    alone = one.verdict is DriftVerdict.SLOWING and not one.slows_against_siblings
    if alone:  # what shows it comes first
        told.reverse()
    words = f"{', '.join([*told, *_kinds(one)])}, over {one.raw.hours:.1f} h from {iso(begin)} on"
    if one.raw.step_h is not None:
        words += f", at once at {iso(begin + one.raw.step_h * 3600)}"
    if one.verdict is DriftVerdict.STEADY:
        kinds = one.kinds if one.had_siblings else one.raw_kinds
        untold = sum(course.verdict is DriftVerdict.TOO_SHORT for course in kinds.values())
        return f"{words}; {plural(untold, 'kind')} of work alone cannot be told" if untold else words
    if not alone:
        return words
    if one.had_siblings and one.relative is not None and one.relative.verdict is DriftVerdict.STEADY:
        return f"all slow alike, the room perhaps: {words}; {_ROOM}"
    return f"{words}; nothing shows whether it is the GPU or the room: {_ROOM}"


def _open(one: Drift) -> str:
    course = one.open_course
    unsteady = course is not None and course.change is not None and course.needed_h is None
    because = "too unsteady to tell" if unsteady else "too short to tell"
    hours = f"; about {course.needed_h:.1f} h would tell" if course is not None and course.needed_h else ""
    if one.had_siblings and course is one.raw:
        return f"as its siblings; {because} whether all of them slow{hours}"
    return f"{because} whether it slows{hours}"


def _course(against: str, course: Course) -> str:
    assert course.change is not None
    change = course.change
    return f"{change.value:+.1f} % ({change.low:+.1f} to {change.high:+.1f}) {against}"


def _kinds(one: Drift) -> Iterator[str]:
    for against, whole, kinds in ((SIBLINGS, one.relative, one.kinds), (ITSELF, one.raw, one.raw_kinds)):
        if whole is None or whole.verdict is DriftVerdict.SLOWING:
            continue
        for kind, course in kinds.items():
            if course.verdict is DriftVerdict.SLOWING:
                yield f"{kind}: {_course(against, course)}"
