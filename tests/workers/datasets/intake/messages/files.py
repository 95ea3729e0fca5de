"""Words for a file whose name or place will not do, or that is not what its name says."""

FILES: dict[str, str] = {
    # Names and places
    "symbolic link": ("link.jsonl: this is a symbolic link\n  What to do: Give the path of the file itself."),
    "dangling symbolic link": ("link.jsonl: this is a symbolic link\n  What to do: Give the path of the file itself."),
    "directory": ("folder.jsonl: this is not a regular file\n  What to do: Give the path of a file with rows."),
    "named pipe": ("pipe.jsonl: this is not a regular file\n  What to do: Give the path of a file with rows."),
    "device": ("zero: this is not a regular file\n  What to do: Give the path of a file with rows."),
    "not there": ("/nowhere/data.jsonl: there is no such file\n  What to do: Check the path."),
    "path that climbs to what is not there": (
        "/nowhere/../../nowhere/data.jsonl: there is no such file\n  What to do: Check the path."
    ),
    "name of dots": (
        "file name: '..' cannot be the name of an upload\n"
        "  What to do: Rename it: at most 120 printable characters, and no dot or hyphen in front."
    ),
    "name with backslashes": (
        "file name: '..\\\\..\\\\data.jsonl' cannot be the name of an upload\n"
        "  What to do: Rename it: at most 120 printable characters, and no dot or hyphen in front."
    ),
    "name with a line end": (
        "file name: 'data\\n.jsonl' cannot be the name of an upload\n"
        "  What to do: Rename it: at most 120 printable characters, and no dot or hyphen in front."
    ),
    "hidden name": (
        "file name: '.data.jsonl' cannot be the name of an upload\n"
        "  What to do: Rename it: at most 120 printable characters, and no dot or hyphen in front."
    ),
    "name like an option": (
        "file name: '-rf.jsonl' cannot be the name of an upload\n"
        "  What to do: Rename it: at most 120 printable characters, and no dot or hyphen in front."
    ),
    "unknown ending": (
        "data.odt: files ending in '.odt' cannot be read\n"
        "  What to do: Save it as JSONL, JSON, Parquet, CSV, TSV, XLSX, TXT, Markdown, HTML, DOCX or PDF, as it is or "
        "as .gz or .zst, and name it so."
    ),
    "no ending": (
        "data: the file's name has no ending that says what it is\n"
        "  What to do: Save it as JSONL, JSON, Parquet, CSV, TSV, XLSX, TXT, Markdown, HTML, DOCX or PDF, as it is or "
        "as .gz or .zst, and name it so."
    ),
    "unknown ending, compressed": (
        "data.tar.gz: files ending in '.tar.gz' cannot be read\n"
        "  What to do: Save it as JSONL, JSON, Parquet, CSV, TSV, XLSX, TXT, Markdown, HTML, DOCX or PDF, as it is or "
        "as .gz or .zst, and name it so."
    ),
    "still being written": (
        "data.jsonl: the file changed while it was being read\n"
        "  What to do: Wait until it is written, then add it again."
    ),
    # Wrong content for the name
    "empty": ("data.jsonl: the file is empty (0 bytes)\n  What to do: Upload a file with examples in it."),
    "only blank lines": ("data.jsonl: the file has no rows\n  What to do: Upload a file with examples in it."),
    "only a byte order mark": ("data.jsonl: the file has no rows\n  What to do: Upload a file with examples in it."),
    "zip as jsonl": (
        "data.jsonl: this is a ZIP file, not JSON lines\n"
        "  What to do: Unpack it and add the files in it; Word and Excel files are named .docx and .xlsx."
    ),
    "zip bomb as jsonl": (
        "data.jsonl: this is a ZIP file, not JSON lines\n"
        "  What to do: Unpack it and add the files in it; Word and Excel files are named .docx and .xlsx."
    ),
    "gzip as jsonl": (
        "data.jsonl: this is a gzip file, not JSON lines\n"
        "  What to do: Name it by what it is, with .gz at the end, such as data.jsonl.gz."
    ),
    "zstd as csv": (
        "data.csv: this is a zstd file, not CSV\n"
        "  What to do: Name it by what it is, with .zst at the end, such as data.jsonl.zst."
    ),
    "parquet as jsonl": (
        "data.jsonl: this is a Parquet file, not JSON lines\n  What to do: Name it by what it is, ending in .parquet."
    ),
    "pdf as txt": (
        "book.txt: this is a PDF file, not plain text\n  What to do: Name it by what it is, ending in .pdf."
    ),
    "pickle as json": (
        "data.json: this is a Python pickle file, not JSON\n"
        "  What to do: Save the data as JSONL, JSON, Parquet, CSV, TSV, XLSX, TXT, Markdown, HTML, DOCX or PDF, "
        "as it is or as .gz or .zst."
    ),
    "jsonl as parquet": (
        "data.parquet: this is not a Parquet file, though its name ends in '.parquet'\n"
        "  What to do: Check that it was saved and transferred whole, and name it by what it is."
    ),
    "jsonl as pdf": (
        "data.pdf: this is not a PDF file, though its name ends in '.pdf'\n"
        "  What to do: Check that it was saved and transferred whole, and name it by what it is."
    ),
    "jsonl as gzip": (
        "data.jsonl.gz: this is not a gzip file, though its name ends in '.gz'\n"
        "  What to do: Check that it was saved and transferred whole, and name it by what it is."
    ),
    "zstd as gzip": (
        "data.jsonl.gz: this is a zstd file, not gzip\n"
        "  What to do: Name it by what it is, with .zst at the end, such as data.jsonl.zst."
    ),
    "gzip in gzip": (
        "data.jsonl.gz: this is a gzip file, not JSON lines\n"
        "  What to do: Name it by what it is, with .gz at the end, such as data.jsonl.gz."
    ),
    "zip in gzip": (
        "data.jsonl.gz: this is a ZIP file, not JSON lines\n"
        "  What to do: Unpack it and add the files in it; Word and Excel files are named .docx and .xlsx."
    ),
    "login page": (
        "data.jsonl: this is an HTML page, perhaps a login or error page saved in place of the data\n"
        "  What to do: Download the data again, signed in, and look at it before you add it; a page to "
        "train on is named .html."
    ),
    "git lfs pointer": (
        "data.csv: this is a Git LFS pointer, not the file it points to\n"
        "  What to do: Fetch the data itself with `git lfs pull`, then add it again."
    ),
    "utf-16 with mark": (
        "data.jsonl: the file is UTF-16 text, not UTF-8 (byte 1)\n  What to do: Save the file as UTF-8."
    ),
    "utf-16 big endian with mark": (
        "data.csv: the file is UTF-16 text, not UTF-8 (byte 1)\n  What to do: Save the file as UTF-8."
    ),
    "utf-16 without mark": (
        "data.jsonl: the file is not text: 7,700 of its first 15,400 bytes are NUL\n"
        "  What to do: Save it as UTF-8 text; if it is text, it may be UTF-16, or its transfer may have failed."
    ),
    "utf-32 with mark": (
        "data.json: the file is UTF-32 text, not UTF-8 (byte 1)\n  What to do: Save the file as UTF-8."
    ),
    "nul bytes everywhere": (
        "data.jsonl: the file is not text: 5,000 of its first 5,000 bytes are NUL\n"
        "  What to do: Save it as UTF-8 text; if it is text, it may be UTF-16, or its transfer may have failed."
    ),
    "nul bytes at the end": (
        "data.jsonl: the file ends in NUL bytes, as after a transfer that was not completed\n"
        "  What to do: Transfer the file again and compare its size or checksum with the original's."
    ),
    "array as jsonl": (
        "data.jsonl: this is one JSON array, not one object a line\n"
        "  What to do: Name the file .json instead, or write each object on a line of its own."
    ),
    "pretty-printed jsonl": (
        "data.jsonl: the first object spans more than one line\n"
        "  What to do: Write each object on one line; or, if it is one JSON document, name the file .json."
    ),
    "old mac line ends": (
        "data.jsonl: lines end in a carriage return alone\n"
        "  What to do: Save the file with line ends \\n (Unix) or \\r\\n (Windows)."
    ),
}
