"""A real browser, the system's Chromium, driven by Playwright: pages that note what went wrong while they were open.

Neither is required of who runs the suites: `unavailable` says what is missing, and the suite is skipped with it.
Nothing is downloaded, and Chromium is told to leave the network alone.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from e2e.harness.machine_speed import time_scale

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def executable() -> str:
    """Return the browser's path; '' when there is none."""
    return next((found for found in map(shutil.which, NAMES) if found), "")


def unavailable() -> str:
    """Say what is missing to drive a browser; '' when nothing is."""
    if not executable():
        return f"no browser: none of {', '.join(NAMES)} is installed (Debian: apt-get install chromium)"
    if importlib.util.find_spec("playwright") is None:
        return "no playwright: `make e2e` installs it (requirements/browser.txt)"
    return ""


@dataclass  # without slots: Playwright leaves a mark on whose methods it calls
class Visit:
    """One page in a profile of its own, and all that it should not have done."""

    page: Any
    """Playwright's `Page`: what is drawn, clicked and typed goes through it."""
    origin: str
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console (violations of the content security policy are among them)."""
    strangers: list[str] = field(default_factory=list)
    """Requests that left the origin."""

    def text(self, selector: str) -> str:
        """Return what stands in an element."""
        return str(self.page.inner_text(selector))

    def wait_for_text(self, selector: str, text: str, seconds: float = 20.0) -> None:
        """Wait until an element holds a text; `seconds` as of `wait_until`."""
        self.page.locator(selector).filter(has_text=text).first.wait_for(timeout=seconds * time_scale() * 1000)

    def focused(self) -> str:
        """Return what has the focus, by its id, label or text."""
        script = "(e => e.id || e.getAttribute('aria-label') || e.textContent.trim())(document.activeElement)"
        return str(self.page.evaluate(script))

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" != self.origin and parts.scheme not in ("data", "blob"):
            self.strangers.append(request.url)


class Browser:
    """One Chromium, headless.

    Usage:

        with Browser() as browser, browser.visit("http://127.0.0.1:8081") as visit:
            visit.page.click("text=Explain")
    """

    def __init__(self) -> None:
        from playwright.sync_api import sync_playwright

        self._driver: Any = sync_playwright()
        self._chromium: Any = None

    def __enter__(self) -> "Browser":
        playwright = self._driver.__enter__()
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium refuses to run as root with it
        self._chromium = playwright.chromium.launch(executable_path=executable(), args=[*root, *FLAGS])
        return self

    def __exit__(self, *error: Any) -> None:
        self._chromium.close()
        self._driver.__exit__(*error)

    @contextmanager
    def visit(
        self, origin: str, *, width: int = 1280, height: int = 900, dark: bool = False, at: float | None = None
    ) -> Iterator[Visit]:
        """Open a page's root in a new profile; with `at` its clock stands at that Unix time."""
        context = self._chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            timezone_id="Europe/Berlin",
            locale="en-GB",
        )
        page = context.new_page()
        if at is not None:
            page.clock.set_fixed_time(at)  # in seconds
        visit = Visit(page, origin)
        page.on("console", visit._on_console)
        page.on("pageerror", lambda error: visit.complaints.append(f"uncaught: {error}"))
        page.on("request", visit._on_request)
        try:
            page.goto(f"{origin}/")
            yield visit
        finally:
            context.close()
