"""A person at a real browser: what they see, press and type, and what axe-core says of a page."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.server.conftest import until

_AXE = files("axe_playwright_python") / "axe.min.js"
_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {runOnly: ['wcag2a', 'wcag2aa']}).then(found => done(found.violations.map(
  each => each.id + ': ' + each.nodes.map(node => node.html.slice(0, 150) + ' | ' + node.failureSummary).join('; '))));
"""
WIDTHS = {"desktop": 1280, "phone": 360}


@contextmanager
def _page_may_change() -> Iterator[None]:
    """An element that the page gave up while the driver was at it: ChromeDriver has two ways to say so."""
    try:
        yield
    except WebDriverException as error:
        if not ("stale element" in (error.msg or "") or "does not belong to the document" in (error.msg or "")):
            raise


def _left(element: WebElement) -> bool:
    """Whether the page that an element stood on is gone."""
    with _page_may_change():
        element.is_enabled()
        return False
    return True


class Browser:
    """A driver, and the address of the console."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver, self.url = driver, url

    def looks(self, *, width: int = 1280, dark: bool = False) -> None:
        """Be a window ``width`` CSS pixels wide, of who likes it dark or light."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, path: str) -> None:
        self.driver.get(f"{self.url}/console/{path}")

    def sign_in(self, key: str) -> None:
        self.driver.delete_all_cookies()
        self.open("sign-in")
        self.type("#key", key)
        before = self.find("main")
        self.press("Sign in")
        # Opening another page at once would give up the form under way, and nobody be signed in.
        until(lambda: _left(before))

    def find(self, selector: str) -> WebElement:
        return until(lambda: next(iter(self.driver.find_elements(By.CSS_SELECTOR, selector)), None))

    def type(self, selector: str, text: str) -> None:
        self.find(selector).send_keys(text)

    def choose(self, path: Path) -> None:
        """Choose a file to upload."""
        self.find('input[type="file"]').send_keys(str(path))

    def press(self, text: str) -> None:
        """The button or link that says ``text``."""
        wanted = f"//main//*[self::button or self::a][normalize-space()='{text}']"
        try:
            until(lambda: self._clicks(wanted))
        except AssertionError:
            raise AssertionError(f"there is no {text!r} in: {self.text()}") from None

    def _clicks(self, wanted: str) -> bool:
        """Whether there is what an XPath names, and it could be clicked."""
        for element in self.driver.find_elements(By.XPATH, wanted):
            with _page_may_change():
                element.click()
                return True
        return False

    def text(self, selector: str = "main") -> str:
        """What stands there, as text: read again where the page changed meanwhile."""

        def read() -> str | None:
            with _page_may_change():
                return self.find(selector).text
            return None

        return until(lambda: [text] if (text := read()) is not None else None)[0]

    def sees(self, text: str, selector: str = "main") -> None:
        """Wait until ``text`` stands there."""

        def there() -> bool:
            with _page_may_change():
                return text in self.text(selector)
            return False

        try:
            until(there)
        except AssertionError:
            raise AssertionError(f"{text!r} is not in: {self.text(selector)}") from None

    def violations(self) -> list[str]:
        """What axe-core finds wrong by WCAG 2, A and AA."""
        self.driver.execute_script(_AXE.read_text(encoding="utf-8"))
        found: list[str] = self.driver.execute_async_script(_RUN)
        return found

    def errors(self) -> list[str]:
        """What the browser's console complains of, such as what the page's policy refused to load."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
