"""The one look at the GPUs that a command makes, before it has anything to show."""

from typing import TYPE_CHECKING

from orchestrator.cli.streams import complain

if TYPE_CHECKING:
    from orchestrator.gpu.inventory import Look


def once(*, tell: bool = True) -> "Look":
    """One look for all that the command asks. tell: say on standard error that a driver keeps us waiting."""
    from orchestrator.gpu import inventory

    return inventory.once(complain if tell else None)
