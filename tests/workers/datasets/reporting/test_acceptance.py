"""What refuses an upload, what holds it, and what only deserves advice."""

import pytest

from ft_assets.records.model_families import family_of, judge_family_warning
from ft_assets.settings.dataset.policy import (
    BalanceSettings,
    DatasetPolicy,
    DuplicateSettings,
    PersonalDataSettings,
    QualitySettings,
    SplitSettings,
    ToxicitySettings,
)
from ft_assets.workers.datasets.reporting.acceptance import accept
from ft_assets.workers.datasets.reporting.report import DatasetReport, Finding, Note, Role, StepReport, Upload
from ft_resources.errors import BadData
from tests.workers.datasets.reporting.made import FILE, finding, place, report, sides, step


def bad_rows(*rows: tuple[int, str], file: str = FILE) -> StepReport:
    notes = [Note(place=place(row, file), detail=detail) for row, detail in rows]
    return step("read", Finding(reason="role_order", action="removed", count=len(rows), notes=notes))


def refusal(made: DatasetReport) -> BadData:
    with pytest.raises(BadData) as caught:
        accept(made)
    return caught.value


def warnings_of(made: DatasetReport, judges: tuple[str, ...] = ()) -> list[str]:
    return accept(made, judges).warnings


def test_a_good_upload_has_nothing_to_warn_about_and_is_not_held() -> None:
    made = report()
    assert accept(made) == made


def test_a_bad_row_refuses_the_upload_by_row_and_field() -> None:
    error = refusal(
        report(bad_rows((7, "messages[1].role: 'user' stands here"), (9, "x"), (12, "x"), (20, "x"), (21, "x")))
    )
    assert error.where == "talks.jsonl, row 7, messages[1].role"
    assert error.what == "'user' stands here (4 more bad rows: 9, 12, 20, …)"
    assert "on_bad_row: drop" in error.remedy


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("completion: this text is empty", "Abteilung (neu)"),
        ("messages[1].role: this text is empty", "Verlauf[1].role"),
    ],
)
def test_a_mapped_field_is_named_as_the_upload_names_it(detail: str, told: str) -> None:
    policy = DatasetPolicy(fields={"completion": "Abteilung (neu)", "messages": "Verlauf"})
    error = refusal(report(bad_rows((7, detail)), policy=policy))
    assert (error.where, error.what) == (f"talks.jsonl, row 7, {told}", "this text is empty")


def test_a_problem_without_a_field_is_told_whole() -> None:
    error = refusal(report(bad_rows((3, "this is not JSON: a quote is missing"))))
    assert (error.where, error.what) == ("talks.jsonl, row 3", "this is not JSON: a quote is missing")


def test_the_first_bad_row_is_that_of_the_first_file() -> None:
    uploads = [Upload(name=name, size=1, sha256="", rows=500) for name in ("z.jsonl", "a.jsonl")]
    made = report(bad_rows((9, "x"), file="z.jsonl"), bad_rows((1, "y"), file="a.jsonl"), uploads=uploads)
    error = refusal(made)
    assert error.where == "z.jsonl, row 9"
    assert error.what == "x (1 more bad row: row 1 of a.jsonl)"


def test_bad_rows_of_many_files_are_named_with_their_files() -> None:
    names = [f"{number}.md" for number in range(9)]
    uploads = [Upload(name=name, size=1, sha256="", rows=1) for name in names]
    error = refusal(report(*(bad_rows((1, "x"), file=name) for name in names), uploads=uploads))
    assert error.where == "0.md, row 1"
    assert error.what == "x (8 more bad rows: row 1 of 1.md, row 1 of 2.md, row 1 of 3.md, …)"


def test_dropped_rows_are_accepted_up_to_the_share_and_not_beyond() -> None:
    drop = DatasetPolicy(on_bad_row="drop", max_dropped_share=0.002)
    assert accept(report(bad_rows((1, "x"), (2, "x")), policy=drop)).held == []
    error = refusal(report(bad_rows((1, "f: x"), (2, "x"), (3, "x")), policy=drop))
    assert error.what == (
        "3 of 1000 rows are bad, more than max_dropped_share (0.002) allows; the first is row 1, f: x"
    )


