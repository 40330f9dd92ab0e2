"""Read --compare-baseline, --thresholds and --price, before anything is run."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from orchestrator.compare import thresholds as limits
from orchestrator.compare.references import MOST_PRICE, Against
from orchestrator.config.catalogue import is_probe
from orchestrator.errors import ConfigError
from orchestrator.run_reports import report_reader
from protocol.cell import ModelSpec

OPTION: Final = {
    "compare.baseline": "--compare-baseline",
    "compare.thresholds": "--thresholds",
    "compare.price": "--price",
}


def read(
    baseline: str | None,
    thresholds: str | None,
    price: float | None,
    runs_folder: str,
    history_db: str | None,
    *,
    models: Iterable[ModelSpec],
    origins: Mapping[str, str] = MappingProxyType(OPTION),
) -> Against:
    """Return the given baseline, file of thresholds and price, read and checked. Each may be None.

    baseline: a file, a run in runs_folder or the history, or the name of a baseline that gpubench ships. history_db:
    history file; None for the user's own. price: for one device and hour. models: models that thresholds may name.
    origins: key of an option → its name in messages. Raises UserError for an unusable value.
    """
    if price is not None and not 0 < price <= MOST_PRICE:
        origin = origins["compare.price"]
        raise ConfigError(f"{origin}: expected a price above 0 and at most {MOST_PRICE:,.0f}, got {price:g}")
    if thresholds == "":
        raise ConfigError(f"{origins['compare.thresholds']}: expected a file, got an empty text")
    side = None
    if baseline is not None:
        side = report_reader.baseline(baseline, runs_folder, history_db, origin=origins["compare.baseline"])
    specs = () if thresholds is None else tuple(models)
    probes = tuple(spec.name for spec in specs if is_probe(spec))
    names = tuple(spec.operator.name if spec.operator else spec.name for spec in specs if not is_probe(spec))
    return Against(
        baseline=side,
        thresholds=() if thresholds is None else limits.load(Path(thresholds), names, probes),
        price_per_hour=price,
    )
