"""Writes the files of the dashboards."""

from tools.dashboards import DASHBOARDS, FOLDER, text_of

for each in DASHBOARDS:
    (FOLDER / f"{each}.json").write_text(text_of(each), encoding="utf-8")
