"""What a launch is told to do once it has said hello. Pure."""

from orchestrator.config.run_configuration import Configuration
from orchestrator.kinds.burn_in import injections
from orchestrator.state.slots import NextLaunch
from protocol.cell import Device
from protocol.messages import Assign, Gang, LaunchSpec
from protocol.verification import Injection


def assignment(
    configuration: Configuration, following: NextLaunch, spec: LaunchSpec, device: Device, gang: Gang | None = None
) -> Assign:
    """The work of the launch `following` on `device`, whose process was made by `spec`. gang: as in Assign."""
    return Assign(
        launch=spec.launch,
        token=spec.token,
        cell=following.cell,
        round=following.slot[1],
        device=device,
        model=configuration.by_name[following.cell.model],
        measurement=configuration.measurement_on(device.kind),
        deadlines=configuration.deadlines_on(device.kind),
        cache_folder=configuration.cache_folder,
        injection=_injection(configuration, following, device),
        gang=gang,
        steps=None if configuration.burn_in is None else configuration.burn_in.steps.get(device.uuid),
    )


def _injection(configuration: Configuration, following: NextLaunch, device: Device) -> Injection | None:
    asked = configuration.burn_in
    if asked is None:
        return None
    return injections.for_launch(asked.injections, device.uuid, following.slot[1], following.cell.workload)
