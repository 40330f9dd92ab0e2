"""Errors with a message for the user.

UserError            the request is impossible; exit code 2, nothing was run
├── ConfigError      configuration file, option, model or precision
├── DeviceError      GPU that is missing, busy, or cannot be read or used
├── RunFolderError   run folder that is missing, damaged, in use, or made for another plan
└── HistoryError     history of runs; a run that is in progress continues, but is not recorded
StorageError         write that failed; the run stops with exit code 5
"""


class UserError(Exception):
    """A request that is impossible. The message says what is wrong, where, and what to do."""


class ConfigError(UserError):
    """A wrong configuration file or option."""


class DeviceError(UserError):
    """A requested device that cannot be used."""


class RunFolderError(UserError):
    """A run folder that cannot be used."""


class HistoryError(UserError):
    """A history of runs that cannot be used."""


class StorageError(Exception):
    """A write that failed. gpubench stops, because data that is not on the disk is lost."""
