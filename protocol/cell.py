"""What is measured: a cell, the device it runs on, and the model it runs.

A cell's identity is everything that must agree before two numbers may be compared. The batch size belongs to it.
"""

import enum
import hashlib
import re
from functools import cached_property
from typing import Final

import msgspec

from protocol.own import OwnModel

Scalar = bool | int | float | str


class Workload(enum.StrEnum):
    """What a cell measures. Each has a module of the same name in worker/workloads/."""

    LOAD = "load"
    INFERENCE = "inference"
    TRAINING = "training"
    GENERATION = "generation"
    PROBE = "probe"
    SOAK = "soak"
    TRUTH = "truth"
    MEMORY = "memory"
    LINKS = "links"
    STEPS = "steps"
    REPLAY = "replay"
    FAULT = "fault"


class Precision(enum.StrEnum):
    """How numbers are held and multiplied. docs/method.md says what each word means."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"


class MemoryFormat(enum.StrEnum):
    """The order in which the numbers of images lie in memory: by channel, or by pixel."""

    CONTIGUOUS = "contiguous"
    CHANNELS_LAST = "channels_last"


class SizeUnit(enum.StrEnum):
    """What the input size of a model counts."""

    TOKENS = "tokens"
    PIXELS = "pixels"


class Mode(enum.StrEnum):
    """Whether the other GPUs of the node work at the same time. The ratio of the two is a result of its own."""

    SOLO = "solo"
    LOADED = "loaded"


AUTO: Final = 0
"""A batch size that a scan has to find: of planned cells alone, never of a launch."""


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """One thing to measure, on one device or, with a process for each, on a gang of several.

    What is at its default is not written, so that a dimension that a later version adds changes no id of this one.

    devices: UUIDs (or "cpu:N"), in order; several for a gang, whose first leads it.
    input_size: side of the image in pixels or length of the sequence in tokens (of the prompt, for generation); None
    for a model without one. new_tokens: what generation adds to the prompt; None for every other workload.
    """

    devices: tuple[str, ...]
    model: str
    workload: Workload
    precision: Precision
    batch_size: int
    input_size: int | None = None
    new_tokens: int | None = None
    memory_format: MemoryFormat = MemoryFormat.CONTIGUOUS
    mode: Mode = Mode.LOADED
    compile_mode: str = "eager"
    seed: int = 0

    @cached_property
    def id(self) -> str:
        """A name for files and people: readable slug and a hash of the whole identity."""
        digest = hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:8]
        words = (self.model, self.workload, self.precision, f"b{self.batch_size or 'auto'}", *self.devices)
        return f"{slug('-'.join(words))}-{digest}"


_SLUG_CHARACTERS: Final = re.compile(r"[^a-z0-9.]+")
_SLUG_LENGTH: Final = 64


def slug(text: str) -> str:
    """A file name made of `text`: lower-case letters, digits, dots and dashes, never a path and never hidden."""
    return _SLUG_CHARACTERS.sub("-", text.lower()).strip("-.")[:_SLUG_LENGTH] or "unnamed"


class DeviceKind(enum.StrEnum):
    """What a device is driven by."""

    CUDA = "cuda"
    CPU = "cpu"


def device_label(kind: str, uuid: str, gpu_id: int, slice_index: int | None) -> str:
    """How people call a device: "GPU 0", "GPU 0:1" for its slice 1, or "cpu:0". The arguments are fields of Device."""
    if kind == DeviceKind.CPU:
        return uuid
    return f"GPU {gpu_id}" if slice_index is None else f"GPU {gpu_id}:{slice_index}"


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One device of the run, as it was found before the first cell.

    uuid: of a GPU or a MIG slice, as NVML gives it, or "cpu:N" for a slice of the cores; the key everywhere.
    gpu_id: the number by which the user knows it (the index within CUDA_VISIBLE_DEVICES where that is set).
    slice_of: of a MIG slice, the UUID of its GPU. slice_index: which slice of the GPU numbered gpu_id it is; None for a
    slice that CUDA_VISIBLE_DEVICES names, which has a number to itself. shared_gpu: another slice of the same GPU is in
    the run. Facts of a slice other than its name and memory are those of its GPU.
    cpus: cores near the device, to which its workers are bound; empty where unknown.
    shared_cores: a CPU device whose cores another CPU device of the run uses too.
    busy_with: a foreign process that used it when the run began (--allow-busy): its results are contaminated.
    Fields that could not be read are None.
    """

    uuid: str
    gpu_id: int
    kind: DeviceKind
    name: str
    slice_of: str | None = None
    slice_index: int | None = None
    shared_gpu: bool = False
    cpus: tuple[int, ...] = ()
    shared_cores: bool = False
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    compute_capability: str | None = None
    architecture: str | None = None
    serial: str | None = None
    pci_address: str | None = None
    part_number: str | None = None
    vbios_version: str | None = None
    power_limit_w: float | None = None
    ecc_enabled: bool | None = None
    mig_enabled: bool | None = None
    persistence_mode: bool | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    busy_with: str | None = None

    @property
    def label(self) -> str:
        """How people call it."""
        return device_label(self.kind, self.uuid, self.gpu_id, self.slice_index)


class InputSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input tensor of a model.

    shape: whole numbers, and the words "batch" and "size" for what the cell decides.
    dtype: "float" (the cell's precision), or one of torch's: "float32", "int64", "int32", "uint8", "bool".
    low, high: values from `low` to just below `high`; floating ones without a range are of the bell curve.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str = "float"
    low: float = 0
    high: float = 0


class Sizes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which input sizes a model takes: multiples of `step` from `smallest` to `largest` (None: any).

    only: which of these, where no step can say it; empty for all.
    """

    unit: SizeUnit
    default: int
    smallest: int = 1
    largest: int | None = None
    step: int = 1
    only: tuple[int, ...] = ()


class Generation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a language model is made to write: tokens that it is given, and tokens that it adds, one by one."""

    prompt_tokens: int
    new_tokens: int


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model, as configs/models.yaml describes it.

    family: module of worker/models/ that builds it; config: what that module is given.
    preload: modules that the zygote imports ahead of every launch.
    sizes: of its input, None for a model whose input has one size. generation: None for a model that cannot write.
    parameters: how many it has; inference_gflops: of one forward pass of one item, for estimates of time.
    memory_mb: what training at the default batch size takes on a device, an estimate for people.
    item: what one sample is called in reports, in the plural.
    on_request: measured only where it is named; "all" leaves it out.
    own: the code of a user's own model (family "own"), whose numbers above are not known before it is built, and are 0.
    """

    name: str
    title: str
    type: str
    family: str
    config: dict[str, Scalar] = {}
    inputs: tuple[InputSpec, ...]
    sizes: Sizes | None = None
    generation: Generation | None = None
    item: str = "samples"
    parameters: int
    inference_gflops: float
    memory_mb: int
    preload: tuple[str, ...] = ()
    on_request: bool = False
    own: OwnModel | None = None
