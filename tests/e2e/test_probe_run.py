"""A run of probes on a CPU device, on a part of the cores, from the command line to the report."""

import json
import os
from pathlib import Path

from tests.fakes.commands import python

IN_A_CPUSET = """
import os, runpy
os.sched_setaffinity(0, {cores})
runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
"""


def test_probes_run_like_any_other_cell(tmp_path: Path) -> None:
    """Applicable probes are measured and a model is compared with them. In a cpuset, CPU devices use only its cores."""
    ours = min(os.sched_getaffinity(0))
    options = "--gpu-ids cpu:0 -m lstm,gemm,hbm,h2d,d2h -b 1 -p fp32,bf16 -i 3 -w 2 --launches 1"
    options += " --phases inference -f json,txt"
    done = python("-c", IN_A_CPUSET.format(cores={ours}), *options.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "h2d, d2h: not applicable: " in " ".join(done.stderr.split())
    [stored] = tmp_path.glob("runs/*/run.yaml")
    assert f"  cpus:\n  - {ours}\n" in stored.read_text()
    report = json.loads((tmp_path / "benchmark_report.json").read_text())
    found = {(probe["name"], probe["precision"]): probe for probe in report["probes"]}
    assert set(found) == {("gemm", "fp32"), ("gemm", "bf16"), ("hbm", "fp32")}
    assert {probe["status"] for probe in report["probes"]} == {"ok"}
    assert all(found["gemm", precision]["sustained_tflops"] > 0 for precision in ("fp32", "bf16"))
    assert min(found["hbm", "fp32"][f"{way}_gb_per_sec"] for way in ("copy", "triad")) > 0
    assert {result["model_name"] for result in report["results"]} == {"lstm"}
    for result in report["results"]:
        plausibility = result["inference_metrics"]["batch_size_1"]["plausibility"]
        assert plausibility["gemm_tflops"] == found["gemm", result["precision"]]["sustained_tflops"]
        assert plausibility["least_iteration_ms"] > 0
    assert "Matrix product, bf16" in (tmp_path / "benchmark_report.txt").read_text()