def test_an_empty_upload_is_refused() -> None:
    error = refusal(report(rows_read=0, splits=sides(0, 0, 0)))
    assert str(error) == "talks.jsonl: the file has no rows\n  What to do: Upload a file with examples in it."


def test_fewer_than_100_examples_are_refused_with_where_the_others_went() -> None:
    made = report(
        step("duplicates", finding("duplicate", 30), finding("near_duplicate", 12)),
        step("quality", finding("truncated", 5)),
        rows_read=140,
        splits=sides(70, 10, 13),
    )
    assert refusal(made).what == (
        "93 different examples are too few to learn from and to measure on (140 rows, of which 42 duplicates and 5 "
        "filtered by quality)"
    )


@pytest.mark.parametrize("side", ["train", "validation", "holdout"])
def test_an_empty_side_is_refused_with_what_to_change(side: str) -> None:
    error = refusal(report(splits=sides(**{"train": 500, "validation": 500, "holdout": 500, side: 0})))
    assert error.what == f"the {side} split is empty: none of the 1000 examples fell into it"
    assert "split." in error.remedy


def test_the_groups_are_named_where_they_are_the_reason() -> None:
    made = report(splits=sides(holdout=0), policy=DatasetPolicy(split=SplitSettings(group_by="source")))
    error = refusal(made)
    assert "none of the 900 groups (source)" in error.what
    assert "split.group_by (source)" in error.remedy


def test_a_classifier_that_rejects_refuses_beyond_its_share() -> None:
    toxic = step("toxicity", finding("toxic", 11, "warned", "insult"))

    def policy(share: float) -> DatasetPolicy:
        return DatasetPolicy(
            toxicity=ToxicitySettings(classifier="toxic.v1", labels=("insult",), action="reject", max_share=share)
        )

    assert accept(report(toxic, policy=policy(0.011))).held == []
    error = refusal(report(toxic, policy=policy(0.01)))
    assert error.what.startswith("11 of 1000 examples were flagged by toxic.v1 (insult), more than max_share (0.01)")


def test_what_is_escalated_holds_the_version_and_says_why() -> None:
    made = report(
        step("contamination", finding("contaminated", 3, "held", "mmlu"), finding("contaminated", 1, "held", "arc")),
        step("personal_data", finding("personal_data", 5, "held", "card")),
        held=["before"],
    )
    assert accept(made).held == [
        "before",
        "4 rows hold items, or mostly text, of tests that the model is measured on (arc, mmlu).",
        "5 rows hold personal data or secrets (card).",
    ]


def test_a_single_held_row_is_told_in_the_singular() -> None:
    made = report(step("own_holdout", finding("contaminated", 1, "held")))
    assert accept(made).held == ["1 row shares most of its 13-word sequences with the holdout cut from your rows."]


@pytest.mark.parametrize(
    ("role", "said"), [("holdout", "your own holdout"), ("validation", "the holdout cut from your rows")]
)
def test_the_holdout_is_the_persons_own_only_where_they_gave_one(role: Role, said: str) -> None:
    uploads = [Upload(name="a.jsonl", size=1, sha256=""), Upload(name="b.jsonl", role=role, size=1, sha256="")]
    made = report(step("own_holdout", finding("holdout_overlap", 2)), uploads=uploads)
    assert f"2 rows repeat text of {said}." in " ".join(accept(made).warnings)


