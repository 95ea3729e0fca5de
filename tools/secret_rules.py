"""Converts CredSweeper's rules for secrets to those of the screening; run it for each new release.

    pip download --no-deps credsweeper && unzip credsweeper-*.whl
    python -m tools.secret_rules credsweeper/rules/config.yaml credsweeper-*.dist-info/licenses/LICENSE VERSION

Taken are the rules that know a secret by its own form. Left out are those that need a name beside the secret (the
screening has its own), a second line, a model or a decoder, and forms that ordinary identifiers have as well.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "ft_assets/workers/datasets/screening/rules"
# A boundary before the value that most rules repeat; the screening checks its own.
_HEAD = re.compile(r"^\(\?:\^\|/\|\[\^.*?\[0-9;\]\{0,80\}m\)(?=\(\?P<value>|\(\?=)")
_LEFT_OUT = {
    "Product Activation Key": "also inventory and part numbers",
    "UUID": "no secret",
    "Firebase Domain": "no secret",
    "AWS S3 Bucket": "no secret",
    "OTP / 2FA Secret": "any sixteen capital letters",
    "Dropbox App secret": "any fifteen letters and digits",
    "Dropbox API secret (long term)": "part of many binary files in base64",
    "NKEY Seed": "needs its checksum",
    "Composio Credentials": "the beginning of many identifiers",
    "Salesforce Credentials": "also numbers in hexadecimal",
    "Tencent WeChat API App ID": "a public id",
    "Facebook App Token": "needs no letter",
    "JSON Web Token": "the screening's own form takes linear time",
    "Azure Access Token": "a JSON web token",
    "JSON Web Key": "needs a decoder",
    "Grafana Provisioned API Key": "needs a decoder",
    "BASE64 Private Key": "needs a decoder",
    "BASE64 encoded PEM Private Key": "needs a decoder",
    "Basic Authorization": "the screening's own form asks for the header",
    "Bearer Authorization": "the screening's own form asks for the header",
    "Google OAuth Refresh Token": "begins with a digit, as many numbers do",
    "URL Credentials": "the screening has its own",
}
_MOST_KEYWORDS = 64
_ENTROPY = 3.0


def main(arguments: Sequence[str]) -> None:
    config, licence, version = arguments
    rules = yaml.safe_load(Path(config).read_text("utf-8"))
    lines = [f"# Converted by tools/secret_rules.py from CredSweeper {version}; its licence is beside this file."]
    for rule in rules:
        if _is_taken(rule):
            for number, value in enumerate(rule["values"]):
                name = re.sub(r"[^a-z0-9]+", "-", rule["name"].lower()).strip("-")
                lines += _entry(f"{name}-{number + 1}" if number else name, _HEAD.sub("", value))
    (FOLDER / "credsweeper.toml").write_text("\n".join(lines) + "\n", "utf-8")
    (FOLDER / "credsweeper.LICENSE").write_text(Path(licence).read_text("utf-8").replace("\r\n", "\n"), "utf-8")


def _is_taken(rule: dict[str, Any]) -> bool:
    own_form = rule["type"] == "pattern" and not rule.get("use_ml") and "code" in rule["target"]
    return own_form and rule["name"] not in _LEFT_OUT


def _entry(name: str, pattern: str) -> Iterator[str]:
    keywords = keywords_of(pattern)
    yield ""
    yield "[[rules]]"
    yield f'id = "{name}"'
    yield f"keywords = {list(keywords)}".replace("'", '"')
    yield f"pattern = '''{pattern}'''"
    yield f"entropy = {_ENTROPY}"


def keywords_of(pattern: str) -> tuple[str, ...]:
    """The texts that every match of ``pattern`` begins with; none if they are shorter than three characters or many."""
    starts = _starts(list(re._parser.parse(pattern)))
    return tuple(sorted(starts)) if all(len(start) >= 3 for start in starts) else ()


def _starts(nodes: list[Any]) -> set[str]:
    """What matches of ``nodes`` begin with; shorter than it could be where there are too many."""
    whole = {""}
    for operation, value in nodes:
        kind = str(operation)
        if kind == "LITERAL":
            pieces, ends = {chr(value)}, False
        elif kind == "IN" and all(str(each[0]) in ("LITERAL", "RANGE") for each in value):
            pieces, ends = {letter for each in value for letter in _letters(each)}, False
        elif kind == "SUBPATTERN":
            pieces, ends = _starts(list(value[-1])), not _is_fixed(list(value[-1]))
        elif kind == "BRANCH":
            pieces = {start for branch in value[1] for start in _starts(list(branch))}
            ends = not all(_is_fixed(list(branch)) for branch in value[1])
        else:
            break
        longer = {one + other for one, other in product(whole, pieces)}
        if len(longer) > _MOST_KEYWORDS:
            break
        whole = longer
        if ends:
            break
    return whole


def _letters(item: Any) -> Iterator[str]:
    kind, value = str(item[0]), item[1]
    yield from map(chr, range(value[0], value[1] + 1) if kind == "RANGE" else (value,))


def _is_fixed(nodes: list[Any]) -> bool:
    """Whether ``_starts`` reads all of ``nodes``."""
    for operation, value in nodes:
        kind = str(operation)
        if kind == "SUBPATTERN" and _is_fixed(list(value[-1])):
            continue
        if kind == "BRANCH" and all(_is_fixed(list(branch)) for branch in value[1]):
            continue
        if kind not in ("LITERAL", "IN"):
            return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
