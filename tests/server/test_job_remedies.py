"""An error of a job's file names what the API takes: the file itself, and no policy."""

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


def test_rows_whose_columns_no_guess_reads_are_told_how_to_say_what_they_hold(client: Client) -> None:
    rows = b'{"first": 1, "second": 2}\n' * 150
    message = told(client(), "numbers.jsonl", rows)
    assert 'by "rows": {"fields": {"prompt": …, "completion": …}} in the request' in message
    assert '{"messages": […]}, {"prompt": …, "completion": …} or {"text": …}' in message


def test_a_bad_row_is_corrected_in_the_file(client: Client) -> None:
    rows = b'{"prompt": "a", "completion": "b"}\n' * 120 + b'{"prompt": "a", "completion": ""}\n'
    message = told(client(), "rows.jsonl", rows)
    assert message == (
        "rows.jsonl, row 121, completion: this text is empty. Correct the file and upload it again: a job "
        "uses its rows unchanged."
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
            "Correct the file and upload it again: a job uses its rows unchanged.",
        ),
    ],
)
def test_sentences_about_a_policy_are_left_out(remedy: str, left: str) -> None:
    assert without_policy(remedy) == left
