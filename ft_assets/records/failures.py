"""Why something failed: recorded once, shown by the CLI, the HTTP API and the pages."""

from typing import Literal

from pydantic import Field

from ft_resources.strict_model import StrictModel, added_field

Blame = Literal["", "user", "platform", "unclear"]


class Failure(StrictModel):
    """Why something failed. No text here may quote data: it is sent to people outside, and outlives an erasure."""

    asset: str = Field(default="", description="The asset whose work failed; empty if no work had begun.")
    cause: str = Field(description="The kind of ending.")
    blame: Blame
    sentence: str = Field(default="", description="What was wrong, if it may be shown.")
    where: str = ""
    remedy: str = ""
    attempt: str = added_field("", description="Path of the failed attempt, whose record has the worker's own words.")

    @property
    def reason(self) -> str:
        """One sentence: which asset, the kind of ending, and what was wrong."""
        return ": ".join(filter(None, (self.asset, self.cause, self.sentence)))
