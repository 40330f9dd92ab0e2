"""Errors that a worker raises itself; worker.exception_categories has their categories."""


class WorkerError(Exception):
    """Base of all errors of this package."""


class DeviceUnavailableError(WorkerError):
    """CUDA cannot be opened, or opens other GPUs than the requested one."""


class DeviceInheritedError(WorkerError):
    """This process has a GPU open already, perhaps inherited from its parent."""


class CommunicationError(WorkerError):
    """An operation between the processes of a cell failed, perhaps because another process ended."""


class NotFiniteError(WorkerError):
    """The loss or an output is NaN or infinite."""


class UnknownFamilyError(WorkerError):
    """No module of worker/models/ builds this model."""


class UnsuitableModelError(WorkerError):
    """The model cannot do what the cell measures, such as generate text."""


class UnsupportedError(WorkerError):
    """This machine, device or implementation cannot do what the cell measures. Retries cannot succeed."""


class ModelCodeError(WorkerError):
    """User code failed (its exception is __cause__), returned something unusable, or changed the precision."""


class NotBuiltError(ModelCodeError):
    """No cell of a user's own model or operator can be measured: its code is unusable, or its inputs are unknown."""
