"""Each reason of a finding in a tenant's words."""

REASONS: dict[str, str] = {
    # read
    "not_utf8": "bytes that are not UTF-8 text",
    "not_json": "not one JSON object on one line",
    "too_long": "longer than one row may be",
    "unknown_schema": "fields of no known form",
    "wrong_type": "a field that is missing or of the wrong type",
    "empty_text": "a text with nothing in it",
    "bad_text": "a text that cannot be written as Unicode",
    "role_order": "turns in an order that cannot be learned from",
    "no_group": "no value to keep its group together by",
    # personal_data, by type in the subject
    "personal_data": "personal data or secrets",
    # duplicates
    "exact_duplicate": "the same text as an earlier row",
    "near_duplicate": "nearly the same text as an earlier row",
    # contamination, by suite in the subject
    "contamination": "text of a test that the model is measured on",
    # quality: the filters of the policy
    "empty_answer": "an answer with nothing in it",
    "short": "a very short answer",
    "long": "a very long example",
    "repetitive": "text that repeats itself",
    "truncated": "an answer that breaks off",
    # toxicity, by label in the subject
    "toxicity": "flagged by the toxicity classifier",
    # own_holdout
    "own_holdout": "text that your own holdout has, too",
    # balance, by category in the subject
    "balance": "more rows of a category than the balance allows",
}


def reason_words(reason: str) -> str:
    """``reason`` for reading; one without words of its own is spelled out."""
    return REASONS.get(reason, reason.replace("_", " "))
