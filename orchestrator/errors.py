"""The errors that people see.

UserError            what was asked for cannot be done; exit code 2, nothing was run
├── ConfigError      a configuration file, an option, a model or a precision
├── DeviceError      a GPU that does not exist, is busy, or cannot be read or used
├── RunFolderError   a run folder that is missing, damaged, in use, or of another plan
└── HistoryError     the history of runs cannot be read or written; a run that is only to be recorded goes on
StorageError         the disk refused; the run stops, exit code 5
"""


class UserError(Exception):
    """What was asked for cannot be done. The message says what is wrong, where, and what to do."""


class ConfigError(UserError):
    """A configuration file or an option is wrong."""


class DeviceError(UserError):
    """A device was asked for that cannot be used."""


class RunFolderError(UserError):
    """A run folder cannot be worked on."""


class HistoryError(UserError):
    """The history of runs cannot be used."""


class StorageError(Exception):
    """Writing failed; what is not on disk cannot be promised."""
