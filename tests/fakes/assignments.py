"""Assignments of tiny cells, and what a workload says while it works, for tests that measure without an orchestrator.

`python -m tests.fakes.assignments` runs the assignment that standard input holds and writes the outcome to standard
output: a launch as fresh as an exec'd one, for what can be tried only once in a process.
"""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from protocol import codec
from protocol.cell import (
    Cell,
    Device,
    DeviceKind,
    Generation,
    InputSpec,
    MemoryFormat,
    ModelSpec,
    Precision,
    Sizes,
    SizeUnit,
    Workload,
)
from protocol.failure import Phase
from protocol.messages import Assign, Deadlines, Measurement, Outcome
from protocol.result import Result
from protocol.verification import Seen, Verification
from worker import exception_categories
from worker.stage import Stage

ROOT = Path(__file__).resolve().parents[2]
CPU = Device(uuid="cpu:0", gpu_id=0, kind=DeviceKind.CPU, name="a CPU")
SHORT = Measurement(relative_half_width=0.02, block_s=0.005, warm_up_cap_s=0.05, min_s=0.02, max_s=0.1)

LSTM = ModelSpec(
    name="tiny-lstm",
    title="LSTM",
    type="other",
    family="lstm",
    config={"vocab_size": 50, "embedding_size": 8, "hidden_size": 16, "num_layers": 2},
    inputs=(InputSpec(name="tokens", shape=("batch", "size"), dtype="int64", high=50),),
    sizes=Sizes(unit=SizeUnit.TOKENS, default=12),
    parameters=1,
    inference_gflops=0.1,
    memory_mb=1,
)
BERT = ModelSpec(
    name="tiny-bert",
    title="BERT",
    type="transformer",
    family="bert",
    config={
        "vocab_size": 60,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
    },
    inputs=(InputSpec(name="input_ids", shape=("batch", "size"), dtype="int64", high=60),),
    sizes=Sizes(unit=SizeUnit.TOKENS, default=10),
    parameters=1,
    inference_gflops=0.1,
    memory_mb=1,
    preload=("worker.models.huggingface",),
)
RESNET = ModelSpec(
    name="resnet18",
    title="ResNet-18",
    type="cnn",
    family="torchvision",
    config={"builder": "resnet18"},
    inputs=(InputSpec(name="images", shape=("batch", 3, "size", "size")),),
    sizes=Sizes(unit=SizeUnit.PIXELS, default=64),
    parameters=1,
    inference_gflops=0.1,
    memory_mb=1,
    preload=("torchvision.models.resnet",),
)
PROBE = ModelSpec(
    name="products",
    title="Products",
    type="probe",
    family="probe",
    inputs=(),
    parameters=0,
    inference_gflops=0.0,
    memory_mb=0,
)
"""What cells go by that check the device itself."""
BERT_OPERATIONS = 2.0 * 20 * (2 * (4 * 16**2 + 2 * 16 * 32 + 2 * 10 * 16) + 16**2 + 16 * 60)
"""Of one forward pass of two sequences: two layers of four projections, two dense ones and attention, and the head."""
LSTM_OPERATIONS = 2.0 * 24 * (4 * 16 * (8 + 16) + 4 * 16 * (16 + 16) + 16 * 50)
"""Of one forward pass of two sequences: two layers of four gates that read the input and their state, and the head."""
RESNET_OPERATIONS = 594_231_296.0
"""Of one forward pass of two images: twice the 1.82 G multiplications of the published 224 pixels, for 64."""
GPT2 = ModelSpec(
    name="tiny-gpt2",
    title="GPT-2",
    type="transformer",
    family="causal",
    config={
        "architecture": "gpt2",
        "vocab_size": 60,
        "n_positions": 64,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    inputs=(InputSpec(name="input_ids", shape=("batch", "size"), dtype="int64", high=60),),
    sizes=Sizes(unit=SizeUnit.TOKENS, default=10),
    generation=Generation(prompt_tokens=12, new_tokens=5),
    parameters=1,
    inference_gflops=0.1,
    memory_mb=1,
    preload=("worker.models.huggingface",),
)
QWEN = msgspec.structs.replace(
    GPT2,
    name="tiny-qwen2",
    title="Qwen2",
    config={
        "architecture": "qwen2",
        "vocab_size": 60,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
)
VIT = ModelSpec(
    name="tiny-vit",
    title="ViT",
    type="transformer",
    family="torchvision",
    config={"builder": "vit_b_16", "image_size": "size", "num_classes": 10},
    inputs=(InputSpec(name="images", shape=("batch", 3, "size", "size")),),
    sizes=Sizes(unit=SizeUnit.PIXELS, default=32, smallest=16, step=16),
    parameters=1,
    inference_gflops=0.1,
    memory_mb=1,
    preload=("torchvision.models.vision_transformer",),
)
VIT_OPERATIONS = 2.0 * 2 * (4 * 768 * 3 * 16**2 + 12 * (5 * (4 * 768**2 + 2 * 768 * 3072) + 2 * 5**2 * 768) + 768 * 10)
"""Of one forward pass of two images: four patches each, twelve layers over these and the class, and the head."""
UNET = ModelSpec(
    name="tiny-unet",
    title="U-Net",
    type="generative",
    family="unet",
    config={"width": 4, "depth": 2, "num_classes": 2},
    inputs=(InputSpec(name="images", shape=("batch", 3, "size", "size")),),
    sizes=Sizes(unit=SizeUnit.PIXELS, default=16, smallest=8, step=4),
    parameters=1,
    inference_gflops=0.1,
    memory_mb=1,
)
AUTOENCODER = msgspec.structs.replace(
    UNET,
    name="tiny-autoencoder",
    title="AutoEncoder",
    type="other",
    family="autoencoder",
    config={"width": 4, "stages": 2, "latent_channels": 3},
)
VAE = msgspec.structs.replace(AUTOENCODER, name="tiny-vae", title="VAE", type="generative", family="vae")
STYLEGAN2 = msgspec.structs.replace(
    UNET,
    name="tiny-stylegan2",
    title="StyleGAN2",
    family="stylegan2",
    config={"resolution": "size", "latent_size": 8, "mapping_layers": 2, "channel_base": 64, "channel_max": 8},
    inputs=(InputSpec(name="latents", shape=("batch", 8)),),
)


def assignment(
    model: ModelSpec,
    workload: Workload,
    cache: Path,
    *,
    precision: Precision = Precision.FP32,
    batch_size: int = 2,
    memory_format: MemoryFormat = MemoryFormat.CONTIGUOUS,
    device: Device = CPU,
    measurement: Measurement = SHORT,
) -> Assign:
    """One launch of a cell; generation writes as much after as long a prompt as the model's description says."""
    size = model.sizes.default if model.sizes else None
    writing = model.generation if workload is Workload.GENERATION else None
    cell = Cell(
        devices=(device.uuid,),
        model=model.name,
        workload=workload,
        precision=precision,
        batch_size=batch_size,
        input_size=writing.prompt_tokens if writing else size,
        new_tokens=writing.new_tokens if writing else None,
        memory_format=memory_format,
    )
    return Assign(
        launch=1,
        token="token",
        cell=cell,
        device=device,
        model=model,
        measurement=measurement,
        deadlines=Deadlines(start=60, import_=60, build=60, warm_up=60, measure=60, finish=60),
        cache_folder=str(cache),
    )


class Listener:
    """Hears what a stage says: the phases, how often each told how far it was, and what was seen to be wrong."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self.progress: list[tuple[Phase, float]] = []
        self.seen: list[Seen] = []
        self.stage = Stage(
            self.phases.append,
            lambda phase, fraction: self.progress.append((phase, fraction)),
            self.seen.append,
            time.monotonic_ns(),
        )


def run_here(assign: Assign, listener: Listener | None = None) -> Result:
    """Run the workload in this process."""
    stage = (listener or Listener()).stage
    stage.enter(Phase.IMPORT)
    workload = importlib.import_module(f"worker.workloads.{assign.cell.workload}")
    result: Result = workload.run(assign, stage, "exec")
    return result


def run_apart(assign: Assign, environment: dict[str, str] | None = None) -> Outcome:
    """Run the workload in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fakes.assignments"],
        input=codec.encode(assign),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        check=True,
        timeout=200,
    )
    return codec.decode(done.stdout, Outcome)


def run_together(assigns: Sequence[Assign], environment: dict[str, str] | None = None) -> list[Outcome]:
    """All ranks of a launch at the same time, each in a process of its own, which sees its own GPU alone."""

    def one(assign: Assign) -> Outcome:
        visible = {"CUDA_VISIBLE_DEVICES": assign.device.uuid} if assign.device.kind is DeviceKind.CUDA else {}
        return run_apart(assign, {**(environment or {}), **visible})

    if (place := assigns[0].gang) is not None:
        Path(place.steps).write_bytes(bytes(8 * len(assigns)))
    with ThreadPoolExecutor(len(assigns)) as pool:
        return list(pool.map(one, assigns))


def verified(outcome: Outcome) -> Verification:
    """What a launch verified, of what its process told."""
    assert outcome.result is not None, outcome.failure
    assert outcome.result.verification is not None
    return outcome.result.verification


def main() -> None:
    """The other end of `run_apart`."""
    assign = codec.decode(sys.stdin.buffer.read(), Assign)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    listener = Listener()
    try:
        outcome = Outcome(launch=1, token="token", result=run_here(assign, listener))
    except BaseException as error:  # noqa: BLE001 - as a session does
        outcome = Outcome(launch=1, token="token", failure=exception_categories.failure(error, listener.stage.phase))
    answers.write(msgspec.msgpack.encode(outcome))
    answers.close()


if __name__ == "__main__":
    main()
