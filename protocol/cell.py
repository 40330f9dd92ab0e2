"""Cells (a cell is one thing to measure: device, model and configuration), devices and models."""

import enum
import hashlib
import re
from functools import cached_property
from typing import Final

import msgspec

from protocol.own import OwnModel

Scalar = bool | int | float | str


class Workload(enum.StrEnum):
    """Kind of work that a cell measures. Each member has a module of the same name in worker/workloads/.

    LOAD: making a model ready on the device. GENERATION: of text. PROBE: the device itself, without a model. OPERATOR:
    calls of one operator. FAULT: faults on request, for tests. Tests of a burn-in: SOAK: matrix products, compared with
    each other. TRUTH: matrix products whose exact result is known. MEMORY: bit patterns in device memory. LINKS:
    transfers between devices and with the host. STEPS: SOAK with rests. REPLAY: the same training steps repeated.
    """

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
    OPERATOR = "operator"
    FAULT = "fault"


class Precision(enum.StrEnum):
    """Number format of the arithmetic (docs/method.md). In training, weights are always in fp32."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"


class CompileMode(enum.StrEnum):
    """Mode of torch.compile. EAGER: torch.compile is not used."""

    EAGER = "eager"
    DEFAULT = "default"
    REDUCE_OVERHEAD = "reduce-overhead"
    MAX_AUTOTUNE = "max-autotune"


class MemoryFormat(enum.StrEnum):
    """Memory layout of images: channel after channel (CONTIGUOUS), or pixel after pixel (CHANNELS_LAST)."""

    CONTIGUOUS = "contiguous"
    CHANNELS_LAST = "channels_last"


class SizeUnit(enum.StrEnum):
    """Unit of a model's input size."""

    TOKENS = "tokens"
    PIXELS = "pixels"


class Mode(enum.StrEnum):
    """Whether the other GPUs of the node work at the same time (LOADED) or are idle (SOLO)."""

    SOLO = "solo"
    LOADED = "loaded"


AUTO: Final = 0
"""Placeholder for a batch size that a scan will find (`-b auto`). Launches never have it."""


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """One thing to measure: a model, a workload and their settings, on one or several devices.

    devices: UUIDs (or "cpu:N"), the leader first. Each has its own process. batch_size: AUTO if gpubench has still to
    find one by trying several (`-b auto`). input_size: side in pixels or length in tokens (for generation, of the
    prompt). In a burn-in also the side of matrices, or MiB to test or send. None: the model has one fixed size, or a
    memory test takes its usual share of the free memory. new_tokens: for generation only. dynamic_shapes: True if
    compiled for any input size.
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
    compile_mode: CompileMode = CompileMode.EAGER
    dynamic_shapes: bool = False
    seed: int = 0

    @property
    def compiles(self) -> bool:
        """Whether gpubench compiles the model by torch.compile. The user's own code may compile it even if not."""
        return self.compile_mode is not CompileMode.EAGER

    @property
    def compile_name(self) -> str:
        """Compile mode for people: "eager", "default", or with dynamic shapes "default dynamic"."""
        return f"{self.compile_mode} dynamic" if self.dynamic_shapes else self.compile_mode

    @cached_property
    def id(self) -> str:
        """Unique name of the cell, usable as a file name: its main fields, and a hash of all fields."""
        digest = hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:8]
        words = (self.model, self.workload, self.precision, f"b{self.batch_size or 'auto'}", *self.devices)
        return f"{slug('-'.join(words))}-{digest}"


_SLUG_CHARACTERS: Final = re.compile(r"[^a-z0-9.]+")
_SLUG_LENGTH: Final = 64


def slug(text: str) -> str:
    """Return `text` as a file name: at most 64 characters of a-z, 0-9, "." and "-", or "unnamed" if none remains."""
    return _SLUG_CHARACTERS.sub("-", text.lower()).strip("-.")[:_SLUG_LENGTH] or "unnamed"


class DeviceKind(enum.StrEnum):
    """Kind of a device: a GPU through CUDA, or the CPU."""

    CUDA = "cuda"
    CPU = "cpu"


