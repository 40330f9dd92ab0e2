"""What is measured of each model: workloads, precisions, batch sizes, input sizes, formats. Pure.

    load         once for each precision, at the first input size
    inference    at every batch size and every input size
    training     the same, with its own batch sizes
    generation   models that can write text, with their own batch sizes; prompts have the length of --seq-len

Requested sizes in tokens apply to models that take tokens, sizes in pixels to models that take pixels. A size that a
model cannot have is excluded with a reason. If the user names the model, the command refuses such a size at the start.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from orchestrator.config.input_sizes import in_words, is_possible, listed_numbers, requested
from orchestrator.config.run_configuration import Configuration
from orchestrator.config.workloads import WORKLOADS
from protocol.cell import CompileMode, MemoryFormat, ModelSpec, Precision, SizeUnit, Workload

IMAGE_DIMENSIONS: Final = 4
"""Number of dimensions of a batch of images: batch, channels, height and width."""


@dataclass(frozen=True)
class Shape:
    """What to measure of a model: the fields of a Cell (protocol/cell.py) without devices, mode and seed."""

    model: ModelSpec
    workload: Workload
    precision: Precision
    batch_size: int = 1
    input_size: int | None = None
    new_tokens: int | None = None
    memory_format: MemoryFormat = MemoryFormat.CONTIGUOUS
    compile_mode: CompileMode = CompileMode.EAGER
    dynamic_shapes: bool = False


def of(model: ModelSpec, configuration: Configuration) -> Iterator[Shape]:
    """Yield all shapes of `model` that the run measures."""
    for workload in configuration.workloads:
        writes = model.generation if WORKLOADS[workload].generates else None
        for precision in configuration.precisions:
            for batch_size in WORKLOADS[workload].batch_sizes(configuration):
                for size in _input_sizes(workload, model, configuration):
                    for compile_mode in compile_modes(workload, configuration):
                        compiled = compile_mode is not CompileMode.EAGER
                        yield Shape(
                            model=model,
                            workload=workload,
                            precision=precision,
                            batch_size=batch_size,
                            input_size=size,
                            new_tokens=None if writes is None else writes.new_tokens,
                            memory_format=memory_format(model, configuration.memory_format),
                            compile_mode=compile_mode,
                            dynamic_shapes=compiled and configuration.dynamic_shapes,
                        )


def compile_modes(workload: Workload, configuration: Configuration) -> tuple[CompileMode, ...]:
    """Return the requested compile modes for a workload; only eager if it is never compiled."""
    return configuration.compile_modes if WORKLOADS[workload].compiles else (CompileMode.EAGER,)


def exclusions(model: ModelSpec, configuration: Configuration) -> Iterator[str]:
    """Yield reasons why requested work on a model is not measured: "takes 1 to 512 tokens, not 1024"."""
    explained = False
    if model.sizes is not None:
        impossible = [size for size in requested(model.sizes, configuration) if not is_possible(model.sizes, size)]
        if impossible:
            explained = True
            yield f"takes {in_words(model.sizes)}, not {listed_numbers(impossible)}"
    if model.generation is not None and Workload.GENERATION in configuration.workloads:
        too_long = set(_prompts(model, configuration)) - set(_written(model, configuration))
        if too_long:
            explained = True
            prompts = listed_numbers(too_long)
            yield f"has no room for {model.generation.new_tokens} new tokens after a prompt of {prompts}"
    if not explained and next(of(model, configuration), None) is None:
        yield "writes no text, so there is no generation to measure"


# ── sizes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def counts_in(model: ModelSpec, unit: SizeUnit) -> bool:
    """Whether the input size of `model` can be selected and its unit (tokens or pixels) is `unit`."""
    return model.sizes is not None and model.sizes.unit is unit


def _input_sizes(workload: Workload, model: ModelSpec, configuration: Configuration) -> tuple[int | None, ...]:
    if WORKLOADS[workload].generates:
        return _written(model, configuration)
    if model.sizes is None:
        return (None,)
    wanted = requested(model.sizes, configuration) or (model.sizes.default,)
    sizes = tuple(size for size in wanted if is_possible(model.sizes, size))
    return sizes[:1] if WORKLOADS[workload].one_size else sizes


def _prompts(model: ModelSpec, configuration: Configuration) -> tuple[int, ...]:
    if model.generation is None:
        return ()
    if model.sizes is None:
        return (model.generation.prompt_tokens,)
    wanted = requested(model.sizes, configuration) or (model.generation.prompt_tokens,)
    return tuple(size for size in wanted if is_possible(model.sizes, size))


def _written(model: ModelSpec, configuration: Configuration) -> tuple[int, ...]:
    room = None if model.sizes is None else model.sizes.largest
    new = 0 if model.generation is None else model.generation.new_tokens
    return tuple(size for size in _prompts(model, configuration) if room is None or size + new <= room)


# ── memory format ─────────────────────────────────────────────────────────────────────────────────────────────────────


def memory_format(model: ModelSpec, wanted: MemoryFormat | None) -> MemoryFormat:
    """Return the memory format in which the run measures a model. wanted: the requested one; None for the default.

    The default is channels_last for a convolutional model (of type "cnn", or one that takes pixels and is no
    transformer) and contiguous for others. If the format cannot matter (sees_images is False), `wanted` is ignored:
    contiguous.
    """
    if not sees_images(model):
        return MemoryFormat.CONTIGUOUS
    pixels = counts_in(model, SizeUnit.PIXELS)
    convolutional = model.type == "cnn" or (pixels and model.type != "transformer")
    return wanted or (MemoryFormat.CHANNELS_LAST if convolutional else MemoryFormat.CONTIGUOUS)


def sees_images(model: ModelSpec) -> bool:
    """Whether the memory format may matter: the model takes images, or its inputs are unknown (made by user code)."""
    images = any(entry.dtype == "float" and len(entry.shape) == IMAGE_DIMENSIONS for entry in model.inputs)
    unknown = model.own is not None and not model.inputs  # its code makes them: whoever asks for a format knows why
    return counts_in(model, SizeUnit.PIXELS) or images or unknown
