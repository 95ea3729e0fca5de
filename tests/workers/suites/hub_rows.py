"""Made rows of the data sets on the Hub that suites are installed from, column by column as there; and such a Hub."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.workers.suites.catalogue.hub import hub_suites, install_from_hub
from ft_resources.artifacts import Address, Artifacts
from ft_resources.store import Store
from tests.fake_hub import FakeHub

# lm-eval's own task file for each, and the metric that is compared.
STOCK = {
    "hellaswag": ("hellaswag/hellaswag.yaml", "acc_norm"),
    "arc-easy": ("arc/arc_easy.yaml", "acc_norm"),
    "arc-challenge": ("arc/arc_challenge.yaml", "acc_norm"),
    "winogrande": ("winogrande/default.yaml", "acc"),
    "boolq": ("super_glue/boolq/default.yaml", "acc"),
    "piqa": ("piqa/piqa.yaml", "acc_norm"),
    "lambada": ("lambada/lambada_openai.yaml", "acc"),
    "arithmetic-2da": ("arithmetic/arithmetic_2da.yaml", "acc"),
    "global-mmlu-de": ("global_mmlu/default/de/_de_template_yaml", "acc"),
    "wikitext": ("wikitext/wikitext.yaml", "byte_perplexity"),
}
WORDS = re.findall(r"\w+", "the fox house river question answer name other quick brown where what is it and a of to")
# As WikiText's tokens are, with all that is made readable again.
WIKI = re.findall(
    "[^|]+",
    ' = = Heading = = \n|the \'s @-@ shaped fox ( in 1 @,@ 000 houses ) , | he said " yes " : | [ 3 ] ; 20 ° N . |'
    "the brothers ' house| 1 @.@ 5 ! | { a } ? \n | = = = Deep = = = \n| ' quick ' ",
)


def rows_of(name: str, seed: int, count: int = 12) -> list[dict[str, Any]]:
    """``count`` rows of the data set of the suite ``name``."""
    draw = random.Random(f"{name} {seed}")

    def text(most: int = 12) -> str:
        end = draw.choice([".", "!", "", " [title]", " [sub] x"])
        return " ".join(draw.choices(WORDS, k=draw.randint(2, most))) + end

    def one(number: int) -> dict[str, Any]:
        letters = ["A", "B", "C", "D"]
        if name == "hellaswag":
            context = {"activity_label": text(3), "ctx_a": f" {text()}", "ctx_b": text()}
            return {**context, "endings": [text() for _ in letters], "label": str(draw.randrange(4)), "ind": number}
        if name.startswith("arc"):
            choices = {"text": [text() for _ in letters], "label": letters}
            return {"id": f"q{number}", "question": text(), "choices": choices, "answerKey": draw.choice(letters)}
        if name == "winogrande":
            options = {"option1": "Ann's fox", "option2": "the house"}
            return {"sentence": f"{text()} _ {text()}", **options, "answer": draw.choice("12")}
        if name == "boolq":
            return {"passage": text(20), "question": text(), "idx": number, "label": draw.randrange(2)}
        if name == "piqa":
            return {"goal": text(), "sol1": text(), "sol2": text(), "label": draw.randrange(2)}
        if name == "lambada":
            return {"text": f"{text(30)} {draw.choice(WORDS)}"}
        if name.startswith("arithmetic"):
            first, second = draw.randrange(100), draw.randrange(100)
            return {"context": f"\n\nQ: What is {first} plus {second}?\n\nA:", "completion": f" {first + second}"}
        if name == "wikitext":
            return {"page": "".join(draw.choice(WIKI) + text() for _ in range(draw.randint(3, 30)))}
        assert name.startswith("global-mmlu")
        options = {f"option_{letter.lower()}": text(4) for letter in letters}
        return {"sample_id": f"s{number}", "question": f" {text()} ", **options, "answer": draw.choice(letters)}

    return [one(number) for number in range(count)]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """As the data set has them: Parquet or JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def commit_of(fake: FakeHub, folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """``hub:REPO@COMMIT`` of a data set with ``rows`` where the suite ``name`` looks for them."""
    suite = hub_suites()[f"{name}.v1"]
    (patterns,) = suite.files.values()
    write_rows(folder / patterns[0].replace("*", "00000-of-00001"), rows)
    return f"hub:{suite.entry.repo}@{fake.commit(suite.entry.repo, folder)}"


def installed(store: Store, name: str, rows: list[dict[str, Any]], scratch: Path) -> Path:
    fake = FakeHub()
    done = install_from_hub(store, name, commit_of(fake, scratch / "data", name, rows), "ann", hub=fake)
    assert done.items == len(rows)
    return Artifacts(store).get(Address.parse(done.ref.address)).folder(scratch / "suite")


def stock_rows(name: str, rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """By split: the scored one, and those that lm-eval wants to have without using them."""
    (scored,) = hub_suites()[f"{name}.v1"].files
    return {split: rows if split == scored else rows[:1] for split in ("train", "validation", "test", "dev")}
