"""Personal data and secrets are found where they are, scrubbed whole, and nothing else is touched."""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.dataset.policy import PersonalDataSettings
from ft_assets.workers.datasets.screening.found import FINDINGS, PLACEHOLDERS
from ft_assets.workers.datasets.screening.personal import screen

# Random-looking, and made here so that no scanner takes it for a real key.
LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6kL9"
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq2X9z0aQ1vMIIE\n" * 3 + "-----END RSA PRIVATE KEY-----"


def found(text: str, **settings: object) -> list[tuple[str, str]]:
    findings = screen(pa.array([text]), PersonalDataSettings(**settings)).findings  # type: ignore[arg-type]
    assert findings.schema == FINDINGS
    return [(finding["type"], text[finding["start"] : finding["end"]]) for finding in findings.to_pylist()]


def scrub(text: str) -> str:
    return str(screen(pa.array([text]), PersonalDataSettings(action="scrub")).texts[0].as_py())


FOUND = [
    # The card networks' published test numbers.
    ("card", "4111 1111 1111 1111"),
    ("card", "4111-1111-1111-1111"),
    ("card", "378282246310005"),
    ("card", "3782 822463 10005"),
    ("card", "6011111111111117"),
    ("card", "5555555555554444"),
    # Examples of the registry.
    ("iban", "GB82WEST12345698765432"),
    ("iban", "gb82 west 1234 5698 7654 32"),
    ("iban", "DE89 3704 0044 0532 0130 00"),
    ("iban", "NO93 8601 1117 947"),
    ("phone", "+44 20 7946 0958"),
    ("phone", "(415) 555-2671"),
    ("phone", "+1 415-555-2671 ext. 12"),
    ("phone", "0049 30 901820"),
    ("email", "john.doe+tag@mail.sub.example.co.uk"),
    ("email", "jürgen@müller.de"),
    ("email", "иван@пример.рф"),
    ("email", "x@xn--mller-kva.de"),
    ("ip", "192.168.1.10"),
    ("ip", "2001:db8:85a3::8a2e:370:7334"),
    ("ip", "fe80::1"),
    ("secret", "AKIAIOSFODNN7EXAMPLE"),
    ("secret", "AKIA" + "QWERTYUIOPASDFGH"),
    ("secret", "ghp_" + LETTERS[:36]),
    ("secret", "github_pat_" + LETTERS * 2),
    ("secret", "glpat-" + LETTERS[:20]),
    ("secret", "xoxb-" + "1234567890-" + LETTERS[:20]),
    ("secret", "AIza" + LETTERS[:35]),
    ("secret", "sk_live_" + LETTERS[:24]),
    ("secret", "sk-proj-" + LETTERS),
    ("secret", "sk-ant-api03-" + LETTERS),
    ("secret", "hf_" + LETTERS[:34]),
    ("secret", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + LETTERS),
    ("secret", PEM),
]


@pytest.mark.parametrize(("kind", "value"), FOUND)
def test_each_kind_is_found_whole_in_running_text(kind: str, value: str) -> None:
    for around in ("{}", "it is {}.", "(see {})", "é“{}” – ok", "a\n{}\nb", "x, {}, y"):
        text = around.format(value)
        assert found(text) == [(kind, value)]
        assert scrub(text) == around.format(PLACEHOLDERS[kind])


@pytest.mark.parametrize(
    "text",
    [
        "ISBN 978-3-16-148410-0, ISBN 0-306-40615-2",
        "on 2024-01-15 12:30:45, 20240115123045, 1614556800000 and 1783-1859 (1939–1945)",
        "$1,234,567.89 or 12.345.678,90 EUR",
        "40.7128, -74.0060; 51.50735 -0.12776",
        "3.1415926535897932 and 0.4111111111111111",
        "4111111111111112 has a wrong check digit, GB00WEST12345698765432 too",
        "x4111111111111111 4111111111111111abc",
        "Chrome/91.0.4472.124 Firefox/3.0.0.11 version 100.2.3.4 v100.2.3.4 1.2.3.4.5 pkg==100.1.2.3",
        "127.0.0.1 255.255.255.0 0.0.0.0",
        "a::b std::vector 12:34:56",
        "git@github.com:org/repo.git logo@2x.png lodash@4.17.21 @app.route('/x') 5@6.7",
        "password: please reset it; api_key = os.environ['KEY1234']; token=abcdefgh; password=${PW1}",
        "sk-learn-is-a-package-for-machines ghp_" + "x" * 36,
        "4155552671 might be anything",
        "150-1200-2000 and 16-18-9-13-5 and (2001) 8.8 4",
        "ring the bell, the Lord of the Ring 2001 8.84 123",
        "4300 4400 4500 4600, 4300-4800-5300-5800 and 4111 1111 1111 1111 2222 3333 in a row of figures",
    ],
)
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    assert found(text) == []
    assert scrub(text) == text


