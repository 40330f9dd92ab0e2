"""Valid messages of any kind, made from the types themselves: what is not in the schema is not in here."""

from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


def messages(kind: object) -> st.SearchStrategy[Any]:
    """Values of a struct, or of a union of them."""
    return _values(inspect.type_info(kind))


def _values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType(ge=least, le=most):
            return st.integers(_SMALLEST if least is None else least, _LARGEST if most is None else most)
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            return st.text(max_size=20)
        case inspect.BytesType():
            return st.binary(max_size=20)
        case inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case inspect.UnionType(types=types):
            return st.one_of(*map(_values, types))
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return st.lists(_values(item), max_size=3).map(list if isinstance(kind, inspect.ListType) else tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(_values, items))
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), max_size=3)
        case inspect.StructType(cls=cls, fields=fields) | inspect.DataclassType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: _values(field.type) for field in fields})
    raise TypeError(f"{kind} is in a message, and it is not known here how to make one")
