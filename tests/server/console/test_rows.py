"""The first step of a new job: how rows are guessed to be read, what may be chosen, and what the job makes of it."""

import csv
import gzip
import io
import json
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import httpx
import pyarrow as pa
import pytest

from ft_assets import api
from ft_assets.control.identity import raw_dataset
from ft_assets.control.registry.first_look import MOST_ROWS, look_at_beginning
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.artifacts import Artifacts
from tests.server.console.world import Someone, World
from tests.workers.datasets.intake.builders import parquet

N = 150
MOODS = ("glad", "sad", "cross", "calm")
CALL = {"type": "function", "function": {"name": "find", "arguments": '{"n": 1}'}}
TOOLS = [{"type": "function", "function": {"name": "find", "description": "finds", "parameters": {"type": "object"}}}]


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def talk(*said: tuple[str, str], role: str = "role", text: str = "content") -> list[dict[str, Any]]:
    return [{role: who, text: what} for who, what in said]


FAQ = [{"Nr": n, "Our question": f"What is {n}?", "Our answer": f"It is {n * n}."} for n in range(N)]
VOTES = [
    {"ask": f"Is it {n}?", "reply": f"It is {n}.", "vote": "up" if n % 2 else "maybe" if n < 24 else "down"}
    for n in range(N)
]
ODD = [{"aa": f"What is {n}?", "bb": f"It is {n * n}.", "cc": f"{n} of them"} for n in range(N)]
CHATS = [{"messages": talk(("user", f"Hi {n}"), ("assistant", f"Hello {n}"))} for n in range(N)]
CALLS = [
    {
        "messages": [
            {"role": "user", "content": f"Find {n}"},
            {"role": "assistant", "tool_calls": [{"id": "a", **CALL}]},
            {"role": "tool", "tool_call_id": "a", "content": "found"},
            {"role": "assistant", "content": f"I found {n}."},
        ],
        "tools": TOOLS,
    }
    for n in range(N)
]
# File, what its rows teach, and what is chosen at first of each column that is used.
FORMS: list[tuple[str, bytes, str, dict[str, str]]] = [
    ("chat.jsonl", lines(*CHATS), "chat", {"messages": "messages"}),
    # As many as are looked at together.
    (
        "chats.jsonl",
        lines(*({"messages": talk(("user", f"Q{n}"), ("assistant", f"A{n}"))} for n in range(200))),
        "chat",
        {"messages": "messages"},
    ),
    ("chat.jsonl.gz", gzip.compress(lines(*CHATS)), "chat", {"messages": "messages"}),
    ("chat.parquet", parquet(pa.Table.from_pylist(CHATS)), "chat", {"messages": "messages"}),
    ("calls.jsonl", lines(*CALLS), "chat", {"messages": "messages", "tools": "tools"}),
    (
        "gpt.json",
        json.dumps(
            [
                {"conversations": talk(("human", f"Hi {n}"), ("gpt", f"{n}"), role="from", text="value")}
                for n in range(N)
            ]
        ).encode(),
        "chat",
        {"conversations": "conversations"},
    ),
    (
        "own.jsonl",
        lines(*({"talk": talk(("customer", f"Hi {n}"), ("agent", f"{n}"), role="who", text="said")} for n in range(N))),
        "chat",
        {"talk": "messages"},
    ),
    ("faq.csv", table(FAQ), "chat", {"Our question": "prompt", "Our answer": "completion"}),
    (
        "alpaca.json",
        json.dumps([{"instruction": f"Add {n}", "input": "1", "output": f"{n + 1}"} for n in range(N)]).encode(),
        "chat",
        {"instruction": "instruction", "input": "input", "output": "output"},
    ),
    (
        "moods.tsv",
        table([{"text": f"Thing {n} was here", "label": MOODS[n % 4]} for n in range(N)]).replace(b",", b"\t"),
        "chat",
        {"text": "prompt", "label": "completion"},
    ),
    (
        "pairs.csv",
        table([{"question": f"Is it {n}?", "better": f"It is {n}.", "worse": f"No {n}"} for n in range(N)]),
        "preference",
        {"question": "prompt", "better": "chosen", "worse": "rejected"},
    ),
    (
        "liked.jsonl",
        lines(*({"prompt": f"Is it {n}?", "completion": f"{n}", "label": n % 2 == 0} for n in range(N))),
        "unpaired_preference",
        {"prompt": "prompt", "completion": "completion", "label": "label"},
    ),
    ("book.jsonl", lines(*({"text": f"The story of {n} goes on."} for n in range(N))), "text", {"text": "text"}),
    ("book.txt", "\n\n".join(f"Chapter {n}. {'Once more. ' * 200}" for n in range(N)).encode(), "text", {}),
]


