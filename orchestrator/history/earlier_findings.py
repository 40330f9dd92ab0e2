"""Which of these devices earlier runs spoke against, in words. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.history.records import Offence
from protocol.cell import Device

LONGEST: Final = 160
"""Characters of a reason: the run's own report has all of it."""


def remarks(devices: Sequence[Device], offences: Iterable[Offence]) -> dict[str, str]:
    """UUID → what was said of it before, for those of whom anything was. offences: from the oldest on."""
    against: dict[str, list[Offence]] = {}
    for offence in offences:
        against.setdefault(offence.gpu_uuid, []).append(offence)
    return {one.uuid: _remark(against[one.uuid]) for one in devices if one.uuid in against}


def _remark(offences: Sequence[Offence]) -> str:
    """The newest FAIL, else the newest WARN, and how many there are."""
    gravest = [one for one in offences if HealthVerdict.FAIL in (one.health, one.burn_in)] or offences
    shown = gravest[-1]
    verdict = (
        HealthVerdict.FAIL
        if gravest is not offences or HealthVerdict.FAIL in (shown.health, shown.burn_in)
        else HealthVerdict.WARN
    )
    in_the_night = shown.burn_in == verdict
    what, words = ("a burn-in", shown.burn_in_words) if in_the_night else ("its health", shown.health_words)
    why = f": {words[:LONGEST]}{'…' if len(words) > LONGEST else ''}" if words else ""
    more = f"; in all {plural(len(offences), 'run')} that found FAIL or WARN" if len(offences) > 1 else ""
    return f"{verdict} in {what} on {shown.test_date[:10]} (run {shown.run_id}){why}{more}"
