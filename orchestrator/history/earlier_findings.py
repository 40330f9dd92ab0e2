"""Describe what earlier runs found on these devices. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.history.records import Offence
from protocol.cell import Device

LONGEST: Final = 160
"""Characters of a reason."""


def remarks(devices: Sequence[Device], offences: Iterable[Offence]) -> dict[str, str]:
    """Return UUID → remark for devices with offences, which are ordered from the oldest on."""
    against: dict[str, list[Offence]] = {}
    for offence in offences:
        against.setdefault(offence.gpu_uuid, []).append(offence)
    return {one.uuid: _remark(against[one.uuid]) for one in devices if one.uuid in against}


def _remark(offences: Sequence[Offence]) -> str:
    gravest = [one for one in offences if HealthVerdict.FAIL in (one.health, one.burn_in)] or offences
    shown = gravest[-1]
    verdict = HealthVerdict.FAIL if HealthVerdict.FAIL in (shown.health, shown.burn_in) else HealthVerdict.WARN
    by_burn_in = shown.burn_in == verdict
    what, words = ("a burn-in", shown.burn_in_words) if by_burn_in else ("its health", shown.health_words)
    why = f": {words[:LONGEST]}{'…' if len(words) > LONGEST else ''}" if words else ""
    more = f"; in all {plural(len(offences), 'run')} that found FAIL or WARN" if len(offences) > 1 else ""
    return f"{verdict} in {what} on {shown.test_date[:10]} (run {shown.run_id}){why}{more}"
