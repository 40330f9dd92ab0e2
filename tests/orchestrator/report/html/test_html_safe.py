"""What makes a page harmless: text, data, scripts, and the library that it ships."""

import base64
import hashlib
import json
import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.report.html import render, sanitizing, to_html
from tests.fakes.runs import FakeRun

ECHARTS = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0"
VENDOR = Path(render.__file__).parent / "vendor"


def test_the_charts_are_drawn_by_the_library_as_released() -> None:
    """The file is that of the package (vendor/README.md), with its licence and notice beside it."""
    assert hashlib.sha256((VENDOR / "echarts.min.js").read_bytes()).hexdigest() == ECHARTS
    assert "Apache License" in (VENDOR / "LICENSE").read_text(encoding="utf-8")
    assert "Apache ECharts" in (VENDOR / "NOTICE").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "]]>", "&lt;", "\u2028\u2029", '"\\', "'"])
def test_data_cannot_end_its_element(text: str) -> None:
    """Whatever a name says, in the data there is no character of markup, and a script reads back what was said."""
    written = sanitizing.data({"name": [text, f"a{text}b"]})
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written)["name"] == [sanitizing.text(text), sanitizing.text(f"a{text}b")]


def test_data_holds_what_json_can() -> None:
    """Six digits, of large numbers two decimals; whole ones as they are; what is no number, or infinite, is nothing."""
    assert json.loads(sanitizing.data([1 / 3, 245678.934, -1e9 / 3, 1_705_314_600_123, 0.0])) == [
        *(0.333333, 245678.93, -333333333.33, 1_705_314_600_123, 0.0)
    ]
    assert json.loads(sanitizing.data([float("nan"), float("inf"), None, True])) == [None, None, None, True]


def test_a_log_keeps_its_indentation() -> None:
    """Blanks stay as many as they are; escapes for terminals go, markup is text, and endless lines are cut."""
    assert sanitizing.log("\x1b[31m  File <x>\x1b[0m\t|  1 \u202e \n") == "  File &lt;x&gt;      |  1"
    assert len(sanitizing.log("x" * 10_000)) == sanitizing.LONGEST + 1


def test_text_is_one_line_that_can_be_seen() -> None:
    """Control characters, escapes for terminals and marks of direction are taken out; endless text is cut."""
    assert sanitizing.text("a\x1b[31m\x00\u202eb\nc\ud800") == "ab c"
    assert len(str(sanitizing.text("x" * 10_000))) == sanitizing.LONGEST + 1


def test_only_the_scripts_of_the_page_may_run(tmp_path: Path) -> None:
    """The policy allows nothing else than scripts of these hashes, and every script in the page has one."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.everything()
    run.finish()
    text = to_html(run.report(), NOTHING_KEPT).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = policy[1].replace("&#39;", "'").split("; ")
    assert rules[0] == "default-src 'none'"
    assert "unsafe" not in rules[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert rules[1] == "script-src " + " ".join(f"'sha256-{one}'" for one in hashes)
    assert len(scripts) == len(render.SCRIPTS) > 1


def test_what_no_text_can_hold_does_not_stop_the_page(tmp_path: Path) -> None:
    """Half of a character of two, as a file of another system may have it, is left out."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.everything()
    run.finish()
    report = run.report()
    broken = msgspec.structs.replace(report, verdict=msgspec.structs.replace(report.verdict, reasons=("a\udc80b",)))
    assert "<li>ab</li>" in to_html(broken, NOTHING_KEPT).decode()
