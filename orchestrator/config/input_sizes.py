"""Input sizes of a model: requested and possible ones, and their description. Pure."""

from collections.abc import Iterable

from orchestrator.config.run_configuration import Configuration
from protocol.cell import Sizes, SizeUnit


def requested(sizes: Sizes, configuration: Configuration) -> tuple[int, ...]:
    """Return the requested input sizes in the unit of `sizes` (tokens or pixels); () if none are requested."""
    return {
        SizeUnit.TOKENS: configuration.sequence_lengths,
        SizeUnit.PIXELS: configuration.input_sizes,
    }[sizes.unit]


def is_possible(sizes: Sizes, size: int) -> bool:
    """Whether a model with these sizes accepts inputs of size `size`."""
    fits = sizes.largest is None or size <= sizes.largest
    listed = not sizes.only or size in sizes.only
    return sizes.smallest <= size and fits and listed and size % sizes.step == 0


def in_words(sizes: Sizes) -> str:
    """Describe the possible sizes: "1 to 512 tokens", "multiples of 16 from 32 pixels up", "256, 512 tokens"."""
    if sizes.only:
        return f"{listed_numbers(sizes.only)} {sizes.unit}"
    multiples = "" if sizes.step == 1 else f"multiples of {sizes.step} from "
    if sizes.largest is None:
        return f"{multiples}{sizes.smallest} {sizes.unit} up" if multiples else f"{sizes.smallest} {sizes.unit} or more"
    if sizes.smallest == sizes.largest:
        return f"{sizes.smallest} {sizes.unit} alone"
    return f"{multiples}{sizes.smallest} to {sizes.largest} {sizes.unit}"


def listed_numbers(values: Iterable[int]) -> str:
    """Join the numbers by commas in ascending order: "256, 512"."""
    return ", ".join(map(str, sorted(values)))
