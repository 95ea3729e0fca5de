"""The files that rows may come in, in words; ``workers/datasets/intake/kinds.py`` recognises them."""

READABLE = "JSONL, JSON, Parquet, CSV, TSV, XLSX, TXT, Markdown, HTML, DOCX or PDF, also compressed as .gz or .zst"