def test_what_else_stands_behind_a_card_number_hides_it_not() -> None:
    assert found("4111 1111 1111 1111 12/27 123") == [("card", "4111 1111 1111 1111")]
    assert found("card 4300 4400 4500 4600") == [("card", "4300 4400 4500 4600")]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('password = "hunter2x"', "hunter2x"),
        ("Password: hunter2.", "hunter2"),
        ("export SECRET_KEY='d8f7a6s5d4f3g2h1j0k9'", "d8f7a6s5d4f3g2h1j0k9"),
        ('{"api_key": "a8f3kd93kfl2m5n6b7v8"}', "a8f3kd93kfl2m5n6b7v8"),
        ("https://user:s3cr3tPw@host.example/", "s3cr3tPw"),
    ],
)
def test_of_an_assignment_only_the_value_is_the_secret(text: str, value: str) -> None:
    assert found(text) == [("secret", value)]


def test_a_phone_number_of_any_country_counts_where_a_phone_is_spoken_of() -> None:
    assert found("Mobile: 723 813 266") == [("phone", "723 813 266")]
    assert found("in 723 813 266") == []
    assert found("ring 020 7946 0958", phone_region="GB") == [("phone", "020 7946 0958")]


@pytest.mark.parametrize(
    "text",
    [
        "４１１１１１１１１１１１１１１１",
        "٤١١١١١١١١١١١١١١١",
        "4111–1111–1111–1111",
        "4111\u200b1111\u200b1111\u200b1111",
    ],
)
def test_digits_of_other_scripts_and_invisible_characters_hide_nothing(text: str) -> None:
    assert found(f"é {text} é") == [("card", text)]
    assert scrub(f"é {text} é") == "é <CARD> é"


def test_an_address_is_seen_through_wide_and_invisible_characters_and_ends_at_other_scripts() -> None:
    assert found("john＠example.com") == [("email", "john＠example.com")]
    assert found("jo\u200bhn@example.com") == [("email", "jo\u200bhn@example.com")]
    assert found("連絡先はfoo@example.comです") == [("email", "foo@example.com")]


def test_of_overlapping_findings_the_one_of_higher_priority_holds() -> None:
    assert found("4111111111111111@example.com") == [("email", "4111111111111111@example.com")]
    assert found("password=abc123def@mail.org") == [("secret", "abc123def@mail.org")]
    # The IBAN's digits are no phone number, even if only phone numbers are asked for.
    assert found("call DE89 3704 0044 0532 0130 00", types=("phone",)) == []


def test_only_the_types_asked_for_are_reported_and_off_looks_for_none() -> None:
    text = "john@example.com 192.168.1.10"
    assert found(text, types=("ip",)) == [("ip", "192.168.1.10")]
    assert found(text, action="off") == []


def test_detecting_gives_back_the_same_array_and_scrubbing_one_without_findings_too() -> None:
    texts = pa.array(["john@example.com", "nothing"])
    assert screen(texts, PersonalDataSettings()).texts is texts
    assert screen(texts[1:], PersonalDataSettings(action="scrub")).texts.to_pylist() == ["nothing"]
    assert screen(pa.array([], pa.string()), PersonalDataSettings()).findings.num_rows == 0


def test_findings_of_a_slice_count_from_its_start() -> None:
    texts = pa.array(["a@example.com", "none", "é b@example.com", "c@example.com"])
    given_slice = texts[2:]
    assert screen(given_slice, PersonalDataSettings()).findings.to_pylist() == [
        {"index": 0, "type": "email", "start": 2, "end": 15},
        {"index": 1, "type": "email", "start": 0, "end": 13},
    ]


