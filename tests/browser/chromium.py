"""A headless Chromium, driven by selenium, that notices everything a page should not do."""

import base64
import json
import os
import pathlib
import shutil
import tempfile
import time

from selenium import webdriver
from selenium.common.exceptions import SessionNotCreatedException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
DRIVER = shutil.which("chromedriver") or "/usr/bin/chromedriver"
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
PATIENCE = 90  # seconds for what a page does by itself


class Browser:
    """One browser. Pages are local files; nothing else may be asked for."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="dsanalyze-browser-")
        try:
            # Chromium refuses to be root in its sandbox; where users may have no namespaces, no user has one. All pages are this project's own.
            self.driver = self.started(["--no-sandbox"] if os.geteuid() == 0 else [])
        except SessionNotCreatedException:
            self.driver = self.started(["--no-sandbox"])
        self.driver.set_script_timeout(PATIENCE)
        self.driver.set_page_load_timeout(PATIENCE)
        self.look(WIDTHS[0], "light")

    def started(self, more):
        options = Options()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb", "--lang=en-US", "--no-first-run",
                         "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync", "--mute-audio",
                         f"--user-data-dir={self.folder.name}", *more):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.set_capability("unhandledPromptBehavior", "ignore")  # an alert() is to be found, not closed
        return webdriver.Chrome(service=Service(DRIVER, log_path=str(pathlib.Path(self.folder.name) / "driver.log")), options=options)

    def close(self):
        self.driver.quit()
        self.folder.cleanup()

    def look(self, width, scheme, height=900):
        """How wide the window is, and which colours its user prefers; nothing moves."""
        command = self.driver.execute_cdp_cmd
        command("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme},
                                                            {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def scripts(self, allowed):
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def open(self, path):
        self.driver.get_log("browser")  # of the page before
        self.driver.get_log("performance")
        self.driver.get(pathlib.Path(path).resolve().as_uri())

    def messages(self):
        """What the page said on the console since it was opened, of any level."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self):
        """The addresses that the page asked for since it was opened; data: ones are part of it."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [address for address in asked if not address.startswith("data:")]

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait_for(self, script, *arguments):
        """Until the script's value is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(script, *arguments):
            if time.monotonic() > end:
                raise AssertionError(f"this did not become true within {PATIENCE} s: {script}")
            self.frame()

    def frame(self):
        """Until the page has drawn once more."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));")

    def screenshot(self, path, height=None):
        """The whole page, not only what the window shows; or its first so many pixels."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "format": "png", "captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}})
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
