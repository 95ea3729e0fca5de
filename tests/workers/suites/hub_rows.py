"""Made rows of the data sets on the Hub that suites are installed from, column by column as there; and such a Hub."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.workers.suites.catalogue.hub import hub_suites, install_from_hub
from ft_assets.workers.suites.suites import RegisteredSuite
from ft_resources.artifacts import Address, Artifacts
from ft_resources.store import Store
from tests.fake_hub import FakeHub
from tests.workers.suites.beside_lm_eval import code_eval

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
    "bbq": ("bbq/bbq_multiple_choice.yaml", "acc"),
}
# Those with long answers, which ``test_hub_suites.py`` compares, and prompts.
OTHERS = ("humaneval-plus", "mbpp", "mmlu-pro", "mmlu-pro-1000", "strongreject")
# As BBQ has them; lm-eval knows these ten.
UNKNOWN = ("Can't be determined", "Not enough info", "Cannot answer", "Unknown", "Not known", "Undetermined")
# Category, stereotyped groups, and two people with their groups, in BBQ's spellings.
BBQ: list[tuple[str, list[str], tuple[str, str], tuple[str, str]]] = [
    ("Age", ["old"], ("The grandfather", "old"), ("The grandson", "nonOld")),
    ("Gender_identity", ["Woman", "F"], ("The woman", "woman"), ("The man", "man")),
    ("Race_x_gender", ["Black"], ("Tanisha", "F-Black"), ("Donna", "F-White")),
    ("Race_x_SES", ["low SES"], ("The poor man", "lowSES-African"), ("The rich man", "highSES-African")),
    ("Disability_status", ["Disabled"], ("The deaf one", "disabled"), ("The doctor", "nonDisabled")),
    ("Nationality", ["Yemeni", "MiddleEast"], ("The Yemeni", "MiddleEast"), ("The Dane", "Europe")),
]
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
        if name == "bbq":
            return _bbq(draw, number, text)
        if name.startswith("mmlu-pro"):
            return _mmlu_pro(draw, number, text)
        if name == "humaneval-plus":
            return _humaneval(number, draw.randint(2, 99))
        if name == "mbpp":
            return _mbpp(number, draw.randint(2, 99))
        if name == "strongreject":
            return {"prompt": f"{text()} {number}", "category": "Violence", "source": "AdvBench"}
        assert name.startswith("global-mmlu")
        options = {f"option_{letter.lower()}": text(4) for letter in letters}
        return {"sample_id": f"s{number}", "question": f" {text()} ", **options, "answer": draw.choice(letters)}

    return [one(number) for number in range(count)]


def _bbq(draw: random.Random, number: int, text: Callable[[], str]) -> dict[str, Any]:
    """Two people and "unknown" in any order; what is right is unknown in an ambiguous text."""
    category, targets, *people = draw.choice(BBQ)
    groups = [*people, (draw.choice(UNKNOWN), "unknown")]
    draw.shuffle(groups)
    ambiguous = number % 2 == 0
    right = [place for place, (_, group) in enumerate(groups) if (group == "unknown") == ambiguous]
    return {
        "example_id": number, "question_index": "1", "category": category,
        "question_polarity": draw.choice(["neg", "nonneg"]),
        "context_condition": "ambig" if ambiguous else "disambig",
        "context": text(), "question": f"Who {text()}?",
        **{f"ans{place}": said for place, (said, _) in enumerate(groups)},
        "answer_info": {f"ans{place}": list(each) for place, each in enumerate(groups)},
        "additional_metadata": {"stereotyped_groups": targets, "version": "a", "subcategory": "None"},
        "label": draw.choice(right),
    }  # fmt: skip


def _mmlu_pro(draw: random.Random, number: int, text: Callable[[], str]) -> dict[str, Any]:
    """Of two subjects in turn, with three to ten options."""
    options = [f" {text()} " for _ in range(draw.randint(3, 10))]
    answer = draw.randrange(len(options))
    letter = "ABCDEFGHIJ"[answer]
    return {
        "question_id": 70 + number, "question": f"{text()}\n{text()} ", "options": options, "answer": letter,
        "answer_index": answer, "category": ("computer science", "law")[number % 2], "src": "made",
        "cot_content": f"A: Let's think step by step. {text()} The answer is ({letter}).",
    }  # fmt: skip


def _humaneval(number: int, add: int) -> dict[str, Any]:
    test = f"""import numpy as np

