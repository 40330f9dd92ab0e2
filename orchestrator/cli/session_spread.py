"""Spread of results between sessions on this machine, learned from its history, for `compare`."""

from typing import TYPE_CHECKING

from orchestrator.cli import history_query
from orchestrator.cli.streams import complain
from orchestrator.errors import HistoryError

if TYPE_CHECKING:
    from orchestrator.compare.comparison import SessionSpread
    from orchestrator.compare.run_figures import Side
    from orchestrator.config.margins import Margins


def learned(before: "Side", after: "Side", margins: "Margins", history_db: str | None) -> "SessionSpread | None":
    """Return how much results vary between sessions; None if the history has too few runs, is missing or unreadable.

    before, after: sides of a comparison, whose own runs do not count. Recorded runs must have the cells, stack and
    first GPU of `after`, or if they are too few, of `before`. margins: has the spread assumed without a history,
    towards which the learned one is drawn. history_db: file; None: the default.
    """
    from orchestrator.history import queries, sessions
    from orchestrator.history.records import Filter

    compared = before.run_ids | after.run_ids
    try:
        with history_query.existing(history_db) as connection:
            if connection is None:
                return None
            for side in (after, before):
                wanted = Filter(gpu=side.devices[0].gpu_uuid) if side.devices else Filter()
                lines = queries.lines(connection, wanted)
                alike = [line for line in lines if sessions.same_stack(line.stack, side.stack)]
                records = (queries.in_full(connection, line) for line in alike)
                if (spread := sessions.spread(records, side, compared, margins)) is not None:
                    return spread
    except HistoryError as error:
        complain(f"note: the spread between sessions is not learned from the history: {error}")
    return None
