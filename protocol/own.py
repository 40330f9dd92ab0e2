"""Description of a user's own model (docs/own-models.md)."""

import msgspec


class OwnModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's code that makes a torch.nn.Module. For an operator: the function to measure.

    target: "/folder/file.py:Name", "package.module:Name" or "package.module.Name". arguments, config: JSON array and
    object of its positional and keyword arguments. pythonpath: folders searched first for imports. allowed:
    --allow-code was given. If False, the target must be installed, and be a Module class or a function annotated to
    return a Module. by_name: forward gets its inputs as keyword arguments.
    """

    target: str
    arguments: str = "[]"
    config: str = "{}"
    pythonpath: tuple[str, ...] = ()
    allowed: bool = False
    by_name: bool = False
