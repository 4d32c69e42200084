"""A real browser for tests: Chromium without a window, spoken to through a pipe (Chrome DevTools Protocol)."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CODES = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Tab": 9,
    "Enter": 13,
    "Home": 36,
    "End": 35,
}


def found_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page; every command waits for its answer."""

    def __init__(self, write: int, read: int):
        self.write, self.read, self.number, self.session = write, read, 0, ""
        self.waiting = b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while (answer := self._received()).get("id") != self.number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer.get("result", {})

    def _received(self) -> dict[str, Any]:
        while b"\0" not in self.waiting:
            part = os.read(self.read, 1 << 16)
            if not part:
                raise RuntimeError("the browser has gone")
            self.waiting += part
        one, _, self.waiting = self.waiting.partition(b"\0")
        return json.loads(one)

    def open(self, path: Path) -> None:
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def value(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true; a test that waits for ever is ended by its own limit."""
        while not self.value(expression):
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        for key in keys:
            letter = {"text": key} if len(key) == 1 else {}
            code = {"windowsVirtualKeyCode": CODES.get(key, ord(key[0].upper()))}
            self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, **letter, **code)
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def downloads_to(self, folder: Path) -> None:
        session, self.session = self.session, ""
        self.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        self.session = session

    def screenshot(self, path: Path, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A page of a browser of its own, whose settings lie in `profile`."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    path = found_browser()
    assert path is not None
    flags = "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage --remote-debugging-pipe"
    command = f'exec "$0" {flags} --user-data-dir="$1" about:blank 3<&{theirs_in} 4>&{theirs_out}'
    process = subprocess.Popen(
        ["bash", "-c", command, path, str(profile)],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Page(ours_out, ours_in)
    finally:
        process.kill()
        process.wait()
        os.close(ours_out)
        os.close(ours_in)
