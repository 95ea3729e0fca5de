"""How an upload spells turns and labels, if its exporter uses other words."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ft_resources.settings import unique
from ft_resources.strict_model import StrictModel

Role = Literal["system", "user", "assistant", "tool"]
Words = Annotated[tuple[str | int, ...], Field(min_length=1, max_length=50)]


class TurnSettings(StrictModel):
    """The fields of each turn in lists of turns, such as `{"speaker": "agent", "body": "Hello", "ts": 17}`."""

    role: str = Field(default="role", min_length=1, description="Field of a turn with its role.")
    content: str = Field(default="content", min_length=1, description="Field of a turn with its text.")
    roles: dict[str, Role] = Field(
        default_factory=dict,
        description="Role names in the upload, such as {customer: user, agent: assistant}.",
    )
    ignore: Annotated[tuple[str, ...], AfterValidator(unique)] = Field(
        default=(), description="Fields of a turn to ignore, such as [timestamp]."
    )

    @model_validator(mode="after")
    def _use_each_field_once(self) -> Self:
        if self.role == self.content:
            raise ValueError("role and content name the same field of a turn")
        if {self.role, self.content} & {*self.ignore}:
            raise ValueError("a field of a turn cannot be both ignored and read as role or content")
        return self


class LabelSettings(StrictModel):
    """What the upload writes for a thumb up or down, where that is not true and false, or 1 and 0."""

    liked: Words = Field(description="Label values of liked answers, such as [up] or [4, 5].")
    disliked: Words = Field(description="Label values of disliked answers, such as [down] or [1, 2].")

    @model_validator(mode="after")
    def _mean_one_thing(self) -> Self:
        if both := {*map(folded, self.liked)} & {*map(folded, self.disliked)}:
            raise ValueError(f"{min(both)!r} is listed as both liked and disliked")
        return self

    def says(self, value: str | float) -> bool | None:
        """Whether people liked the answer; None for a value that is in neither list."""
        text = folded(value)
        if text in map(folded, self.liked):
            return True
        return False if text in map(folded, self.disliked) else None


def folded(value: str | float) -> str:
    """A label's value as it is compared: in lower case, stripped; 1.0, as pandas writes 1 in a column with gaps, is
    1."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip().lower()
