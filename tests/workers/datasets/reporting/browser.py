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


def faint(driver: Any) -> list[str]:
    """Texts whose contrast with their ground is below 4.5 (WCAG 2.2, 1.4.3: readable by people with weak eyes)."""
    found: list[str] = driver.execute_script(
        """
        const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
        const light = colour => {
          const [r, g, b] = numbers(colour).slice(0, 3).map(
            each => each / 255 <= 0.04045 ? each / 255 / 12.92 : ((each / 255 + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = element => {
          while (element) {
            const colour = getComputedStyle(element).backgroundColor;
            if (numbers(colour)[3] !== 0) return colour;
            element = element.parentElement;
          }
          return 'rgb(255, 255, 255)';
        };
        const faint = [];
        for (const element of document.querySelectorAll('main *')) {
          const texts = [...element.childNodes].filter(each => each.nodeType === 3);
          const text = texts.map(each => each.data).join('').trim();
          if (!text || !element.getClientRects().length) continue;
          const pair = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
          const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
          if (contrast < 4.5) faint.push(contrast.toFixed(2) + ' ' + element.className + ' ' + text.slice(0, 40));
        }
        return [...new Set(faint)].slice(0, 20);
        """
    )
    return found