@pytest.mark.parametrize(
    ("made", "said", "advised"),
    [
        (report(splits=sides(validation=9)), "The validation split has only 9 rows", "Raise split.validation"),
        (report(step("duplicates", finding("duplicate", 250))), "25% of the rows repeat an earlier row", "no effect"),
        (
            report(
                step("duplicates", finding("near_duplicate", 2, "warned")),
                policy=DatasetPolicy(duplicates=DuplicateSettings(near="keep")),
            ),
            "2 rows are nearly the same as an earlier row and stayed in",
            "set duplicates.near to remove",
        ),
        (report(step("contamination", finding("contaminated", 1))), "1 row has text of public tests", "Look at where"),
        (
            report(step("contamination", finding("contaminated", 2, "warned"))),
            "2 rows have text of public tests and stayed in",
            "contamination.action to remove",
        ),
        (
            report(step("own_holdout", finding("holdout_overlap", 2))),
            "2 rows repeat text of the holdout",
            "split.group_by",
        ),
        (report(personal_data={"email": 2, "card": 1}), "3 pieces of personal data or secrets stayed", "to scrub"),
        (report(step("quality", finding("long", 20, "warned"))), "20 rows (2%) are longer than", "adding long"),
        (report(step("quality", finding("repetitive", 1, "warned"))), "1 row has an answer that repeats", "Correct it"),
        (report(step("quality", finding("truncated", 2, "warned"))), "2 rows have a truncated answer", "row 1"),
        (report(languages={"en": 80, "de": 15, "fr": 5}), "en 80%, de 15%, fr 5%", "If only one is meant"),
        (
            report(languages={"en": 97, "de": 3}, policy=DatasetPolicy(quality=QualitySettings(language="en"))),
            "3% of the examples looked at are not in the expected language en (de 3%)",
            "Take them out",
        ),
        (report(splits=sides(a=700, b=20)), "700 of kind 'a', but 20 of 'b'", "set balance"),
        *(
            (
                report(
                    step("balance", finding("no_category", 800, "warned", by, range(0))),
                    policy=DatasetPolicy(balance=BalanceSettings(by=by)),
                ),
                f"No training row has a {by}, which balance was to go by",
                advised,
            )
            for by, advised in (("kind", "under fields ({kind: …})"), ("group", "in split.group_by"))
        ),
        (report(forms={"messages": 1, "alpaca": 2}), "The rows come in 2 forms (messages, alpaca)", "intended?"),
        (
            report(largest_group_rows=600, policy=DatasetPolicy(split=SplitSettings(group_by="source"))),
            "One value of 'source' holds 60% of the rows",
            "finer field",
        ),
        (report(mixed=[]), "No general data is mixed in", "5 to 10 %"),
    ],
)
def test_each_oddity_is_one_warning_with_advice(made: DatasetReport, said: str, advised: str) -> None:
    (warning,) = warnings_of(made)
    assert said in warning
    assert advised in warning


@pytest.mark.parametrize(
    "made",
    [
        report(languages={"en": 95, "de": 5, "und": 900}),
        report(personal_data={"email": 2}, policy=DatasetPolicy(personal_data=PersonalDataSettings(action="scrub"))),
        report(step("duplicates", finding("duplicate", 200))),
        report(splits=sides(a=500, b=50)),
        report(step("quality", finding("short", 4))),
        report(form="preference", mixed=[]),
    ],
)
def test_what_is_usual_or_was_dealt_with_is_no_warning(made: DatasetReport) -> None:
    assert warnings_of(made) == []


def test_a_judge_of_the_generators_family_is_warned_about() -> None:
    made = report(policy=DatasetPolicy(generated_by="gpt-4o-mini"))
    assert warnings_of(made, ("claude-sonnet-4", "Qwen/Qwen2.5-7B")) == []
    (warning,) = warnings_of(made, ("claude-sonnet-4", "openai/gpt-4.1"))
    assert "openai/gpt-4.1" in warning
    assert "family (GPT)" in warning
    assert judge_family_warning(None, ["gpt-4.1"]) is None
    assert judge_family_warning("our-own", ["our-own"]) is not None


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama"),
        ("claude-3-5-sonnet-20241022", "Claude"),
        ("Qwen/QwQ-32B", "Qwen"),
        ("mistralai/Mixtral-8x7B", "Mistral"),
        ("google/gemma-2-9b", "Gemini"),
        ("gemini-2.5-pro", "Gemini"),
        ("o3-mini", "GPT"),
        ("gpt-oss-120b", "GPT"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "DeepSeek"),
        ("microsoft/Phi-3-mini", "Phi"),
        ("gpt2", None),
        ("stories260K", None),
        ("demo-3", None),
    ],
)
def test_families_are_known_by_name(name: str, family: str | None) -> None:
    assert family_of(name) == family
