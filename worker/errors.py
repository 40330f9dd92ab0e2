"""The errors that a worker raises itself. `worker.classify` says which category each becomes.

WorkerError
├── DeviceUnavailableError    CUDA cannot be opened, or is not the one device that was asked for
├── DeviceInheritedError      the process was born with open descriptors of a GPU: it is not a fresh one
├── NotFiniteError            the loss is NaN or infinite
├── UnknownFamilyError        a model names a family that worker/models/ does not have
├── UnsuitableModelError      a model cannot do what the cell measures, such as write text
└── ModelCodeError            code of the user's own cannot be imported, built, fed, run or trained, or
                              changes the precision that is measured
"""


class WorkerError(Exception):
    """Base of all errors of this room."""


class DeviceUnavailableError(WorkerError):
    """The device that was asked for cannot be used. There is no falling back to another one, or to the CPU."""


class DeviceInheritedError(WorkerError):
    """This process holds descriptors of a GPU that it did not open."""


class NotFiniteError(WorkerError):
    """Training went wrong: the loss is NaN or infinite."""


class UnknownFamilyError(WorkerError):
    """No module of worker/models/ builds this model."""


class UnsuitableModelError(WorkerError):
    """The model cannot do what the cell asks of it."""


class ModelCodeError(WorkerError):
    """The user's own code failed, or made something else than it must. What it raised is the cause."""
