"""A real browser without a window: what it drew, what it complained of, and what it asked the network for."""

import base64
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1360,900"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
REQUIRED = "TESTS_NEED_BROWSER"
"""An environment variable: where it is set, tests that find no browser fail."""
SCROLLED_BY_KEYS = "return [...document.querySelectorAll('.scroll')].every((one) => one.tabIndex === 0)"


class Browser:
    """One browser for all tests of a process; what it saves goes into `downloads`."""

    def __init__(self, folder: Path) -> None:
        self.downloads = folder / "downloads"
        self.downloads.mkdir()
        options = ChromeOptions()
        options.binary_location = _program("chromium")
        for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(flag)
        options.add_experimental_option("prefs", {"download.default_directory": str(self.downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = Chrome(options=options, service=Service(_program("chromedriver")))
        self.driver.get("about:blank")  # the page of a new tab loads parts of its own, whenever it comes to it

    def open(self, path: Path) -> None:
        """Load a file; what was complained of before is forgotten."""
        self.complaints()
        self.requests()
        self.emulate()
        self.driver.get(path.as_uri())

    def run(self, script: str, *given: object) -> Any:
        return self.driver.execute_script(script, *given)

    def until(self, script: str, *given: object) -> None:
        """Wait until the script returns something true: charts are drawn after the page is loaded."""
        WebDriverWait(self.driver, 10).until(lambda _: self.run(script, *given))

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def emulate(self, *, width: int = 1360, media: str = "", scheme: str = "light") -> None:
        """Another window, medium (print) or colour scheme; two frames later the page has followed."""
        phone = width < 600
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": phone}
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        script = "const done = arguments[0]; const next = requestAnimationFrame; next(() => next(() => next(done)));"
        self.driver.execute_async_script(script)

    def printed(self) -> bytes:
        made = self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
        return base64.b64decode(made["data"])


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        why = f"there is no {name} on the path: pages are tested in a real browser"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{why}, and {REQUIRED} asks for it")
        pytest.skip(why)
    return found