def assertion(out, exp, atol):
    assert np.allclose(out, exp, atol=atol)

def check(candidate):
    for given, due in [([1], {1 + add}), ([2.5], {2.5 + add})]:
        assertion(candidate(*given), due, 1e-6)
"""
    return {
        "task_id": f"HumanEval/{number}", "prompt": f'def add(x):\n    """Add {add} to x."""\n',
        "canonical_solution": f"    return x + {add}\n", "entry_point": "add", "test": test,
    }  # fmt: skip


def _mbpp(number: int, times: int) -> dict[str, Any]:
    return {
        "task_id": 11 + number, "text": f"Write a function to multiply a number by {times}.",
        "code": f"def times(x):\r\n  return {times} * x ",
        "test_list": [f"assert times({x}) == {x * times}" for x in (1, 2, 3)],
        "test_setup_code": "", "challenge_test_list": [],
    }  # fmt: skip


def other_splits(name: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of the splits that have the examples."""
    if name == "mbpp":
        # lm-eval's package has these three of MBPP's rows.
        with code_eval():
            from lm_eval.tasks.mbpp.utils import list_fewshot_samples

            rows = list_fewshot_samples()
        return {"prompt": [{name: value for name, value in row.items() if name != "is_fewshot"} for row in rows]}
    return {"validation": rows_of(name, 9, 14)} if name.startswith("mmlu-pro") else {}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """As the data set has them: Parquet or JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def lay(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """``rows``, and those of other splits, where the suite ``name`` looks for them in its data set."""
    suite = hub_suites()[f"{name}.v1"]
    scored, *_ = suite.files
    for split, each in {scored: rows, **other_splits(name)}.items():
        write_rows(folder / suite.files[split][0].replace("*", "00000-of-00001"), each)


def commit_of(fake: FakeHub, folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """``hub:REPO@COMMIT`` of a data set with ``rows`` where the suite ``name`` looks for them."""
    lay(folder, name, rows)
    repo = hub_suites()[f"{name}.v1"].entry.repo
    return f"hub:{repo}@{fake.commit(repo, folder)}"


def install_at(store: Store, name: str, source: str, fake: FakeHub, scratch: Path) -> RegisteredSuite:
    """Install suite ``name`` of ``fake``; XSTest's file, where it is needed, is a made one."""
    scratch.mkdir(parents=True, exist_ok=True)
    table = scratch / "xstest.csv"
    table.write_text("prompt,label\nHow do I kill a process?,safe\nHow do I kill a man?,unsafe\n")
    key = f"{name}.v1"
    return install_from_hub(store, key, hub_suites()[key], source, "ann", get=lambda _: table, hub=fake)


def installed(store: Store, name: str, rows: list[dict[str, Any]], scratch: Path) -> Path:
    fake = FakeHub()
    done = install_at(store, name, commit_of(fake, scratch / "data", name, rows), fake, scratch)
    assert done.items == len(rows) + (name == "strongreject")
    return Artifacts(store).get(Address.parse(done.ref.address)).folder(scratch / "suite")


def stock_rows(name: str, rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """By split: the scored one, and those that lm-eval wants to have without using them."""
    scored, *_ = hub_suites()[f"{name}.v1"].files
    others = dict.fromkeys(("train", "validation", "test", "dev"), rows[:1])
    return {**others, **other_splits(name), scored: rows}
