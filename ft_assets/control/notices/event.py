"""A notice's content: numbers, names and sentences; never a row's text or a secret."""

from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.records.failures import Blame
from ft_assets.settings.keys import SHARED
from ft_assets.settings.notices import EventKind
from ft_resources.messages import Message
from ft_resources.records import Record


class Event(Record):
    """One thing that happened."""

    WHAT: ClassVar[str] = "the event"

    version: Literal[1] = 1
    id: str = Field(description="Derived from the record: the same for every reader of it.")
    kind: EventKind
    tenant: str = Field(description="The tenant; `shared` for the platform itself.")
    subject: str = Field(description="Submission, line, dataset, recipe or run.")
    title: str = Field(description="One line.")
    at: str = Field(description="When it happened; UTC, ISO 8601.")
    facts: dict[str, str] = Field(default_factory=dict, description="Names and addresses.")
    details: tuple[str, ...] = Field(default=(), description="Sentences.")
    cause: str = Field(default="", description="For a failure: the kind of ending, in the words of the outcome table.")
    blame: Blame = Field(default="", description="For a failure: whether the user or the platform is at fault.")
    remedy: str = Field(default="", description="What to do.")
    suggestions: tuple[str, ...] = Field(default=(), description="For a rejection: what to try next.")

    @property
    def is_platforms(self) -> bool:
        return self.tenant == SHARED

    def message(self) -> Message:
        """The event as it is sent."""
        return Message(
            id=self.id,
            payload=self.model_dump(mode="json"),
            subject=f"[{self.tenant}] {self.title}",
            text=self.text(),
        )

    def text(self) -> str:
        """The event for people."""
        lines = [self.title, "", *self.details]
        lines += [f"Cause: {self.cause} ({self.blame or 'unclear'})"] if self.cause else []
        lines += [f"What to do: {self.remedy}"] if self.remedy else []
        if self.suggestions:
            lines += ["", "What to try:", *(f"- {each}" for each in self.suggestions)]
        lines += [
            "",
            *(f"{name}: {value}" for name, value in self.facts.items()),
            f"at: {self.at}",
            f"event: {self.id}",
        ]
        return "\n".join(lines) + "\n"
