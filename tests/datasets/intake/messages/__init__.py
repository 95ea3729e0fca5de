"""What each malformed upload is refused with."""

from tests.datasets.intake.messages.files import FILES
from tests.datasets.intake.messages.formats import FORMATS
from tests.datasets.intake.messages.rows import ROWS

MESSAGES: dict[str, str] = {**FILES, **FORMATS, **ROWS}
