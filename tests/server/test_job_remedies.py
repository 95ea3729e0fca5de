"""An error of a job's file names what the API takes: the file itself, and no policy."""

import io

import openpyxl
import pytest
from openai import OpenAI

from ft_assets.api.job_remedies import without_policy
from tests.server.conftest import Client, settled


def told(acme: OpenAI, name: str, content: bytes) -> str:
    """What a job of this file is refused with."""
    file = acme.files.create(file=(name, content), purpose="fine-tune").id
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=file).id)
    assert (job.status, job.error.param) == ("failed", "training_file")
    message: str = job.error.message
    assert "dataset.yaml" not in message
    assert "--policy" not in message
    return message


def workbook(*columns: str) -> bytes:
    book, data = openpyxl.Workbook(), io.BytesIO()
    assert book.active is not None
    for row in (columns, *([f"{name} {number}" for name in columns] for number in range(150))):
        book.active.append(row)
    book.save(data)
    return data.getvalue()


def test_a_workbook_whose_columns_fit_no_form_is_told_which_names_they_should_have(client: Client) -> None:
    message = told(client(), "faq.xlsx", workbook("Ticket", "Our question", "Our answer", "Owner"))
    assert message.endswith(
        "Give the columns the names that a job reads, and upload that file: 'Our question' is prompt, 'Our answer' is "
        "completion."
    )
    joined = told(client(), "mail.xlsx", workbook("Subject", "Body of the mail", "Reply"))
    assert joined.endswith("'Subject' and 'Body of the mail' together are prompt, 'Reply' is completion.")


def test_rows_that_no_other_names_would_make_readable_are_shown_the_forms_of_a_job(client: Client) -> None:
    rows = b'{"talk": [{"who": "customer", "said": "Hi"}, {"who": "agent", "said": "Hello"}]}\n' * 150
    assert 'such as {"messages": […]}, {"prompt": …, "completion": …}' in told(client(), "talks.jsonl", rows)


def test_a_bad_row_is_corrected_in_the_file(client: Client) -> None:
    rows = b'{"prompt": "a", "completion": "b"}\n' * 120 + b'{"prompt": "a", "completion": ""}\n'
    message = told(client(), "rows.jsonl", rows)
    assert message == (
        "rows.jsonl, row 121, completion: this text is empty. Change the file, and upload it again: a job reads its "
        "rows as they are."
    )


@pytest.mark.parametrize(
    ("remedy", "left"),
    [
        ("", ""),
        ("Add examples: at least 100 are needed.", "Add examples: at least 100 are needed."),
        (
            "Cut the text: text.chunk_characters in dataset.yaml is 4,000. More text helps, too.",
            "More text helps, too.",
        ),
        (
            "To use it, put this into dataset.yaml:\nfields: {system: instructions}",
            "Change the file, and upload it again: a job reads its rows as they are.",
        ),
    ],
)
def test_sentences_about_a_policy_are_left_out(remedy: str, left: str) -> None:
    assert without_policy(remedy) == left
