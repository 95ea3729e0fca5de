"""Kind ``instructions``: prompts with instructions that a program can check, as in IFEval.

Zhou et al. 2023, "Instruction-Following Evaluation for Large Language Models" (https://arxiv.org/abs/2311.07911). An
item counts if all its instructions are followed ("prompt-level strict", section 2); loose accuracy and the shares of
single instructions (sections 2.2 and 3) are also reported. lm-eval's task needs downloads (a sentence model, a language
detector) and runs its own code; here ``checks.py`` does it offline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ft_assets.workers.suites.kinds.asking import Asking
from ft_assets.workers.suites.kinds.checks import CHECKS, Check, make_check
from ft_assets.workers.suites.score import Said, SuiteScore, suite_score
from ft_assets.workers.suites.suite_rows import item_rows, text_of
from ft_resources.errors import BadRecipe
from ft_resources.settings import Settings
from ft_resources.strict import nearest

METRIC = "prompt_strict"


class InstructionsTask(Settings):
    """The task file, strictly validated."""

    kind: Literal["instructions"] = Field(
        description="instructions: whether an answer follows all of a prompt's instructions."
    )
    file: str = Field(description="A file of items with prompt, instruction_id_list and kwargs, as IFEval's.")
    id: str | None = Field("key", min_length=1, description="Column of the item's id; null: its number.")
    max_new_tokens: int = Field(1280, ge=8, le=4096, description="Longest answer in tokens.")
    system_prompt: str | None = Field(None, min_length=1, description="System message before each prompt; null: none.")
    metadata: dict[str, Any] = Field({}, description="Anything for humans, such as source and licence.")


@dataclass(frozen=True, kw_only=True, slots=True)
class InstructionItem:
    """A prompt, and the names of the instructions that its answer must follow."""

    id: str
    prompt: str
    checks: tuple[tuple[str, Check], ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The prompt."""
        return (self.prompt,)


def read(task: InstructionsTask, files: Mapping[str, Path], where: str) -> list[InstructionItem]:
    """The items. Raises BadRecipe, naming the line, for instructions that are unknown or lack a setting."""
    return [
        InstructionItem(id=name, prompt=text_of(row, "prompt", place), checks=_checks(row, place))
        for name, place, row in item_rows(task.file, files, where, task.id)
    ]


def score(task: InstructionsTask, items: Sequence[InstructionItem], asking: Asking) -> SuiteScore:
    """Prompt-level strict accuracy, and the other three."""
    found = asking.answer_prompts(
        [item.prompt for item in items],
        system_prompt=task.system_prompt,
        max_new_tokens=task.max_new_tokens,
    )
    asked = [(items[place], answer) for place, answer in sorted(found.items())]
    strict = [[follows(check, answer) for _, check in item.checks] for item, answer in asked]
    loose = [[follows_loosely(check, answer) for _, check in item.checks] for item, answer in asked]
    return suite_score(
        METRIC,
        [item.id for item, _ in asked],
        [float(all(each)) for each in strict],
        [
            Said(question=item.prompt, target=", ".join(name for name, _ in item.checks), answer=answer)
            for item, answer in asked
        ],
        where=asking.where,
        also={
            "prompt_loose": _share([all(each) for each in loose]),
            "instruction_strict": _share([one for each in strict for one in each]),
            "instruction_loose": _share([one for each in loose for one in each]),
            "too_long": float(len(items) - len(asked)),
        },
    )


def follows(check: Check, answer: str) -> bool:
    """Whether the answer follows the instruction; an empty answer follows none."""
    return bool(answer.strip()) and check(answer)


def follows_loosely(check: Check, answer: str) -> bool:
    """Whether the answer or one of seven variants follows it: without asterisks, without its first line, its last, both
    (section 2.2)."""
    lines = answer.split("\n")
    cuts = [answer, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return any(follows(check, variant) for text in cuts for variant in (text, text.replace("*", "")))


def _checks(row: Mapping[str, Any], where: str) -> tuple[tuple[str, Check], ...]:
    names, settings = row.get("instruction_id_list"), row.get("kwargs")
    if not isinstance(names, list) or not isinstance(settings, list) or not names or len(names) != len(settings):
        raise BadRecipe(
            "instruction_id_list and kwargs are not two lists of one length",
            where=where,
            remedy="Give each instruction its settings, {} where it has none.",
        )
    checks = []
    for name, given in zip(names, settings, strict=True):
        if name not in CHECKS:
            remedy = "Use the instructions of docs/explanation/gates.md."
            what = f"there is no instruction {name!r}; {nearest(str(name), sorted(CHECKS))}"
            raise BadRecipe(what, where=where, remedy=remedy)
        checks.append((str(name), make_check(str(name), given, where)))
    return tuple(checks)


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values)