def device_label(kind: str, uuid: str, gpu_id: int, slice_index: int | None) -> str:
    """Return a device's label for people: "GPU 0", "GPU 0:1" for slice 1 of GPU 0, or the uuid of a CPU ("cpu:0").

    kind: value of DeviceKind. slice_index: index of a MIG slice in its GPU; None for other devices, and for a slice
    with a gpu_id of its own.
    """
    if kind == DeviceKind.CPU:
        return uuid
    return f"GPU {gpu_id}" if slice_index is None else f"GPU {gpu_id}:{slice_index}"


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One device of the run, as found before the first cell. Fields that could not be read are None.

    uuid: of a GPU or MIG slice, or "cpu:N". gpu_id: number by which the user knows it: index of a GPU (within
    CUDA_VISIBLE_DEVICES if that is set), or N of "cpu:N". A MIG slice has the gpu_id of its GPU, or its own if
    CUDA_VISIBLE_DEVICES names the slice. slice_of: UUID of a MIG slice's GPU. slice_index: index of a MIG slice in its
    GPU; None for a slice with its own gpu_id. shared_gpu: another slice of that GPU is in the run. cpus: cores to which
    its workers are bound. A CPU device has cores of its own, and a GPU a share of the cores near it. () if a GPU's near
    cores are unknown or not usable. shared_cores: another CPU device of the run has the same cores. busy_with: text
    that names another program's process on the device at the start of the run (--allow-busy); None if there was none.
    pcie_generation: highest one that device and host support. pcie_width: lanes in use. memory_used_bytes: by all
    processes. cuda_driver_version: newest CUDA version that the driver supports. compute_capability: such as "9.0".
    power_limit_w: the enforced one.
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
        """Label of the device for people, such as "GPU 0"."""
        return device_label(self.kind, self.uuid, self.gpu_id, self.slice_index)


class InputSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input tensor of a model.

    shape: whole numbers, or the words "batch" and "size", which stand for the cell's batch size and input size. dtype:
    "float" (the cell's precision), "float32", "int64", "int32", "uint8" or "bool". low, high: range of the values,
    from `low` to just below `high`. Not used for bool. If low equals high, floats have a standard normal distribution.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str = "float"
    low: float = 0
    high: float = 0


class Sizes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input sizes that a model takes: multiples of `step` from `smallest` to `largest` (None: no limit).

    only: if it is not empty, the model takes these sizes instead of the multiples.
    """

    unit: SizeUnit
    default: int
    smallest: int = 1
    largest: int | None = None
    step: int = 1
    only: tuple[int, ...] = ()


class Generation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Text generation of a language model. new_tokens: number of tokens to add to a prompt.

    prompt_tokens: length of a prompt if no input size is requested.
    """

    prompt_tokens: int
    new_tokens: int


class OperatorShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One set of input sizes to measure an operator with. sizes: dimension → length, for reports.

    flops: floating-point operations of a call. moved: bytes that a call reads and writes, by precision.
    """

    name: str
    sizes: dict[str, int]
    inputs: tuple[InputSpec, ...]
    flops: float
    moved: dict[Precision, float]


JAX: Final = "jax"
"""Value of `OperatorSpec.variant` for JAX, which runs in a process of its own without torch."""


class OperatorSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator, as described in configs/operators.yaml, with its sizes resolved.

    category: group in reports, such as "reduction". shapes: to measure, by kind of device. tolerance: largest allowed
    ShapeResult.deviation (protocol/result.py), by precision. backward: the gradient is verified and timed too.
    implementation: label in a study that compares implementations, else empty. variant: name of the implementation in
    worker/operators/variants.py, or JAX; empty for PyTorch's eager function. profiled: calls are also profiled.
    """

    name: str
    category: str
    shapes: dict[DeviceKind, tuple[OperatorShape, ...]]
    tolerance: dict[Precision, float]
    backward: bool = True
    implementation: str = ""
    variant: str = ""
    profiled: bool = False


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model, as described in configs/models.yaml.

    title: name in reports. type: "transformer", "cnn", "generative", "other", "probe" or "operator". family: key of
    MODULES in worker/models/registry.py. config: arguments of the family's `build`. preload: modules that the zygote
    (protocol/messages.py) imports. sizes: None for a fixed size. generation: None for a model that cannot generate
    text. parameters: number of parameters. inference_gflops: 1e9 operations of one forward pass of one item of default
    size. memory_mb: memory of a training step of batch 32 in fp32. These three are 0 for a user's own model and an
    operator, and the last two are only used for estimates. item: plural name of a sample in reports, such as "images".
    on_request: True if "all" does not select it. own: the user's code that makes the model, or the user's function
    in place of an operator's; None for gpubench's own. operator: set if an operator is measured instead of a model.
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
    operator: OperatorSpec | None = None
