"""What each cell of a default run on one H200 should take, in seconds, from start to device free again: not measured.

Worked out from the ledgers of the run of 2026-11-20 (torch 2.11, driver 580, quick profile), of the 76 cells that it
got to. Since then the profile measures for less time (a second at the most, given up early, latencies for 0.15 s), and
loads draw no weights: what that leaves of each ledger is written here, and no run has confirmed it.
"""

from typing import Final

from protocol.cell import Workload

_SECONDS: Final[dict[tuple[Workload, str], dict[int, float]]] = {
    (Workload.GENERATION, "gpt2-medium"): {1: 4.13},
    (Workload.GENERATION, "qwen2.5-0.5b"): {1: 7.79},
    (Workload.INFERENCE, "autoencoder"): {1: 2.57, 8: 1.85, 32: 1.96},
    (Workload.INFERENCE, "bert-base"): {1: 2.56, 8: 1.87},
    (Workload.INFERENCE, "bert-large"): {1: 3.33, 8: 2.07},
    (Workload.INFERENCE, "efficientnet-b0"): {1: 4.86, 32: 4.57},
    (Workload.INFERENCE, "efficientnet-b7"): {1: 5.92, 32: 6.05},
    (Workload.INFERENCE, "gpt2"): {1: 2.20, 32: 2.12},
    (Workload.INFERENCE, "gpt2-medium"): {8: 2.66, 32: 3.09},
    (Workload.INFERENCE, "lstm"): {1: 2.30, 8: 2.47, 32: 2.03},
    (Workload.INFERENCE, "qwen2.5-0.5b"): {1: 2.97, 8: 2.33, 32: 3.88},
    (Workload.INFERENCE, "resnet101"): {1: 2.53, 8: 2.59, 32: 2.65},
    (Workload.INFERENCE, "resnet50"): {1: 2.62, 8: 2.58, 32: 2.16},
    (Workload.INFERENCE, "resnext101"): {8: 2.84, 32: 2.08},
    (Workload.INFERENCE, "stylegan2"): {1: 3.84, 8: 3.92, 32: 4.40},
    (Workload.INFERENCE, "unet"): {1: 1.89, 8: 2.13, 32: 2.24},
    (Workload.INFERENCE, "vae"): {1: 2.60, 8: 2.03, 32: 2.05},
    (Workload.INFERENCE, "vit-base"): {1: 2.04, 8: 1.86, 32: 2.36},
    (Workload.INFERENCE, "vit-large"): {1: 1.81, 8: 2.35, 32: 2.65},
    (Workload.LOAD, "autoencoder"): {1: 1.08},
    (Workload.LOAD, "bert-base"): {1: 1.79},
    (Workload.LOAD, "bert-large"): {1: 3.70},
    (Workload.LOAD, "efficientnet-b0"): {1: 1.01},
    (Workload.LOAD, "efficientnet-b7"): {1: 1.48},
    (Workload.LOAD, "gpt2"): {1: 1.87},
    (Workload.LOAD, "gpt2-medium"): {1: 3.96},
    (Workload.LOAD, "qwen2.5-0.5b"): {1: 5.18},
    (Workload.LOAD, "resnet101"): {1: 1.31},
    (Workload.LOAD, "resnet50"): {1: 1.16},
    (Workload.LOAD, "stylegan2"): {1: 1.42},
    (Workload.LOAD, "vae"): {1: 1.13},
    (Workload.LOAD, "vit-base"): {1: 1.61},
    (Workload.LOAD, "vit-large"): {1: 3.43},
    (Workload.PROBE, "d2h"): {1: 1.76},
    (Workload.PROBE, "gemm"): {1: 1.55},
    (Workload.PROBE, "h2d"): {1: 1.72},
    (Workload.PROBE, "hbm"): {1: 1.42},
    (Workload.TRAINING, "autoencoder"): {32: 2.37},
    (Workload.TRAINING, "bert-base"): {32: 2.28},
    (Workload.TRAINING, "bert-large"): {32: 3.41},
    (Workload.TRAINING, "gpt2"): {32: 2.96},
    (Workload.TRAINING, "gpt2-medium"): {32: 4.31},
    (Workload.TRAINING, "lstm"): {32: 3.00},
    (Workload.TRAINING, "resnet101"): {32: 2.51},
    (Workload.TRAINING, "resnet50"): {32: 2.93},
    (Workload.TRAINING, "resnext101"): {32: 3.27},
    (Workload.TRAINING, "unet"): {32: 2.88},
    (Workload.TRAINING, "vae"): {32: 2.41},
    (Workload.TRAINING, "vit-large"): {32: 4.16},
}
"""By batch size."""
H200: Final = {(*cell, size): seconds for cell, sizes in _SECONDS.items() for size, seconds in sizes.items()}
