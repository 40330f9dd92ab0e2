"""--compare-baseline, --thresholds, --price: what a run is held against, read before anything is run."""

from typing import TYPE_CHECKING

from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.compare.references import Against
    from protocol.cell import ModelSpec


def read(
    compare_baseline: str | None,
    thresholds: str | None,
    price: float | None,
    runs_folder: str,
    history_db: str | None,
    *,
    models: "Iterable[ModelSpec]",
) -> "Against":
    """What the options name. Raises UserError for a file that is none, and for a price that cannot be.

    runs_folder, history_db: where the id of a run is looked up; None for the user's own history. models: that limits
    may name, looked at only where there are limits.
    """
    from pathlib import Path

    from orchestrator.compare import report_reader
    from orchestrator.compare import thresholds as limits
    from orchestrator.compare.references import MOST_PRICE, Against
    from orchestrator.plan.probes import is_probe

    if price is not None and not 0 < price <= MOST_PRICE:
        raise ConfigError(f"--price: expected a price above 0 and at most {MOST_PRICE:,.0f}, got {price:g}")
    if thresholds == "":
        raise ConfigError("--thresholds: expected a file, got an empty text")
    known = () if thresholds is None else tuple(models)
    probes = tuple(one.name for one in known if is_probe(one))
    names = tuple(one.name for one in known if not is_probe(one))
    return Against(
        baseline=None
        if compare_baseline is None
        else report_reader.baseline(compare_baseline, runs_folder, history_db),
        thresholds=() if thresholds is None else limits.load(Path(thresholds), names, probes),
        price_per_hour=price,
    )
