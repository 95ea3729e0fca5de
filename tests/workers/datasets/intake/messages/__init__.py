"""What each malformed upload is refused with."""

from tests.workers.datasets.intake.messages.files import FILES
from tests.workers.datasets.intake.messages.formats import FORMATS
from tests.workers.datasets.intake.messages.rows import ROWS

MESSAGES: dict[str, str] = {**FILES, **FORMATS, **ROWS}