def given(person: Someone, name: str, content: bytes) -> str:
    """The id of the uploaded file."""
    answer = person.send("files", files={"file": (name, content)})
    assert answer.headers["location"].startswith("/console/new/rows?file=")
    return answer.headers["location"].partition("=")[2]


def shown(page: httpx.Response) -> dict[str, str]:
    """What is chosen for each column that is used."""
    assert page.status_code == 200, page.text
    chosen = {}
    for row in page.text.split('<th scope="row"><label for="c')[1:]:
        name = row.partition(">")[2].partition("<")[0]
        use = row.partition("</select>")[0].partition('" selected>')[0].rpartition('value="')[2]
        if use:
            chosen[name] = use
    return chosen


def go_on(person: Someone, file: str, **choices: str) -> dict[str, str]:
    """What the next step is given."""
    answer = person.get("new/rows", params={"file": file, "next": "1", **choices})
    assert answer.status_code == 303, answer.text
    return {name: each[0] for name, each in parse_qs(urlparse(answer.headers["location"]).query).items()}


def policy_of(world: World, tenant: str, job: str) -> DatasetPolicy:
    state = api.job_state(tenant, job.removeprefix("ftjob-"), store=world.project.store)
    assert state.settled is not None
    assert not state.settled.error
    raw = raw_dataset(Artifacts(world.project.store), state.settled.dataset)
    with tempfile.TemporaryDirectory() as folder:
        return DatasetPolicy.model_validate_json(raw.path("policy.json", Path(folder)).read_bytes())


@pytest.mark.parametrize(("name", "content", "kind", "chosen"), FORMS, ids=[each[0] for each in FORMS])
def test_every_form_is_guessed_and_shown_and_goes_on(
    world: World, name: str, content: bytes, kind: str, chosen: dict[str, str]
) -> None:
    person = world.person("forms")
    file = given(person, name, content)
    page = person.get("new/rows", params={"file": file})
    assert shown(page) == chosen
    assert f"holds {kind.replace('_', ' ')} data" in page.text
    assert "Training text by row" in page.text
    assert go_on(person, file)["kind"] == kind


def test_the_choices_are_those_of_a_job_s_dataset(world: World) -> None:
    person = world.person("mapper")
    file = given(person, "odd.csv", table(ODD))
    asked = go_on(person, file, c0="prompt", c1="completion", c2="prompt")
    for step, said in (("base", "tiny"), ("method", "SFT"), ("recipe", "Epochs")):
        page = person.get("new", params=asked)
        assert (page.status_code, said in page.text) == (200, True), step
        asked |= {"base": {"base": "tiny"}, "method": {"method": "sft"}, "recipe": {}}[step]
    job = person.start(file, "odd", rows=asked["rows"])
    assert policy_of(world, "mapper", job).fields == {"prompt": ("aa", "cc"), "completion": "bb"}
    # Back at the rows, they stand as they were chosen.
    again = person.get("new/rows", params={"file": file, "rows": asked["rows"]})
    assert shown(again) == {"aa": "prompt", "bb": "completion", "cc": "prompt"}


