"""A job reads the columns of its file as it says, or as a first try guesses them."""

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import openai
import openpyxl
import pytest
from openai import OpenAI

from ft_assets import api
from ft_assets.control.identity import raw_dataset
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.artifacts import Artifacts
from tests.e2e.project import Project
from tests.server.conftest import Client, settled

COLOURS = ("red", "green", "blue", "grey")


def table(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def workbook(rows: list[dict[str, Any]]) -> bytes:
    book, data = openpyxl.Workbook(), io.BytesIO()
    assert book.active is not None
    for row in (list(rows[0]), *(list(row.values()) for row in rows)):
        book.active.append(row)
    book.save(data)
    return data.getvalue()


MAILS = workbook([{"Subject": f"Nr {n}", "Body of the mail": f"Where is {n}?", "Reply": f"{n}"} for n in range(160)])
FAQ = table([{"Nr": n, "Our question": f"What is {n}?", "Our answer": f"It is {n * n}."} for n in range(160)])
ODD = table([{"aa": f"What is {n}?", "bb": f"It is {n * n}.", "cc": f"{n} of them"} for n in range(160)])
CLASSES = table([{"text": f"Thing {n} is on the table", "label": COLOURS[n % 4]} for n in range(160)])
THUMBS = table([{"ask": f"Is it {n}?", "reply": f"It is {n}.", "vote": "up" if n % 2 else "down"} for n in range(160)])
TALKS = "".join(
    json.dumps({"talk": [{"who": "customer", "said": f"Hi {n}"}, {"who": "agent", "said": f"Hello {n}"}]}) + "\n"
    for n in range(160)
).encode()


def job_of(acme: OpenAI, name: str, content: bytes, method: str = "supervised", **more: Any) -> Any:
    file = acme.files.create(file=(name, content), purpose="fine-tune").id
    asked = {"method": {"type": method, method: {}}, "suffix": "rows", **more}
    return settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=file, extra_body=asked).id)


def policy_of(project: Project, job: Any) -> DatasetPolicy:
    raw = raw_dataset(Artifacts(project.store), job.model_extra["ft"]["dataset"])
    with tempfile.TemporaryDirectory() as folder:
        return DatasetPolicy.model_validate_json(raw.path("policy.json", Path(folder)).read_bytes())


@pytest.mark.parametrize(
    ("name", "content", "method", "fields"),
    [
        ("faq.csv", FAQ, "supervised", {"prompt": "Our question", "completion": "Our answer"}),
        ("mails.xlsx", MAILS, "supervised", {"prompt": ("Subject", "Body of the mail"), "completion": "Reply"}),
        ("mood.csv", CLASSES, "supervised", {"prompt": "text", "completion": "label"}),
        ("talks.jsonl", TALKS, "supervised", {"messages": "talk"}),
        ("votes.csv", THUMBS, "kto", {"prompt": "ask", "completion": "reply", "label": "vote"}),
    ],
)
def test_columns_are_guessed_as_for_a_first_try(
    client: Client, project: Project, name: str, content: bytes, method: str, fields: dict[str, Any]
) -> None:
    job = job_of(client(), name, content, method)
    assert job.status == "queued", job.error
    assert job.method.type == method
    assert policy_of(project, job).fields == fields


def test_columns_that_no_guess_is_sure_of_are_refused_with_what_to_send(client: Client) -> None:
    job = job_of(client(), "odd.csv", ODD)
    assert (job.status, job.error.param) == ("failed", "training_file")
    assert '"rows": {"fields": {"prompt": …, "completion": …}}' in job.error.message
    assert "dataset.yaml" not in job.error.message


def test_a_job_says_how_its_rows_are_read(client: Client, project: Project) -> None:
    rows = {"form": "prompt/completion", "fields": {"prompt": ["aa", "cc"], "completion": "bb"}}
    job = job_of(client(), "odd.csv", ODD, rows=rows)
    assert job.status == "queued", job.error
    assert policy_of(project, job).fields == {"prompt": ("aa", "cc"), "completion": "bb"}


@pytest.mark.parametrize(
    "rows",
    [
        {"fields": {"promt": "aa"}},
        {"form": "chat"},
        {"columns": {"prompt": "aa"}},
        {"source": {"uri": "file:///etc"}},
        {"mix": [{"dataset": "other.secret.v1", "share": 0.1}]},
    ],
)
def test_what_does_not_say_how_rows_are_read_is_refused_at_once(client: Client, rows: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        job_of(client(), "odd.csv", ODD, rows=rows)
    assert "rows" in str(refused.value)


def test_rows_of_another_kind_than_the_method_learns_from_are_told(client: Client) -> None:
    texts = "".join(json.dumps({"text": f"The story of thing {n} goes on and on."}) + "\n" for n in range(160)).encode()
    job = job_of(client(), "book.jsonl", texts)
    assert job.error.message.startswith("book.jsonl: the rows are text data, and sft learns from chat data.")
    assert job_of(client(), "book.jsonl", texts, "cpt").status == "queued"


def test_the_guess_of_a_job_is_that_of_a_first_try(client: Client, project: Project) -> None:
    file = project.folder / "faq.csv"
    file.write_bytes(FAQ)
    added = api.submit(file, base="folder:./base", name="acme.rows", store=project.store)
    job = job_of(client(), "faq.csv", FAQ)
    assert job.model_extra["ft"]["dataset"] == added.submission.dataset == "acme.rows.v1"
