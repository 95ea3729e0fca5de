"""Items that an installed package contains as examples in its prompts."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from ft_assets.workers.suites.catalogue.parts import LETTERS, write_lines
from ft_resources.settings import Settings

_ITEM = re.compile(
    r"(?P<question>.*?)\s*\n\(A\) (?P<choice0>.*?)\s*\(B\) (?P<choice1>.*?)\s*\(C\) (?P<choice2>.*?)\s*"
    r"\(D\) (?P<choice3>.*?)\nA: .*?\(?(?P<answer>[A-D])\)\.?",
    re.DOTALL,
)
# What is left of a TeX command whose backslash was read as an escape.
_BROKEN = re.compile(r"[\x00-\x09\x0b-\x1f]|^actorial\{", re.MULTILINE)


class Printed(Settings):
    """The questions of MMLU's examples in lm-eval's ``mmlu_flan_cot_fewshot``, without their reasoning.

    Questions that this copy garbles are left out, and those whose answer is not one of the four.
    """

    kind: Literal["printed"] = Field(description="printed: a JSON object of subject to its examples as one text.")
    file: str = Field(description="SOURCE/NAME.")

    def needs(self, known: Mapping[str, Sequence[str]]) -> list[str]:
        """See conversions.Copy."""
        return [self.file]

    def write(self, files: Mapping[str, Path], folder: Path) -> None:
        """See conversions.Copy."""
        rows = []
        for subject, text in json.loads(files[self.file].read_bytes()).items():
            for number, block in enumerate(re.split(r"(?:^|\n)Q: ", text)[1:], start=1):
                found = _ITEM.fullmatch(block.strip())
                if found is None or _BROKEN.search(block.partition("\nA: ")[0]):
                    continue
                about = {"id": f"{subject}-{number}", "subject": subject.replace("_", " ")}
                rows.append({**about, **found.groupdict(), "answer": LETTERS.index(found["answer"])})
        write_lines(folder / "items.jsonl", rows)