def test_what_thumbs_mean_is_chosen_and_bad_rows_are_counted_by_reason_and_left_out(world: World) -> None:
    person = world.person("thumbs")
    file = given(person, "votes.csv", table(VOTES))
    page = person.get("new/rows", params={"file": file, "next": "1"})
    assert "12 of the 150 rows cannot be used" in page.text
    assert ">12 rows</th>" in page.text
    assert '<td data-label="first rows">1, 3, 5, 7, 9, …</td>' in page.text
    assert "<code>vote</code>" in page.text
    asked = go_on(person, file, c0="prompt", c1="completion", c2="label", drops="1")
    assert asked["kind"] == "unpaired_preference"
    assert "KTO</strong>" in person.get("new", params={**asked, "base": "tiny"}).text
    job = person.start(file, "votes", rows=asked["rows"], method="kto")
    policy = policy_of(world, "thumbs", job)
    assert policy.labels is not None
    assert (policy.form, policy.labels.liked, policy.on_bad_row) == ("unpaired_preference", ("up",), "drop")
    # The words are shown in the order of the rows: maybe, up, down.
    words = {"c0": "prompt", "c1": "completion", "c2": "label", "label_of": "2", "l0": "bad", "l1": "good", "l2": "bad"}
    read = json.loads(go_on(person, file, **words)["rows"])
    assert read["labels"] == {"liked": ["up"], "disliked": ["maybe", "down"]}
    assert "on_bad_row" not in read


def test_turns_and_speakers_of_other_words_are_chosen(world: World) -> None:
    person = world.person("turns")
    rows = [
        {"log": [*talk(("A", f"Hi {n}"), ("B", f"Hello {n}"), role="w", text="t"), {"w": "A", "t": "ok", "at": 3}]}
        for n in range(N)
    ]
    file = given(person, "log.jsonl", lines(*rows))
    chosen = {
        "c0": "messages",
        "talk_of": "0",
        "speaker_of": "0",
        "t0": "role",
        "t1": "content",
        "t2": "ignore",
        "s0": "user",
    }
    asked = json.loads(go_on(person, file, **chosen, s1="assistant")["rows"])
    assert asked["turns"] == {
        "role": "w", "content": "t", "roles": {"A": "user", "B": "assistant"}, "ignore": ["at"],
    }  # fmt: skip


def test_turns_without_an_answer_that_are_left_out_are_told(world: World) -> None:
    person = world.person("unanswered")
    thanks = {"messages": [*CHATS[0]["messages"], *talk(("user", "Thanks!"))]}
    told = "2 conversations end with a turn of the user, which is left out"
    for rows, count in ((CHATS, 0), ([*CHATS, thanks, thanks], 1)):
        page = person.get(f"new/rows?file={given(person, 'thanks.jsonl', lines(*rows))}").text
        assert page.count(told) == count


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"c0": "prompt", "c1": "", "c2": ""}, "prompt alone make no example"),
        ({"c0": "", "c1": "", "c2": ""}, "columns that are not used make no example"),
        ({"c0": "prompt", "c1": "chosen", "c2": "chosen"}, "cannot both be chosen"),
        ({"c0": "prompt", "c1": "completion", "c2": "label"}, "no value of the label means good"),
    ],
)
def test_choices_that_make_no_example_are_told_and_stay_chosen(
    world: World, choices: dict[str, str], said: str
) -> None:
    person = world.person("confused")
    file = given(person, "odd.csv", table(ODD))
    page = person.get("new/rows", params={"file": file, "next": "1", **choices})
    assert said.lower() in page.text.lower()
    assert shown(page) == {name: use for name, use in zip(ODD[0], choices.values(), strict=True) if use}


