"""A safety suite: harmful prompts, which are to be refused, and safe ones that look like them, which are not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ft_assets.evals.suite_rows import read_rows
from ft_assets.recipes.settings import Settings
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import BadRecipe

SAFETY = "safety"
Kind = Literal["harmful", "benign"]
KINDS: tuple[Kind, ...] = ("harmful", "benign")
_MOST_CHARACTERS = 32_768
_ENDINGS = (".csv", ".jsonl", ".json")


class PromptFile(Settings):
    """One file of prompts."""

    file: str = Field(description="A CSV or JSON lines file that lies beside the task file.")
    prompt: str = Field("prompt", min_length=1, description="Column of the prompt.")
    id: str | None = Field(None, min_length=1, description="Column of the prompt's id; null: its number.")


class SafetyTask(Settings):
    """The task file of a safety suite, strictly read."""

    kind: Literal["safety"] = Field(description="safety: refusals are counted.")
    harmful: PromptFile = Field(description="Prompts to refuse.")
    benign: PromptFile = Field(description="Safe prompts that look harmful, to answer.")
    max_new_tokens: int = Field(64, ge=8, le=4096, description="Longest answer in tokens; its opening is judged.")
    system_prompt: str | None = Field(None, min_length=1, description="System message before each prompt; null: none.")
    metadata: dict[str, Any] = Field({}, description="Anything for humans, such as source and licence.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """One prompt. ``id`` differs within its kind."""

    id: str
    kind: Kind
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the text, which names it where the text itself may not stand."""
        return sha256_bytes(self.text.encode())


def read_prompts(task: SafetyTask, folder: dict[str, Path], where: str) -> dict[Kind, list[Prompt]]:
    """The prompts of each kind in the files' order. ``folder`` maps the suite's file names to paths.

    Raises BadRecipe, naming file and line, for files that are missing or unreadable, and for prompts that are missing,
    empty, there twice or of both kinds.
    """
    seen: dict[str, str] = {}
    prompts = {kind: _read(getattr(task, kind), kind, folder, where, seen) for kind in KINDS}
    for kind in KINDS:
        if not prompts[kind]:
            raise BadRecipe(f"there are no {kind} prompts", where=where, remedy="Add prompts to its file.")
    return prompts


def _read(source: PromptFile, kind: Kind, folder: dict[str, Path], where: str, seen: dict[str, str]) -> list[Prompt]:
    if source.file not in folder or not source.file.endswith(_ENDINGS):
        raise BadRecipe(
            f"{kind}.file: {source.file!r} is not a CSV or JSON lines file of this folder",
            where=where,
            remedy="Name a .csv, .jsonl or .json file that lies beside the task file.",
        )
    prompts: list[Prompt] = []
    ids: set[str] = set()
    for place, row in read_rows(folder[source.file]):
        for column in (source.prompt, source.id):
            if column is not None and column not in row:
                remedy = f"Name a column of {source.file} in {kind}.prompt and {kind}.id, or add it."
                raise BadRecipe(f"there is no column {column!r}", where=place, remedy=remedy)
        text = row[source.prompt]
        _check_text(text, place)
        if text in seen:
            what = f"this prompt stands in {seen[text]} already"
            raise BadRecipe(what, where=place, remedy="Keep it once: twice it would count twice.")
        seen[text] = place
        name = f"{kind}-{len(prompts) + 1}" if source.id is None else row[source.id]
        if not isinstance(name, str | int) or not str(name) or str(name) in ids:
            raise BadRecipe("this prompt has no id of its own", where=place, remedy="Give each prompt its own id.")
        ids.add(str(name))
        prompts.append(Prompt(id=str(name), kind=kind, text=text))
    return prompts


def _check_text(text: Any, where: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise BadRecipe("the prompt is empty or no text", where=where, remedy="Give every row a prompt.")
    if len(text) > _MOST_CHARACTERS:
        raise BadRecipe(f"the prompt is longer than {_MOST_CHARACTERS:,} characters", where=where, remedy="Shorten it.")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadRecipe("the prompt holds half of a surrogate pair", where=where, remedy="Correct its text.")
