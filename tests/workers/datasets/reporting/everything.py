"""A curation of texts in which each check finds something: a handbook, articles of a help desk, and a public test."""

import json
import random
from pathlib import Path
from typing import Any

from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.suites.encoders import add_encoder
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.store_marker import open_store
from tests.workers.datasets.conftest import register_suite, run_curation
from tests.workers.datasets.screening.conftest import MEANINGS, make_encoder

QUESTION = "Which vessel carries blood from the lungs back to the heart of an adult?"
CHOICES = ["The pulmonary vein", "The pulmonary artery", "The aorta", "The portal vein"]
ITEMS = [
    {"question": QUESTION, "choices": CHOICES, "answer": 0},
    {"question": "which organ makes insulin", "choices": ["pancreas", "liver"], "answer": 0},
]
GUIDE = """# Heat pumps

![a heat pump beside a house](pump.png) The outdoor unit needs a metre of free space on each side.

![the controller](controller.png)

Press the menu key for three seconds. ![menu](menu.png) The display then asks for the installer's code.
"""
# The parts of an article, of each of which one is drawn.
_PARTS = (
    ("boiler", "heat pump", "radiator", "thermostat", "solar panel", "water tank", "circulation pump", "gas meter"),
    ("makes a knocking noise", "does not start", "loses pressure", "shows error {n}", "is cold in the morning",
     "leaks at the valve", "turns itself off after {n} minutes", "runs at {n} percent all day"),
    ("after the holidays", "since the technician came", "in the attic", "on the second floor", "when it rains",
     "as soon as the dishwasher runs", "in mode {n}", "at less than {n} degrees outside"),
    ("Close the valve on the left, wait {n} minutes and open it again.", "Hold the reset key for {n} seconds.",
     "Read the number on the plate and send us a photograph of it.", "Let out the air until only water comes.",
     "Raise the heating curve by 0.{n} and look again tomorrow.", "Clean the filter behind the lower cover.",
     "Compare the clock with the hour of the timer, which may be {n} minutes late."),
    ("If the lamp stays red, the board has to be replaced, which takes about {n} days.",
     "Most customers report that it is quiet within {n} hours.", "A visit costs {n} euros and is free under warranty.",
     "It must not be opened by anyone but a technician of class {n}.", "The part has the number HX-{n}.",
     "Nothing else needs to be done before the yearly service in month {n}."),
)  # fmt: skip


def article(number: int, **fields: Any) -> dict[str, Any]:
    """A text of its own for each number."""
    draw = random.Random(f"article {number}")
    thing, trouble, when, first, then = (draw.choice(part).format(n=draw.randrange(3, 98)) for part in _PARTS)
    more, last = (draw.choice(part).format(n=draw.randrange(3, 98)) for part in _PARTS[3:])
    text = f"Ticket {number}: the {thing} {trouble} {when}. {first} {then} {more} {last} Closed by desk {number % 7}."
    return {"text": text, "author": f"a{number % 40}", "source": f"folder {number % 80}", **fields}


def curated_with_everything(folder: Path) -> Artifact:
    """The second version of a dataset, curated; ``report/report.html`` is its page."""
    store = open_store(f"file://{folder}/store", create=True)
    artifacts = Artifacts(store)
    encoder = make_encoder(folder / "encoder", [*MEANINGS, *((word,) for word in QUESTION[:-1].split())])
    inputs = {
        "suite:exam.v1": register_suite(store, folder / "exam", "exam.v1", ITEMS),
        "encoder": add_encoder(store, str(encoder), "tiny.v1", pooling="mean", actor="ann").ref,
    }
    old = [article(number) for number in range(240)]
    _version(artifacts, folder / "one", old, {"split": {"group_by": "author", "holdout": 0.05}})
    run_curation(artifacts, "acme.helpdesk.v1", folder)
    settings: dict[str, Any] = {
        "split": {"group_by": "source"},
        "on_bad_row": "drop",
        "personal_data": {"action": "scrub"},
        "contamination": {
            "action": "remove",
            "paraphrases": {"encoder": "tiny.v1", "threshold": 0.95, "action": "warn"},
        },
    }
    _version(artifacts, folder / "two", [*old, *_found()], settings)
    return run_curation(artifacts, "acme.helpdesk.v2", folder, inputs)


def _found() -> list[dict[str, Any]]:
    """Rows in each of which a check finds something."""
    asked = f"{QUESTION}\n" + "\n".join(f"{letter}. {said}" for letter, said in zip("ABCD", CHOICES, strict=True))
    near = [article(number)["text"] for number in range(20, 26)]
    texts = [
        near[0].replace("Closed by", "Closed today by"),
        near[1].upper(),
        near[2].replace(". ", ".\u200b "),
        " ".join(f"**{word}**" for word in near[3].split()),
        f"{near[4]} Thank you.",
        near[5].replace("Ticket", "Case"),
        near[0],
        f"{article(900)['text']} At lunch we did the quiz:\n{asked}",
        f"{article(901)['text']} {QUESTION.upper()} {CHOICES[0]}, of course.",
        "what gland produces insulin",
        f"{article(902)['text']} Call Maria Lopez at (212) 555-0187 or write to maria.lopez@kliniken-nord.de.",
        "Der Kessler im Keller ist aus. Bitte rufen Sie Herrn Weber unter 030 901820 an, er wohnt in der Lindenstraße.",
        f"{article(903)['text']} The gateway has AKIAQ3EGRIPA7SD2XKLM and "
        "aws_secret_access_key=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.",
        f"{article(904)['text']} Paid with 4111 1111 1111 1111 at the door.",
        *(f"{article(number)['text']} {article(number + 300)['text'][:110]}" for number in range(610, 613)),
    ]
    return [{"text": text, "author": f"n{at}", "source": f"new {at}"} for at, text in enumerate(texts)]


def _version(artifacts: Artifacts, folder: Path, rows: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    folder.mkdir()
    lines = [json.dumps(row) for row in rows]
    files = [folder / "tickets.jsonl"]
    if "on_bad_row" in settings:
        lines.append('{"text": 7, "source": "new"}')
        files.append(folder / "guide.md")
        files[1].write_text(GUIDE)
    files[0].write_text("\n".join(lines) + "\n")
    holdout = folder / "measured.jsonl"
    own = [article(number, source=f"own {number}") for number in range(600, 640)]
    holdout.write_text("".join(json.dumps(row) + "\n" for row in own))
    add_dataset_version(
        artifacts.store,
        files,
        tenant="acme",
        name="helpdesk",
        policy=DatasetPolicy.model_validate({"form": "text", **settings}, strict=False),
        actor="ann",
        holdout=[holdout] if "on_bad_row" in settings else [],
    )
