"""The work of a launch, sent once its process has said hello. Pure."""

from orchestrator.config.run_configuration import Configuration
from orchestrator.engine.kind import LaunchTerms
from orchestrator.state.slots import NextLaunch
from protocol.cell import Device
from protocol.messages import Assign, Gang, LaunchSpec


def assignment(
    configuration: Configuration,
    terms: LaunchTerms,
    following: NextLaunch,
    spec: LaunchSpec,
    device: Device,
    *,
    gang: Gang | None = None,
) -> Assign:
    """The work of the launch `following` on `device`, for the process of `spec`. gang: as in Assign."""
    return Assign(
        launch=spec.launch,
        token=spec.token,
        cell=following.cell,
        round=following.slot[1],
        device=device,
        model=configuration.by_name[following.cell.model],
        measurement=terms.measurement,
        deadlines=terms.deadlines,
        cache_folder=configuration.cache_folder,
        injection=terms.injection,
        gang=gang,
        steps=terms.steps,
    )
