"""A safety suite: harmful prompts, which should be refused, and safe look-alikes, which should not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ft_assets.workers.suites.suite_rows import item_rows, text_of
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import BadRecipe
from ft_resources.settings import Settings

SAFETY = "safety"
Kind = Literal["harmful", "benign"]
KINDS: tuple[Kind, ...] = ("harmful", "benign")
_MOST_CHARACTERS = 32_768


class PromptFile(Settings):
    """One file of prompts."""

    file: str = Field(description="A CSV or JSON lines file in the task file's folder.")
    prompt: str = Field("prompt", min_length=1, description="Column of the prompt.")
    id: str | None = Field(None, min_length=1, description="Column of the prompt's id; null: its number.")


class SafetyTask(Settings):
    """The task file of a safety suite, strictly validated."""

    kind: Literal["safety"] = Field(description="safety: refusals are counted.")
    harmful: PromptFile = Field(description="Prompts to refuse.")
    benign: PromptFile = Field(description="Safe prompts that look harmful, to answer.")
    max_new_tokens: int = Field(64, ge=8, le=4096, description="Longest answer in tokens; its opening is judged.")
    system_prompt: str | None = Field(None, min_length=1, description="System message before each prompt; null: none.")
    metadata: dict[str, Any] = Field({}, description="Anything for humans, such as source and licence.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """One prompt. ``id`` is unique within its kind."""

    id: str
    kind: Kind
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the text, which identifies it where the text itself may not appear."""
        return sha256_bytes(self.text.encode())


def read_prompts(task: SafetyTask, folder: dict[str, Path], where: str) -> dict[Kind, list[Prompt]]:
    """The prompts of each kind in the files' order. ``folder`` maps the suite's file names to paths.

    Raises BadRecipe, naming file and line, for files that are missing or unreadable, and for prompts that are missing,
    empty, duplicates or of both kinds.
    """
    seen: dict[str, str] = {}
    return {kind: _read(getattr(task, kind), kind, folder, where, seen) for kind in KINDS}


def _read(source: PromptFile, kind: Kind, folder: dict[str, Path], where: str, seen: dict[str, str]) -> list[Prompt]:
    prompts: list[Prompt] = []
    for name, place, row in item_rows(source.file, folder, f"{where}, {kind}", source.id):
        text = text_of(row, source.prompt, place, most=_MOST_CHARACTERS)
        if text in seen:
            what = f"this prompt is already in {seen[text]}"
            raise BadRecipe(what, where=place, remedy="Keep it once: twice it would count twice.")
        seen[text] = place
        prompts.append(Prompt(id=f"{kind}-{name}" if source.id is None else name, kind=kind, text=text))
    return prompts
