"""The report as a page for the tenant: one self-contained HTML file with everything in it escaped."""

from collections.abc import Iterable, Sequence
from typing import Any

import yaml
from markupsafe import Markup, escape

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.reporting.differences import cut, cut_middle, mark_differences
from ft_assets.workers.datasets.reporting.flow import flow_of, histogram_bars, shares
from ft_assets.workers.datasets.reporting.reasons import reason_words
from ft_assets.workers.datasets.reporting.report import DatasetReport, Exhibit, Finding, Note, Step
from ft_assets.workers.datasets.reporting.template import template

_SHOWN_ROWS = 60
_SHOWN_DETAILS = 30
_SHOWN_KINDS = 20
_SHOWN_EXHIBITS = 3
_SHOWN_WARNINGS = 8
_NAME = 120
_LEAKS = ("contamination", "own_holdout")
# Reasons that are visible at a text's end.
_ENDS = ("truncated", "repetitive", "long")

_MEANING = {
    "train": "what the model learns from",
    "validation": "what training watches its loss on",
    "holdout": "what only the final evaluation sees",
}
_PERSONAL = {
    "card": "payment cards",
    "iban": "bank accounts (IBAN)",
    "phone": "phone numbers",
    "email": "e-mail addresses",
    "ip": "IP addresses",
    "secret": "keys, tokens and passwords",
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
    "und": "too short to tell",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
_PERSONAL_ACTION = {
    "detect": "They stayed in the texts. `personal_data: {action: scrub}` in dataset.yaml puts placeholders there.",
    "scrub": "Each was replaced by a placeholder that says what stood there, such as <EMAIL>.",
    "escalate": "They stayed in the texts, and the version is held until a person approves it.",
    "off": "The policy says not to look for them.",
}


def render_page(report: DatasetReport, exhibits: Sequence[Exhibit], title: str = "") -> str:
    """The page in UTF-8, without scripts or external resources.

    ``exhibits`` are shown with their text (up to 600 characters), at most three for each reason. So the page belongs in
    the tenant's prefix, and exhibits of personal data should be scrubbed. ``title`` is the version's name; without it
    the page is named after the file.
    """
    kinds = _kinds(report)
    return template().render(
        report=report,
        title=_short(title or ", ".join(upload.name for upload in report.uploads[:2])),
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
        left_out=_findings(report, ("removed",), exhibits),
        noticed=_findings(report, ("warned", "held"), exhibits),
        suites=_suites(report),
        personal=[(_PERSONAL.get(name, name), count, share) for name, count, share in shares(report.personal_data)],
        personal_action=_PERSONAL_ACTION[report.policy.personal_data.action],
        personal_exhibits=[each for each in exhibits if each.step == "personal_data"][:_SHOWN_EXHIBITS],
        bars=histogram_bars(report.length_histogram),
        languages=[(_LANGUAGES.get(code, code), count, share) for code, count, share in shares(report.languages)],
        samples=[each for each in exhibits if each.reason == "kept"][:_SHOWN_EXHIBITS],
        changed_settings=_changed(report.policy),
        policy_yaml=yaml.safe_dump(report.policy.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
    )


def row_ranges(rows: Iterable[int]) -> str:
    """Row numbers for people: ``[3, 4, 5, 9]`` is ``3–5, 9``."""
    ranges: list[list[int]] = []
    for row in sorted(set(rows)):
        if ranges and row == ranges[-1][1] + 1:
            ranges[-1][1] = row
        else:
            ranges.append([row, row])
    return ", ".join(f"{low:,}" if low == high else f"{low:,}–{high:,}" for low, high in ranges)


def _verdict(report: DatasetReport) -> dict[str, str]:
    """The state as a word, as a sentence, and the advice."""
    rows = f"{report.examples:,} of {report.rows_read:,} rows" if not report.mixed else f"{report.examples:,} examples"
    if report.held:
        return {
            "state": "held",
            "word": "Held for review",
            "sentence": f"{rows} passed, but nothing is trained on them before a person has looked at this:",
            "do": "Look at the rows named below. If they may stay, approve the version with `ft dataset approve`; "
            "otherwise correct the file and add it as the next version.",
        }
    if report.warnings:
        count = len(report.warnings)
        return {
            "state": "warned",
            "word": "Accepted",
            "sentence": f"{rows} are ready to train on. {count} {'thing is' if count == 1 else 'things are'} worth "
            "a look first.",
            "do": "",
        }
    return {"state": "accepted", "word": "Accepted", "sentence": f"{rows} are ready to train on.", "do": ""}


def _findings(report: DatasetReport, actions: tuple[str, ...], exhibits: Sequence[Exhibit]) -> list[dict[str, Any]]:
    """The findings for the page: wording, rows, details and examples of each finding with one of ``actions``."""
    found = []
    for step in report.steps:
        for finding in step.findings:
            if finding.action in actions and finding.count:
                found.append(
                    {
                        "words": reason_words(finding.reason),
                        "subject": _short(_PERSONAL.get(finding.subject, finding.subject)),
                        "action": finding.action,
                        "count": finding.count,
                        "rows": _rows(report, finding),
                        "details": _details(finding),
                        "exhibits": _pairs(step.step, finding, exhibits),
                    }
                )
    return found


def _rows(report: DatasetReport, finding: Finding) -> list[tuple[str, str]]:
    """The finding's rows by file, as ranges; the file is "" if there is only one."""
    named = finding.notes[:_SHOWN_ROWS]
    files = dict.fromkeys(note.place.file for note in named)
    found = [
        (
            _short(file) if len(report.uploads) > 1 else "",
            row_ranges(note.place.row for note in named if note.place.file == file),
        )
        for file in files
    ]
    if found and finding.count > len(named):
        found[-1] = (found[-1][0], found[-1][1] + ", …")
    return found


def _details(finding: Finding) -> list[tuple[str, str, str]]:
    """Row, detail and similarity, for the notes that have more than a row."""
    told = [note for note in finding.notes if note.detail or note.other]
    return [(f"{note.place.row:,}", _about(note), _percent(note.similarity)) for note in told[:_SHOWN_DETAILS]]


def _about(note: Note) -> str:
    if note.other is None:
        return note.detail
    other = f"row {note.other.row:,}" if note.other.file == note.place.file else str(note.other)
    return f"{note.detail}; like {other}" if note.detail else f"like {other}, which stayed"


def _percent(similarity: float | None) -> str:
    # 99.96 % is not 100 %: near-duplicates are not exact duplicates.
    if similarity is None:
        return ""
    return "100 %" if similarity == 1 else f"{min(similarity, 0.999):.1%}".replace("%", " %")


def _pairs(step: Step, finding: Finding, exhibits: Sequence[Exhibit]) -> list[dict[str, Any]]:
    """The finding's examples, with differences marked if they are shown next to another text."""
    alike = {note.place: note.similarity for note in finding.notes}
    suited = [each for each in exhibits if (each.step, each.reason) == (step, finding.reason)]
    if finding.subject:
        # If a reason is divided, only its examples whose rows this part lists.
        suited = [each for each in suited if each.place in alike]
    pairs = []
    for each in suited[:_SHOWN_EXHIBITS] if step != "personal_data" else []:
        if each.other_text:
            # For a leak, readers want to see what is the same; for near-duplicates, what differs.
            text, other = mark_differences(each.text, each.other_text, shared=step in _LEAKS)
        else:
            text, other = escape(cut_middle(each.text) if finding.reason in _ENDS else cut(each.text)), Markup("")
        pairs.append({"exhibit": each, "text": text, "other": other, "alike": _percent(alike.get(each.place))})
    return pairs


def _suites(report: DatasetReport) -> list[tuple[str, int]]:
    """Number of rows found for each suite that was compared."""
    counts = dict.fromkeys(report.suites, 0)
    for finding in report.findings("contamination"):
        if finding.subject:
            counts[finding.subject] = counts.get(finding.subject, 0) + finding.count
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _kinds(report: DatasetReport) -> list[tuple[str, list[int]]]:
    """Each kind with its rows on every side, the largest kind first."""
    names = {kind for numbers in report.splits.values() for kind in numbers.kinds if kind}
    counted = [(kind, [numbers.kinds.get(kind, 0) for numbers in report.splits.values()]) for kind in names]
    return sorted(((_short(kind), counts) for kind, counts in counted), key=lambda item: (-sum(item[1]), item[0]))


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


def _short(name: str) -> str:
    """A name for the page; a very long one is cut in the middle."""
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-_NAME // 2 :]}"
