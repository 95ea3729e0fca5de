"""A headless Chromium for looking at pages; nothing it shows leaves the machine."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def has_chromium() -> bool:
    """Whether Chromium, its driver and selenium are here."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return False
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


@contextmanager
def chromium() -> Iterator[Any]:
    """A driver of a fresh headless Chromium, which ends with the block."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    with tempfile.TemporaryDirectory(prefix="ft-chromium-", ignore_cleanup_errors=True) as profile:
        for flag in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
        ):
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={profile}")
        driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
        try:
            yield driver
        finally:
            driver.quit()


def show(driver: Any, page: Path, width: int, *, dark: bool = False) -> None:
    """Load ``page`` in a window ``width`` CSS pixels wide."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    scheme = "dark" if dark else "light"
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    driver.get(page.as_uri())


def too_wide(driver: Any, width: int) -> list[str]:
    """Elements that stick out of ``width`` CSS pixels, and the page itself where it scrolls sideways.

    A phone zooms out of a page that is too wide, so the window's own width says nothing.
    """
    return driver.execute_script(
        """
        const width = arguments[0];
        const wide = document.documentElement.scrollWidth > width ? ['the page scrolls sideways'] : [];
        for (const element of document.querySelectorAll('main *')) {
          const box = element.getBoundingClientRect();
          if (box.width && (box.right > width + 1 || box.left < -1))
            wide.push(element.tagName + '.' + element.className + ' ' + Math.round(box.right));
        }
        return wide.slice(0, 20);
        """,
        width,
    )
