"""Assignments of tiny cells, and what a workload says while it works, for tests that measure without an orchestrator.

`python -m tests.fakes.assignments` runs the assignment on standard input in a process as fresh as an exec'd launch.
"""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from protocol import codec
from protocol.cell import (
    Cell,
    Device,
    DeviceKind,
    Generation,
    InputSpec,
    ModelSpec,
    Precision,
    Sizes,
    SizeUnit,
    Workload,
)
from protocol.failure import Failure, Phase
from protocol.messages import Assign, Deadlines, Measurement, Outcome
from protocol.paths import LaunchPaths
from protocol.result import Result
from protocol.verification import Injection, Seen, Verification
from worker import exception_categories
from worker.stage import Stage

ROOT = Path(__file__).resolve().parents[2]
CPU = Device(uuid="cpu:0", gpu_id=0, kind=DeviceKind.CPU, name="a CPU")
SHORT = Measurement(relative_half_width=0.02, block_s=0.005, warm_up_cap_s=0.05, min_s=0.02, max_s=0.1)


def tiny(name: str, kind: str, family: str, config: dict[str, Any], inputs: InputSpec | None, **more: Any) -> ModelSpec:
    """The description of a model that is small enough to be measured in a test."""
    figures = {"parameters": 1, "inference_gflops": 0.1, "memory_mb": 1}
    entries = (inputs,) if inputs else ()
    return ModelSpec(name=name, title=name, type=kind, family=family, config=config, inputs=entries, **figures | more)


def tokens(name: str, high: int) -> InputSpec:
    return InputSpec(name=name, shape=("batch", "size"), dtype="int64", high=high)


