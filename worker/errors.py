"""The errors that a worker raises itself. `worker.exception_categories` says which category each becomes.

WorkerError
├── DeviceUnavailableError    CUDA cannot be opened, or is not the one device that was asked for
├── DeviceInheritedError      the process was born with open descriptors of a GPU: it is not a fresh one
├── CommunicationError        what the processes of a gang do together failed in this one
├── NotFiniteError            the loss, or what the model puts out, is NaN or infinite
├── UnknownFamilyError        a model names a family that worker/models/ does not have
├── UnsuitableModelError      a model cannot do what the cell measures, such as write text
└── ModelCodeError            code of the user's own cannot be fed, run or trained, or changes the precision that
    │                         is measured
    └── NotBuiltError         it cannot be imported or built, so that no cell of it can be measured
"""


class WorkerError(Exception):
    """Base of all errors of this room."""


class DeviceUnavailableError(WorkerError):
    """The device that was asked for cannot be used. There is no falling back to another one, or to the CPU."""


class DeviceInheritedError(WorkerError):
    """This process holds descriptors of a GPU that it did not open."""


class CommunicationError(WorkerError):
    """Something that the processes of a gang do together has failed in this one: perhaps because of another."""


class NotFiniteError(WorkerError):
    """What was computed is no number: the loss or an output is NaN or infinite."""


class UnknownFamilyError(WorkerError):
    """No module of worker/models/ builds this model."""


class UnsuitableModelError(WorkerError):
    """The model cannot do what the cell asks of it."""


class ModelCodeError(WorkerError):
    """The user's own code failed, or made something else than it must. What it raised is the cause."""


class NotBuiltError(ModelCodeError):
    """The user's own code makes no model that anything could be measured of, in whatever cell."""
