"""A model of the user's own: where its code is, and what it is called with."""

import msgspec


class OwnModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code that makes a torch.nn.Module.

    target: "/folder/file.py:Name", "package.module:Name" or "package.module.Name".
    arguments, config: JSON texts of a list and of an object, so that nothing on the wire is without a type; what the
    target is called with, by position and by name.
    pythonpath: folders in which Python looks first. allowed: the user gave --allow-code, so whatever the target is
    may be called; otherwise it must be installed, and a module's class or a function that says that it returns one.
    by_name: the inputs that the model's description names are handed over by name, or else by position. Where it names
    none, the code makes its own.
    """

    target: str
    arguments: str = "[]"
    config: str = "{}"
    pythonpath: tuple[str, ...] = ()
    allowed: bool = False
    by_name: bool = False
