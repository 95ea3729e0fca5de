"""The report as a page for the tenant: one self-contained HTML file with everything in it escaped."""

from collections.abc import Sequence
from typing import Any

import yaml

from ft_assets.settings.dataset.policy import DatasetPolicy, PersonalDataSettings
from ft_assets.workers.datasets.reporting.findings import PERSONAL, SHOWN_EXHIBITS, findings_of, place_of, short
from ft_assets.workers.datasets.reporting.flow import flow_of, histogram_bars, shares
from ft_assets.workers.datasets.reporting.report import DatasetReport, Exhibit, Labels
from ft_assets.workers.datasets.reporting.template import template

_SHOWN_KINDS = 20
_SHOWN_WARNINGS = 8

_MEANING = {
    "train": "for training the model",
    "validation": "for validation loss during training",
    "holdout": "for the final evaluation only",
}
_LANGUAGES = {
    "ar": "Arabic",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "und": "too short to detect",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
_PERSONAL_ACTION = {
    "detect": "They stayed in the texts. `personal_data: {action: scrub}` in dataset.yaml puts placeholders there.",
    "scrub": "Each was replaced by a typed placeholder, such as <EMAIL>.",
    "escalate": "They stayed in the texts, and the version is held until a person approves it.",
    "off": "The policy disables this search.",
}


def _personal_action(settings: PersonalDataSettings) -> str:
    """What was done, and by which country's rules phone numbers were read."""
    done = _PERSONAL_ACTION[settings.action]
    if settings.action == "off" or "phone" not in settings.types:
        return done
    by = "the language and the country codes of their row" if settings.phone_region == "auto" else settings.phone_region
    return (
        f"{done} Phone numbers without a country code were read by {by}; `personal_data: {{phone_region: DE}}` names "
        "one country for all."
    )


def render_page(report: DatasetReport, exhibits: Sequence[Exhibit], title: str = "") -> str:
    """The page in UTF-8, without scripts or external resources.

    ``exhibits`` are shown with their text (up to 600 characters), at most three for each reason, ten near-duplicates.
    So the page belongs in the tenant's prefix, and exhibits should be scrubbed. ``title`` is the version's name;
    without it the page is named after the file.
    """
    kinds, kept = _kinds(report), [each for each in exhibits if each.reason == "kept"]
    personal = [step for step in report.steps if step.step == "personal_data"]
    others = [step for step in report.steps if step.step != "personal_data"]
    return template().render(
        report=report,
        title=short(title or ", ".join(upload.name for upload in report.uploads[:2])),
        verdict=_verdict(report),
        tiles=[
            ("Rows that came in", report.rows_read),
            ("Left out", sum(report.dropped.values())),
            ("Mixed in", sum(each.rows for each in report.mixed)),
            ("Examples now", report.examples),
        ],
        flow=flow_of(report),
        warnings=report.warnings[:_SHOWN_WARNINGS],
        more_warnings=report.warnings[_SHOWN_WARNINGS:],
        splits=[(name, numbers, _MEANING.get(name, "")) for name, numbers in report.splits.items()],
        kinds=kinds[:_SHOWN_KINDS],
        kinds_left=max(0, len(kinds) - _SHOWN_KINDS),
        most_kind=max((sum(counts) for _, counts in kinds), default=0),
        labels=_labels(report.labels),
        left_out=findings_of(report, others, ("removed",), exhibits),
        noticed=findings_of(report, others, ("warned", "held"), exhibits),
        suites=_suites(report),
        personal=[(PERSONAL.get(name, name), count, share) for name, count, share in shares(report.personal_data)],
        personal_action=_personal_action(report.policy.personal_data),
        personal_findings=findings_of(report, personal, ("changed", "warned", "held"), exhibits),
        bars=histogram_bars(report.length_histogram),
        languages=[(_LANGUAGES.get(code, code), count, share) for code, count, share in shares(report.languages)],
        samples=[(place_of(report, each.place), each.text) for each in kept[:SHOWN_EXHIBITS]],
        pictures=any(upload.pictures for upload in report.uploads),
        changed_settings=_changed(report.policy),
        policy_yaml=yaml.safe_dump(report.policy.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
    )


def _verdict(report: DatasetReport) -> dict[str, str]:
    """The state as a word, as a sentence, and the advice."""
    rows = f"{report.examples:,} of {report.rows_read:,} rows" if not report.mixed else f"{report.examples:,} examples"
    if report.held:
        return {
            "state": "held",
            "word": "Held for review",
            "sentence": f"{rows} passed, but they are not used for training until a person approves the version:",
            "do": "Look at the rows named below. If they may stay, approve the version with `ft dataset approve`; "
            "otherwise correct the file and add it as the next version.",
        }
    if report.warnings:
        count = len(report.warnings)
        return {
            "state": "warned",
            "word": "Accepted",
            "sentence": f"{rows} are ready to train on. Check {count} {'warning' if count == 1 else 'warnings'} first.",
            "do": "",
        }
    return {"state": "accepted", "word": "Accepted", "sentence": f"{rows} are ready to train on.", "do": ""}


def _suites(report: DatasetReport) -> list[tuple[str, int]]:
    """Number of rows found for each suite that was compared."""
    counts = dict.fromkeys(report.suites, 0)
    for finding in report.findings("contamination"):
        if finding.subject:
            counts[finding.subject] = counts.get(finding.subject, 0) + finding.count
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _labels(labels: Labels | None) -> list[tuple[str, int, float]]:
    """The labels that have a bar: name, rows and share of all rows."""
    if labels is None:
        return []
    return [(name, count, count / labels.rows) for name, count in list(labels.counts.items())[:_SHOWN_KINDS]]


def _kinds(report: DatasetReport) -> list[tuple[str, list[int]]]:
    """Each kind with its rows on every side, the largest kind first."""
    names = {kind for numbers in report.splits.values() for kind in numbers.kinds if kind}
    counted = [(kind, [numbers.kinds.get(kind, 0) for numbers in report.splits.values()]) for kind in names]
    return sorted(((short(kind), counts) for kind, counts in counted), key=lambda item: (-sum(item[1]), item[0]))


def _changed(policy: DatasetPolicy) -> list[tuple[str, str]]:
    """Settings that are not the default, as dotted names with their values."""

    def walk(prefix: str, value: Any, default: Any) -> list[tuple[str, str]]:
        if isinstance(value, dict) and isinstance(default, dict) and prefix != "fields":
            return [
                pair for name in value for pair in walk(f"{prefix}.{name}".lstrip("."), value[name], default.get(name))
            ]
        if value == default:
            return []
        return [(prefix, yaml.safe_dump(value, default_flow_style=True, allow_unicode=True).removesuffix("...\n"))]

    return walk("", policy.model_dump(mode="json"), DatasetPolicy().model_dump(mode="json"))
