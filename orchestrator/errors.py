"""Errors with a message for the user."""


class UserError(Exception):
    """A request that is impossible: exit code 2, nothing was run. The message says what is wrong, and what to do."""


class ConfigError(UserError):
    """A wrong configuration file, option, model or precision."""


class DeviceError(UserError):
    """A requested device that is missing, busy, given twice, or cannot be read or used."""


class RunFolderError(UserError):
    """A run folder that is missing, damaged, in use, or made for another plan."""


class HistoryError(UserError):
    """A history of runs that cannot be used. A run that is in progress continues, but is not recorded."""


class StorageError(Exception):
    """A write that failed. gpubench stops with exit code 5, because data that is not on the disk is lost."""
