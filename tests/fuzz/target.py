"""What a target is: it takes any bytes, and raises only where gpubench has a defect."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz import mutation


@dataclass(frozen=True)
class Target:
    """check: takes any bytes. seeds: valid inputs to begin with. packed: from which byte on they are MessagePack."""

    check: Callable[[bytes], None]
    seeds: Callable[[], tuple[bytes, ...]]
    packed: int | None = None

    def mutated(self, data: bytes, chance: random.Random) -> bytes:
        if self.packed is None or chance.random() < 0.2:
            return mutation.of_bytes(data, chance)
        return data[: self.packed] + mutation.of_values(data[self.packed :], chance)
