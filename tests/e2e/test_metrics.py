"""What Prometheus gets of a real run: asked over a socket in its middle, read from the file at its end."""

import contextlib
import socket
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.cli.commands import orchestrate
from tests.fakes import faults
from tests.fakes.commands import TINY, python
from tests.fakes.node import Node, start

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    assert text.endswith("\n")
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    (found,) = [one for (key, own), one in samples.items() if key == name and labels.items() <= dict(own).items()]
    return found


@pytest.fixture
def port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        number: int = free.getsockname()[1]
    return number


def begin(folder: Path, *words: str) -> Node:
    """Start a run of one cell that lasts, and one that crashes at once and is tried again."""
    crashes = faults.model("crashes", do="segfault", once=str(folder / "crashed"))
    return start(folder / "run", faults.model("lasts", seconds=1.5), crashes, words=words)


def asked(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return parsed(answer.read().decode())


def test_a_run_is_followed_by_port_and_by_file(tmp_path: Path, port: int) -> None:
    """In its middle over the socket, at its end from the file: what is told agrees with the report."""
    file = tmp_path / "gpubench.prom"
    node = begin(tmp_path, "--metrics-port", str(port), "--metrics-file", str(file))
    node.until(lambda: node.working("lasts"))
    middle = asked(port)
    assert value(middle, "gpubench_run_state", state="running") == 1
    assert value(middle, "gpubench_launches_planned") == 2
    assert 0 <= value(middle, "gpubench_run_progress_ratio") < 1
    assert time.time() - value(middle, "gpubench_run_last_update_timestamp_seconds") < 10
    assert "gpubench_run_exit_code" not in {name for name, _ in middle}
    report = node.ended()
    end = parsed(file.read_text(encoding="utf-8"))
    assert (value(end, "gpubench_run_state", state="over"), value(end, "gpubench_run_exit_code")) == (1, 0)
    assert value(end, "gpubench_run_progress_ratio") == 1
    assert value(end, "gpubench_cells", status="measured") == report["summary"]["cells"]["ok"] == 2
    assert value(end, "gpubench_launch_failures_total", category="crashed") == len(report["failures"]) == 1
    assert value(end, "gpubench_launch_retries_total") == 1
    assert value(end, "gpubench_gpu_health", gpu="cpu:0", verdict="NOT APPLICABLE") == 1
    # An item takes a millisecond in these made-up results.
    assert value(end, "gpubench_cell_iteration_seconds", model="lasts") == pytest.approx(0.001)
    assert [path.name for path in tmp_path.glob("gpubench.prom*")] == [file.name]
    with pytest.raises(OSError, match="refused"):
        asked(port)


def test_idle_clients_and_a_lost_file_cost_no_result(tmp_path: Path, port: int) -> None:
    """With open connections, a half request and nonsense at its port, and no folder for its file, the run goes on."""
    place = tmp_path / "collected"
    place.mkdir()
    node = begin(tmp_path, "--metrics-port", str(port), "--metrics-file", str(place / "a.prom"))
    node.until((place / "a.prom").exists)
    (place / "a.prom").unlink()
    place.rmdir()
    node.until(lambda: node.working("lasts"))
    with contextlib.ExitStack() as opened:
        for words in (b"", b"GET /metrics", b"", b"", b"\x00\xff\r\n\r\n" * 100):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            client.sendall(words)
        node.ended()
    assert "Traceback" not in node.output
    assert "--metrics-file" in node.output


def test_a_killed_run_leaves_a_whole_file_that_says_how_old_it_is(tmp_path: Path) -> None:
    """Whenever it is killed: the file can be read, says that it runs, and when it said so."""
    file, begun = tmp_path / "gpubench.prom", time.time()
    node = begin(tmp_path, "--metrics-file", str(file))
    node.until(lambda: file.exists() and node.working("lasts"))
    node.kill()
    left = parsed(file.read_text(encoding="utf-8"))
    assert value(left, "gpubench_run_state", state="running") == 1
    assert begun < value(left, "gpubench_run_last_update_timestamp_seconds") < time.time()


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    return lambda *options: CliRunner().invoke(orchestrate, [*TINY, *options], prog_name="gpubench-orchestrate")


def test_a_port_in_use_is_refused_before_anything_is_measured(
    call: Callable[..., Result], tmp_path: Path, port: int
) -> None:
    """With exit code 2 and without a run's folder; also by --dry-run."""
    with contextlib.closing(socket.create_server(("127.0.0.1", port))):
        for rehearsed in ((), ("--dry-run",)):
            done = call("--metrics-port", str(port), *rehearsed)
            assert done.exit_code == 2
            assert f"--metrics-port: port {port} " in done.stderr
            assert list(tmp_path.iterdir()) == []


def test_a_dry_run_leaves_nothing_of_metrics(call: Callable[..., Result], tmp_path: Path, port: int) -> None:
    """It looks whether they could be served, and neither writes the file nor keeps the port."""
    done = call("--metrics-file", "a.prom", "--metrics-port", str(port), "--dry-run")
    assert done.exit_code == 0, done.output
    assert list(tmp_path.iterdir()) == []
    socket.create_server(("127.0.0.1", port)).close()


def test_a_name_without_room_for_a_temporary_one_is_refused(call: Callable[..., Result], tmp_path: Path) -> None:
    """Before anything is measured; tests/golden/transcripts/commands.txt has other files that cannot be."""
    done = call("--metrics-file", "m" * 240 + ".prom")
    assert (done.exit_code, "--metrics-file: " in done.stderr, list(tmp_path.iterdir())) == (2, True, [])


def test_the_library_is_imported_only_when_asked_for() -> None:
    """Neither by the command line nor by a run without these options."""
    code = (
        "import sys, orchestrator.cli.commands, orchestrator.engine.run\n"
        "import orchestrator.cli.execution, orchestrator.cli.exit_notification\n"
        "print('prometheus_client' in sys.modules)"
    )
    done = python("-c", code, cwd=Path.cwd())
    assert done.stdout.strip() == "False", done.stderr
