"""The threat model names tests that exist."""

import re

from tests.e2e.project import ROOT

PAGE = ROOT / "docs" / "explanation" / "security.md"


def test_what_holds_an_attack_is_shown_by_a_test_that_exists() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "`tests/" in line]
    assert len(rows) > 20
    for row in rows:
        for file, named in re.findall(r"`(tests/\S+\.py)`((?:[:,] `test_\w+`)*)", row):
            source = (ROOT / file).read_text(encoding="utf-8")
            for name in re.findall(r"test_\w+", named):
                assert f"def {name}(" in source, (file, name)