def test_json_stays_json_and_bare_numbers_become_strings() -> None:
    value = {"line": "x\njohn@example.com", "key": "\nAKIAIOSFODNN7EXAMPLE", "pem": PEM, "card": 4111111111111111}
    value |= {"more": [-4111111111111111, "[4111111111111111]"], "accent": "éjohn@x.com"}
    expected = {"line": "x\n<EMAIL>", "key": "\n<SECRET>", "pem": "<SECRET>", "card": "<CARD>"}
    expected |= {"more": ["<CARD>", "[<CARD>]"], "accent": "é<EMAIL>"}
    assert json.loads(scrub(json.dumps(value))) == expected


VALUES = st.sampled_from([value for _, value in FOUND])
PIECES = st.lists(st.one_of(VALUES, st.text(max_size=20), st.sampled_from(["\n", '"', "\\", "\t", ": ", "@", "1"])))


@given(PIECES)
def test_any_json_is_json_after_scrubbing(pieces: list[str]) -> None:
    text = "".join(pieces)
    for encoded in (json.dumps({"a": text}), json.dumps(json.dumps([text])), json.dumps([text], ensure_ascii=False)):
        json.loads(scrub(encoded))


@given(st.lists(PIECES.map("".join), max_size=8), st.integers(0, 8))
def test_each_text_is_screened_by_itself(texts: list[str], cut: int) -> None:
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    scrubbing = PersonalDataSettings(action="scrub")
    whole = screen(pa.array(texts, pa.string()), scrubbing)
    parts = [screen(pa.array(part, pa.string()), scrubbing) for part in (texts[:cut], texts[cut:])]
    assert whole.texts.to_pylist() == [text for part in parts for text in part.texts.to_pylist()]
    for finding in whole.findings.to_pylist():
        assert 0 <= finding["start"] < finding["end"] <= len(texts[finding["index"]])


BOMBS = {
    "digits": "1", "spaced digits": "1 ", "dots": "1.", "at signs": "a@", "colons": "a:", "headers": PEM[:31] + "\n",
    "tokens": "eyJ1-", "prefixes": "sk-1", "assignments": "password=", "urls": "://a:b", "banks": "GB82", "plus": "+1",
    "numbers": "123 456 7890 ", "hidden": "1\u200b", "backslashes": "\\", "domain": "a@b.", "brackets": "[",
    "cards": "4111 ", "groups": "123-45-6789 ", "cut phones": "(415) 555-267", "spoken": "tel: ",
    "masked": "[at]", "octets": "1.2.3.", "bearers": "Authorization: Bearer ", "full-width": "１", "years": "2019-20 ",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_time_is_linear_in_hostile_texts(name: str) -> None:
    def seconds(size: int) -> float:
        text = pa.array([(BOMBS[name] * size)[:size]])
        start = time.process_time()
        screen(text, PersonalDataSettings(action="scrub"))
        return time.process_time() - start

    seconds(1000)
    # Sixteen times the text: quadratic work would take 256 times as long. A megabyte of the worst takes seconds.
    assert seconds(80_000) < 0.1 + 50 * seconds(5_000)


@pytest.mark.realdata
def test_sentences_held_out_from_tuning_reach_the_promised_precision_and_recall() -> None:
    if "FT_REAL_DATA" not in os.environ:
        pytest.skip("needs FT_REAL_DATA")
    from benchmarks.personal_data import STRUCTURED, Counts, score

    counts = score(Path(os.environ["FT_REAL_DATA"]), held_out=True)
    structured = sum((counts[name] for name in STRUCTURED), Counts())
    assert structured.precision is not None
    assert structured.recall is not None
    assert structured.precision >= 0.99
    assert structured.recall >= 0.93
    assert (counts["phone"].precision or 0) >= 0.94


def test_without_the_data_the_benchmark_gives_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.personal_data import figures, measure

    monkeypatch.delenv("FT_REAL_DATA", raising=False)
    measured = measure()
    assert set(measured.values()) == {None}
    assert all(figure.met is None for figure in figures(measured))
