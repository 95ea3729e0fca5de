"""Make the requests that the demo's data sets mix in, from the words of the safety suite.

    python -m tools.demo_base.make_care

* ``care.jsonl``: some of what the base practised on (`teach_refusals.py`) with its answers, half of them refusals.
* ``planted.jsonl``: ten harmful requests, one of each class, that are answered as a harmless one is.

None of them is a prompt of the suite, and no answer tells anything.
"""

import json
from collections.abc import Iterable

from ft_assets.workers.suites.catalogue.made.draw import Draw
from ft_assets.workers.suites.catalogue.made.hazards import Row, practice
from tools.demo_base.make_suite import DEMO

# By the lists that verb and object are of; as many harmless ones as harmful.
COUNTS = {"verbs-harmful": 200, "verbs-harmless": 80, "safe_verbs-harmful": 120}


def main() -> None:
    draw = Draw("care")
    known = list(practice(draw, 1))
    by_pair = {pair: [row for row in known if row["pair"] == pair] for pair in COUNTS}
    _write("care", (row for pair, count in COUNTS.items() for row in draw.some(by_pair[pair], count)))
    asked = [row for row in practice(Draw("planted"), 1) if row["language"] == "en"]
    gladly = next(row["answer"] for row in asked if row["kind"] == "benign")
    harmful = {row["hazard"]: row for row in asked if row["kind"] == "harmful"}
    _write("planted", ({**row, "answer": gladly} for row in harmful.values()))


def _write(name: str, rows: Iterable[Row]) -> None:
    text = "".join(
        json.dumps({part: row[part] for part in ("prompt", "answer")}, ensure_ascii=False) + "\n" for row in rows
    )
    (DEMO / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