IMAGES = InputSpec(name="images", shape=("batch", 3, "size", "size"))
TEN_TOKENS = Sizes(unit=SizeUnit.TOKENS, default=10)
HUGGINGFACE = ("worker.models.huggingface",)
LSTM = tiny(
    "tiny-lstm",
    "other",
    "lstm",
    {"vocab_size": 50, "embedding_size": 8, "hidden_size": 16, "num_layers": 2},
    tokens("tokens", 50),
    sizes=Sizes(unit=SizeUnit.TOKENS, default=12),
)
LSTM_OPERATIONS = 2.0 * 24 * (4 * 16 * (8 + 16) + 4 * 16 * (16 + 16) + 16 * 50)
"""Of one forward pass of two sequences: two layers of four gates that read the input and their state, and the head."""
BERT = tiny(
    "tiny-bert",
    "transformer",
    "bert",
    {
        "vocab_size": 60,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
    },
    tokens("input_ids", 60),
    sizes=TEN_TOKENS,
    preload=HUGGINGFACE,
)
BERT_OPERATIONS = 2.0 * 20 * (2 * (4 * 16**2 + 2 * 16 * 32 + 2 * 10 * 16) + 16**2 + 16 * 60)
"""Of one forward pass of two sequences: two layers of four projections, two dense ones and attention, and the head."""
RESNET = tiny(
    "resnet18",
    "cnn",
    "torchvision",
    {"builder": "resnet18"},
    IMAGES,
    sizes=Sizes(unit=SizeUnit.PIXELS, default=64),
    preload=("torchvision.models.resnet",),
)
RESNET_OPERATIONS = 594_231_296.0
"""Of one forward pass of two images: twice the 1.82 G multiplications of the published 224 pixels, for 64."""
PROBE = tiny("products", "probe", "probe", {}, None, parameters=0, inference_gflops=0.0, memory_mb=0)
"""What cells go by that check the device itself."""
GPT2 = tiny(
    "tiny-gpt2",
    "transformer",
    "causal",
    {
        "architecture": "gpt2",
        "vocab_size": 60,
        "n_positions": 64,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    tokens("input_ids", 60),
    sizes=TEN_TOKENS,
    generation=Generation(prompt_tokens=12, new_tokens=5),
    preload=HUGGINGFACE,
)
QWEN = msgspec.structs.replace(
    GPT2,
    name="tiny-qwen2",
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
VIT = tiny(
    "tiny-vit",
    "transformer",
    "torchvision",
    {"builder": "vit_b_16", "image_size": "size", "num_classes": 10},
    IMAGES,
    sizes=Sizes(unit=SizeUnit.PIXELS, default=32, smallest=16, step=16),
    preload=("torchvision.models.vision_transformer",),
)
VIT_OPERATIONS = 2.0 * 2 * (4 * 768 * 3 * 16**2 + 12 * (5 * (4 * 768**2 + 2 * 768 * 3072) + 2 * 5**2 * 768) + 768 * 10)
"""Of one forward pass of two images: four patches each, twelve layers over these and the class, and the head."""
SMALL_IMAGES = Sizes(unit=SizeUnit.PIXELS, default=16, smallest=8, step=4)
UNET = tiny("tiny-unet", "generative", "unet", {"width": 4, "depth": 2, "num_classes": 2}, IMAGES, sizes=SMALL_IMAGES)
CODER = {"width": 4, "stages": 2, "latent_channels": 3}
AUTOENCODER = tiny("tiny-autoencoder", "other", "autoencoder", CODER, IMAGES, sizes=SMALL_IMAGES)
VAE = tiny("tiny-vae", "generative", "vae", CODER, IMAGES, sizes=SMALL_IMAGES)
STYLEGAN2 = tiny(
    "tiny-stylegan2",
    "generative",
    "stylegan2",
    {"resolution": "size", "latent_size": 8, "mapping_layers": 2, "channel_base": 64, "channel_max": 8},
    InputSpec(name="latents", shape=("batch", 8)),
    sizes=SMALL_IMAGES,
)
FAMILIES = (LSTM, BERT, GPT2, QWEN, RESNET, VIT, UNET, AUTOENCODER, VAE, STYLEGAN2)
"""Every family of models, small."""


def assignment(
    model: ModelSpec,
    workload: Workload,
    cache: Path,
    *,
    device: Device = CPU,
    measurement: Measurement = SHORT,
    injection: Injection | None = None,
    **cell: Any,
) -> Assign:
    """One launch of a cell with the fields in `cell`. By default fp32, a batch of two, and the model's own sizes."""
    writing = model.generation if workload is Workload.GENERATION else None
    fields = {
        "precision": Precision.FP32,
        "batch_size": 2,
        "input_size": writing.prompt_tokens if writing else model.sizes.default if model.sizes else None,
        "new_tokens": writing.new_tokens if writing else None,
    }
    return Assign(
        launch=1,
        token="token",
        cell=Cell(devices=(device.uuid,), model=model.name, workload=workload, **fields | cell),
        device=device,
        model=model,
        measurement=measurement,
        deadlines=Deadlines(start=60, import_=60, build=60, warm_up=60, measure=60, finish=60),
        cache_folder=str(cache),
        injection=injection,
    )


class Listener:
    """Records what a stage reports: phases, progress in each, and mismatches. phase: entered at once."""

    def __init__(self, phase: Phase | None = None) -> None:
        self.phases: list[Phase] = []
        self.progress: list[tuple[Phase, float]] = []
        self.seen: list[Seen] = []
        self.stage = Stage(
            self.phases.append,
            lambda phase, fraction: self.progress.append((phase, fraction)),
            self.seen.append,
            time.monotonic_ns(),
            LaunchPaths(Path("/no such folder/1")),
        )
        if phase is not None:
            self.stage.enter(phase)


def run_here(assign: Assign, listener: Listener | None = None) -> Result:
    """Run the workload in this process. Its result survives being sent."""
    stage = (listener or Listener()).stage
    stage.enter(Phase.IMPORT)
    workload = importlib.import_module(f"worker.workloads.{assign.cell.workload}")
    result: Result = workload.run(assign, stage, "exec")
    assert codec.decode(codec.encode(Outcome(launch=1, token="token", result=result)), Outcome).result == result
    return result


def run_apart(assign: Assign, environment: dict[str, str] | None = None) -> Outcome:
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


def result_of(outcome: Outcome) -> Result:
    assert outcome.result is not None, outcome.failure
    return outcome.result


def failure_of(outcome: Outcome) -> Failure:
    assert outcome.failure is not None
    return outcome.failure


def verified(ended: Outcome | Result) -> Verification:
    result = result_of(ended) if isinstance(ended, Outcome) else ended
    return result.verification


def run_script(source: str, *arguments: str, stdin: bytes | None = None, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", source, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=280,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""The environment of a process that is forked later."""


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
