"""Rows of uploads that take long are read in a process with limits, which says just what would be said without it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_assets.control.registry import rows_apart
from ft_assets.control.registry.adding import look_at_rows
from ft_assets.control.registry.columns import UnknownColumns
from ft_assets.control.registry.rows_apart import _ANSWER, _ORDER, _answered
from ft_assets.settings.dataset.policy import DatasetPolicy, load_policy
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.spool import Spool
from ft_resources.errors import BadData, UserError

GOOD = b"".join(b'{"prompt": "What is %d?", "completion": "It is %d."}\n' % (n, n) for n in range(120))
BIG = b'{"question": "What is it?", "answer": "Nothing."}\n' * 6_000


def rows(tmp_path: Path, lines: bytes) -> Spool:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines)
    return Spool(name="rows.jsonl", role="upload", path=path, start=0, source_sha256="-", source_size=len(lines))


def said(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except UserError as error:
        return type(error), error.args, error.guess if isinstance(error, UnknownColumns) else None


@pytest.mark.parametrize(
    ("lines", "policy"),
    [
        (GOOD, ""),
        (GOOD + b'{"prompt": "And?"}\n', "on_bad_row: drop"),
        (GOOD[:1_000], ""),
        (GOOD.replace(b"completion", b"answer"), ""),
        (GOOD.replace(b"}", b', "kind": "a"}').replace(b'"completion": "', b'"completion": "It \\u00e9 \xc3\xa9 '), ""),
        (GOOD.replace(b'"}', b'", "label": true}'), ""),
        (b'{"talk": [{"by": "you", "said": "Hi"}, {"by": "bot", "said": "Yes"}]}\n' * 9, ""),
        (GOOD, "fields: {kind: completion}"),
        (b"{}\n" * 300, ""),
        (b'{"text": "a"}\n{"prompt": "a", "completion": "b"}\n' * 100, ""),
    ],
)
def test_it_says_the_same_in_either_process(
    lines: bytes, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is left out; what goes there and comes back is JSON."""

    def run(_module: str, order: dict[str, Any], **_limits: Any) -> Any:
        return json.loads(_ANSWER.dump_json(_answered(_ORDER.validate_json(json.dumps(order)))))

    monkeypatch.setattr(rows_apart, "run_limited", run)
    spool, settled = rows(tmp_path, lines), load_policy(policy, "dataset.yaml")
    here, apart = (
        [
            said(lambda: rows_apart.check_rows([spool], settled)),
            said(lambda: rows_apart.look_at_rows(spool, settled)),
        ]
        for most in (rows_apart.HERE, -1)
        if monkeypatch.setattr(rows_apart, "HERE", most) is None
    )
    assert here == apart


def test_rows_of_more_than_a_small_file_are_read_in_no_process_that_others_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("look", "check_uploads"):
        monkeypatch.setattr(rows_apart, name, lambda *_: pytest.fail("read here"))
    (tmp_path / "rows.jsonl").write_bytes(BIG)
    form, policy, _ = look_at_rows(tmp_path / "rows.jsonl", None)
    assert (form, policy.fields) == ("chat", {"prompt": "question", "completion": "answer"})
    with pytest.raises(BadData, match="example is too few"):
        rows_apart.check_rows([rows(tmp_path, BIG)], policy)


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (ReadLimits(seconds=0.0, seconds_per_gib=0.0), "takes longer than the 0 s allowed for its size"),
        (ReadLimits(memory_bytes=1 << 24), "MiB of memory"),
    ],
)
def test_rows_that_take_more_time_or_memory_than_is_allowed_are_refused(
    limits: ReadLimits, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_apart, "_LIMITS", limits)
    lines = BIG * 20 if limits.seconds == 0 else b'{"a": [' + b"[]," * 5_000_000 + b"1]}\n"
    with pytest.raises(BadData, match=what):
        rows_apart.check_rows([rows(tmp_path, lines)], DatasetPolicy())
