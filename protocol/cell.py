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
    """One thing to measure, on one device or on a gang of several with a process for each.

    Defaults are not written, so that a dimension of a later version changes no id. devices: UUIDs (or "cpu:N"), in
    order; the first leads a gang. input_size: side in pixels or length in tokens (of the prompt, for generation); None
    for a model without one. new_tokens: of generation; else None.
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
    """One device of the run, as found before the first cell. Unreadable fields are None.

    uuid: of a GPU or MIG slice, or "cpu:N" for a slice of the cores; the key everywhere.
    gpu_id: the user's number (the index within CUDA_VISIBLE_DEVICES where that is set).
    slice_of: UUID of a MIG slice's GPU, whose facts it has but for name and memory. slice_index: its place on GPU
    gpu_id; None for a slice with a number of its own. shared_gpu: another slice of this GPU is in the run.
    cpus: near cores, to which its workers are bound; empty where unknown. shared_cores: with another CPU device.
    busy_with: a foreign process at the start of the run (--allow-busy): results are contaminated.
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

    shape: whole numbers, and the words "batch" and "size" of the cell. dtype: "float" (the cell's precision), or one of
    torch's: "float32", "int64", "int32", "uint8", "bool". low, high: range, `high` excluded; floats without one are
    normal.
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

    family: module of worker/models/ that builds it from config. preload: imports of the zygote. sizes: of its input,
    None for a fixed one. generation: None for a model that cannot write. parameters: number; inference_gflops: of one
    forward pass of one item. memory_mb: of training at the default batch size. item: plural of a sample in reports.
    on_request: "all" excludes it. own: a user's code (family "own"), whose figures are 0 before it is built.
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