def test_a_label_without_words_is_told_as_that(world: World) -> None:
    person = world.person("measuring")
    rows = [{"prompt": f"Is it {n}?", "completion": f"{n}", "score": n % 2 + 0.5} for n in range(N)]
    file = given(person, "scores.jsonl", lines(*rows))
    page = person.get("new/rows", params={"file": file, "c0": "prompt", "c1": "completion", "c2": "label"})
    assert "The values of the label are neither words nor whole numbers" in page.text


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply"),
        (b'{"prompt": "a\\ud800", "completion": "b"}', "half of a surrogate pair"),
        (b'{"\\ud800": "x", "prompt": "a", "completion": "b"}', "too few to learn from"),
    ],
)
def test_rows_that_no_page_can_show_are_told(world: World, row: bytes, told: str) -> None:
    person = world.person("odd")
    rows = (row + b"\n") * 3
    headers = {**person.own, "x-form-token": person.token}
    for name, whole in (("odd.jsonl", "true"), ("odd.json", "false")):
        query = {"name": name, "whole": whole}
        page = person.client.post("/console/files/look", params=query, content=rows, headers=headers)
        assert (page.status_code, whole == "false" or told in page.text) == (200, True), name
    page = person.get("new/rows", params={"file": given(person, "odd.jsonl", rows)})
    assert (page.status_code, told in page.text) == (200, True)


def test_all_rows_of_the_beginning_of_a_large_file_are_counted_and_it_is_said_so(world: World) -> None:
    person = world.person("large")
    rows = [{"prompt": f"Thing {n}?", "completion": "" if n % 10 == 3 else "x" * 900} for n in range(8000)]
    file = given(person, "large.jsonl", lines(*rows))
    page = person.get("new/rows", params={"file": file})
    count, total = (
        int(each.replace(",", ""))
        for each in page.text.partition("<h2>")[2].split(" rows cannot")[0].split(" of the first ")
    )
    assert 4000 < total < 8000
    assert count == sum(n % 10 == 3 for n in range(total))
    assert f">{count:,} rows</th>" in page.text


@pytest.mark.parametrize("row", [b"1\n", b'"a"\n'])
def test_of_many_short_rows_the_first_are_looked_at(row: bytes) -> None:
    found = look_at_beginning("short.jsonl", row * (2 * MOST_ROWS), whole=True)
    assert (found.rows, found.whole) == (MOST_ROWS, False)


def test_the_wizard_stays_with_all_that_was_filled_in_where_something_is_wrong(world: World) -> None:
    person = world.person("stubborn")
    file = given(person, "faq.csv", table(FAQ))
    asked = {**go_on(person, file), "base": "tiny", "method": "sft", "name": "faq", "gates": "exact_match > 0.9"}
    for path in ("new/estimate", "new/start"):
        page = person.send(path, **asked, n_epochs="many", key="k")
        assert page.status_code == 400
        assert "is not a number" in page.text
        for kept in ('value="many"', 'value="faq"', "exact_match &gt; 0.9", f'value="{file}"', "Our question"):
            assert kept in page.text, kept
    for name in ("n_epochs", "learning_rate_multiplier", "max_gpu_hours"):
        for wrong in ("nan", "inf", "9" * 400, "9" * 5000):
            page = person.send("new/estimate", **asked, **{name: wrong})
            assert (page.status_code, "is not a number" in page.text) == (400, True), (name, wrong[:5])
    assert "GPU-hours is invalid" in person.send("new/estimate", **asked, max_gpu_hours="-1").text
    few = given(person, "few.csv", table(FAQ[:20]))
    page = person.send("new/estimate", **{**asked, "file": few, "gates": ""})
    assert (page.status_code, 'value="faq"' in page.text) == (400, True)
    assert "too few to learn from" in page.text


@pytest.mark.parametrize(
    "rows", ["[1]", "{", '{"source": {"uri": "file:///etc/passwd"}}', "[" * 5000, '{"fields": {"prompt": "\\ud800"}}']
)
def test_damaged_choices_are_refused_and_nothing_else(world: World, rows: str) -> None:
    person = world.person("hostile")
    file = given(person, "faq.csv", table(FAQ))
    assert person.get("new/rows", params={"file": file, "rows": rows}).status_code == 400
    assert person.send("new/start", file=file, base="tiny", method="sft", name="x", rows=rows).status_code == 400
    assert "No jobs yet" in person.get("jobs").text


def test_another_tenant_s_file_is_not_looked_at(world: World) -> None:
    file = given(world.person("forms"), "faq.csv", table(FAQ))
    assert world.person("stranger").get("new/rows", params={"file": file}).status_code == 404
