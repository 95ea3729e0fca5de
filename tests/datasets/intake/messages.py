"""What each malformed upload is refused with."""

MESSAGES: dict[str, str] = {
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
        "file name: '..' cannot be a file name in the store\n"
        "  What to do: Rename it: at most 120 letters, digits and . _ - + = @, and no dot or hyphen in front."
    ),
    "name with backslashes": (
        "file name: '..\\\\..\\\\data.jsonl' cannot be a file name in the store\n"
        "  What to do: Rename it: at most 120 letters, digits and . _ - + = @, and no dot or hyphen in front."
    ),
    "name with a line end": (
        "file name: 'data\\n.jsonl' cannot be a file name in the store\n"
        "  What to do: Rename it: at most 120 letters, digits and . _ - + = @, and no dot or hyphen in front."
    ),
    "hidden name": (
        "file name: '.data.jsonl' cannot be a file name in the store\n"
        "  What to do: Rename it: at most 120 letters, digits and . _ - + = @, and no dot or hyphen in front."
    ),
    "name like an option": (
        "file name: '-rf.jsonl' cannot be a file name in the store\n"
        "  What to do: Rename it: at most 120 letters, digits and . _ - + = @, and no dot or hyphen in front."
    ),
    "unknown ending": (
        "data.xlsx: files ending in '.xlsx' cannot be read\n"
        "  What to do: Save it as JSONL, JSON, Parquet, CSV, TSV, TXT or PDF, as it is or as .gz or .zst, and "
        "name it so."
    ),
    "no ending": (
        "data: the file's name has no ending that says what it is\n"
        "  What to do: Save it as JSONL, JSON, Parquet, CSV, TSV, TXT or PDF, as it is or as .gz or .zst, and "
        "name it so."
    ),
    "unknown ending, compressed": (
        "data.tar.gz: files ending in '.tar.gz' cannot be read\n"
        "  What to do: Save it as JSONL, JSON, Parquet, CSV, TSV, TXT or PDF, as it is or as .gz or .zst, and "
        "name it so."
    ),
    "still being written": (
        "data.jsonl: the file changed while it was being read\n"
        "  What to do: Wait until it is written, then add it again."
    ),
    "empty": ("data.jsonl: the file is empty (0 bytes)\n  What to do: Upload a file with examples in it."),
    "only blank lines": ("data.jsonl: the file has no rows\n  What to do: Upload a file with examples in it."),
    "only a byte order mark": ("data.jsonl: the file has no rows\n  What to do: Upload a file with examples in it."),
    "zip as jsonl": (
        "data.jsonl: this is a ZIP file, not JSON lines\n"
        "  What to do: Unpack it and add the files in it; save spreadsheets and documents as CSV or PDF."
    ),
    "zip bomb as jsonl": (
        "data.jsonl: this is a ZIP file, not JSON lines\n"
        "  What to do: Unpack it and add the files in it; save spreadsheets and documents as CSV or PDF."
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
        "  What to do: Save the data as JSONL, JSON, Parquet, CSV, TSV, TXT or PDF, as it is or as .gz or .zst."
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
        "  What to do: Unpack it and add the files in it; save spreadsheets and documents as CSV or PDF."
    ),
    "login page": (
        "data.jsonl: this is an HTML page, perhaps a login or error page saved in place of the data\n"
        "  What to do: Download the data again, signed in, and look at it before you add it."
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
        "data.jsonl: the first object goes over more than one line\n"
        "  What to do: Write each object on one line; or, if it is one JSON document, name the file .json."
    ),
    "old mac line ends": (
        "data.jsonl: lines end in a carriage return alone\n"
        "  What to do: Save the file with line ends \\n (Unix) or \\r\\n (Windows)."
    ),
    "truncated gzip": (
        "data.jsonl.gz: the gzip file is damaged: it ends before its end mark, so a part is missing\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "gzip without its checksum": (
        "data.jsonl.gz: the gzip file is damaged: it ends before its end mark, so a part is missing\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "gzip with a wrong checksum": (
        "data.jsonl.gz: the gzip file is damaged: its bytes or its checksum do not fit together\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "gzip with rubbish behind": (
        "data.jsonl.gz: the gzip file is damaged: its bytes or its checksum do not fit together\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "gzip of nothing": (
        "data.jsonl.gz: the file is empty once unpacked\n  What to do: Upload a file with examples in it."
    ),
    "gzip of blank lines": ("data.jsonl.gz: the file has no rows\n  What to do: Upload a file with examples in it."),
    "gzip bomb": (
        "data.jsonl.gz: the file unpacks to more than 200 times its size, as only files made to do harm do\n"
        "  What to do: Add the data as it is, not compressed."
    ),
    "gzip bomb of many members": (
        "data.csv.gz: the file unpacks to more than 200 times its size, as only files made to do harm do\n"
        "  What to do: Add the data as it is, not compressed."
    ),
    "gzip name that climbs": (
        "data.jsonl.gz, row 1: the row is not valid JSON at character 1 (Expecting value)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "truncated zstd": (
        "data.jsonl.zst: the zstd file is damaged: it ends before its end mark, so a part is missing\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "zstd bomb": (
        "data.json.zst: the file unpacks to more than 200 times its size, as only files made to do harm do\n"
        "  What to do: Add the data as it is, not compressed."
    ),
    "too large unpacked": (
        "data.jsonl.gz: the file unpacks to more than 1,000 bytes, the most that is allowed\n"
        "  What to do: Split the data into several files."
    ),
    "json scalar": (
        "data.json: this is not JSON: it starts with neither [ nor {\n"
        "  What to do: Write a JSON array of objects, or name the file by what it is."
    ),
    "json cut off": (
        "data.json: the JSON file is damaged: it ends inside element 113 of the array, so a part is missing\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "json cut off in a string": (
        "data.json: the JSON file is damaged: it ends inside element 1 of the array, so a part is missing\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "json object cut off": (
        "data.json: the JSON file is damaged: it ends after 33 bytes, inside the object, so a part is missing\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "json array of nothing": ("data.json: the JSON array is empty\n  What to do: Upload a file with examples in it."),
    "json object without rows": (
        "data.json: the JSON is one object that holds no list of objects\n"
        '  What to do: Write the rows as one array: [{"prompt": …, "completion": …}, …].'
    ),
    "json object of two lists": (
        "data.json: the JSON is one object that holds 2 lists of objects, so it is not clear which the rows "
        "are\n"
        '  What to do: Write the rows as one array: [{"prompt": …, "completion": …}, …].'
    ),
    "json element missing": (
        "data.json, row 2: there is nothing between two commas, or after the last one\n"
        "  What to do: Remove the comma that is too many; the array is no valid JSON."
    ),
    "json comma at the end": (
        "data.json, row 2: there is nothing between two commas, or after the last one\n"
        "  What to do: Remove the comma that is too many; the array is no valid JSON."
    ),
    "two json arrays": (
        "data.json: there is more text after the end of the JSON\n"
        "  What to do: Keep one JSON array in a file; or write one object a line, and name the file .jsonl."
    ),
    "json of brackets": (
        "data.json: the JSON file is damaged: it ends inside element 1 of the array, so a part is missing\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "json brackets that do not match": (
        "data.json, row 1: the row is not valid JSON at character 9 (Expecting ',' delimiter)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "json element nested deeply": (
        "data.json, row 1: the row's JSON is nested too deeply\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "json element with a line end in a string": (
        "data.json, row 1: the row is not valid JSON at character 14 (Invalid control character at)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "truncated parquet": (
        "data.parquet: the Parquet file is damaged: its footer or its pages cannot be read\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "parquet with a corrupt footer": (
        "data.parquet: the Parquet file is damaged: its footer or its pages cannot be read\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "parquet with corrupt pages": (
        "data.parquet: the Parquet file is damaged: its footer or its pages cannot be read\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "encrypted parquet": (
        "data.parquet: the Parquet file is encrypted\n"
        "  What to do: Save it without encryption; uploads are kept private."
    ),
    "parquet of only marks": (
        "data.parquet: the Parquet file is damaged: its footer or its pages cannot be read\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "parquet that claims a huge footer": (
        "data.parquet: the Parquet file is damaged: its footer or its pages cannot be read\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "parquet bomb": (
        "data.parquet: the file unpacks to more than 200 times its size, as only files made to do harm do\n"
        "  What to do: Add the data as it is, not compressed."
    ),
    "parquet bomb in one batch": (
        "data.parquet: reading the file takes more than the 96 MiB of memory that are allowed\n"
        "  What to do: It may be damaged or unpack to far more than it holds; save the data as JSON lines "
        "instead."
    ),
    "parquet without rows": ("data.parquet: the file has no rows\n  What to do: Upload a file with examples in it."),
    "parquet with pictures": (
        "data.parquet: column 'image' holds binary values, which have no JSON form\n"
        "  What to do: Save it as text, numbers, lists or structs, or leave it out if nothing is learned from it."
    ),
    "parquet with bytes for texts": (
        "data.parquet: column 'completion' holds binary values, which have no JSON form\n"
        "  What to do: Save it as text, numbers, lists or structs, or leave it out if nothing is learned from it."
    ),
    "parquet with pictures in its turns": (
        "data.parquet: column 'messages' holds large_binary values, which have no JSON form\n"
        "  What to do: Save it as text, numbers, lists or structs, or leave it out if nothing is learned from it."
    ),
    "parquet of too many columns": (
        "data.parquet: the file has 1,001 columns, more than the 1,000 that are allowed\n"
        "  What to do: Keep the columns that hold the examples."
    ),
    "parquet with a null": (
        "data.parquet, row 2, prompt: this should be text, not null\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "parquet in truncated gzip": (
        "data.parquet.gz: the gzip file is damaged: it ends before its end mark, so a part is missing\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "csv of shifting columns": (
        "data.csv, record 121 (line 122): the record has 3 columns, and the header has 2\n"
        "  What to do: Put fields that hold commas, quotes or line ends into double quotes, and double the "
        "quotes inside."
    ),
    "csv with a short record": (
        "data.csv, record 4 (line 5): the record has 1 column, and the header has 2\n"
        "  What to do: Put fields that hold commas, quotes or line ends into double quotes, and double the "
        "quotes inside."
    ),
    "csv with an open quote": (
        "data.csv, record 121 (line 123): a quote is not closed until the end of the file\n"
        "  What to do: Close the quote, and double quotes inside quoted fields."
    ),
    "csv with text after a quote": (
        "data.csv, record 121 (line 122): text stands after a closing quote\n"
        "  What to do: Close the quote, and double quotes inside quoted fields."
    ),
    "csv without a header": (
        "data.csv, header: column 1 looks like data, not like a name: the first line should name the columns\n"
        "  What to do: Give every column a name of its own in the first line."
    ),
    "csv with numbers as its header": (
        "data.csv, header: column 2 looks like data, not like a name: the first line should name the columns\n"
        "  What to do: Give every column a name of its own in the first line."
    ),
    "csv with a name twice": (
        "data.csv, header: column 3 has the name of an earlier one\n"
        "  What to do: Give every column a name of its own in the first line."
    ),
    "csv with a nameless column": (
        "data.csv, header: column 2 has no name\n  What to do: Give every column a name of its own in the first line."
    ),
    "csv with only a header": (
        "data.csv: the file has a header and no records\n  What to do: Upload a file with examples in it."
    ),
    "csv of semicolons": (
        "data.csv, header: the columns are separated by semicolons, not commas\n"
        "  What to do: Save it with commas between the columns."
    ),
    "csv of tabs": (
        "data.csv, header: the columns are separated by tabs, not commas\n  What to do: Name the file .tsv."
    ),
    "tsv of commas": (
        "data.tsv, header: the columns are separated by commas, not tabs\n  What to do: Name the file .csv."
    ),
    "csv of too many columns": (
        "data.csv, header: the header has 1,001 columns, more than the 1,000 that are allowed\n"
        "  What to do: Keep the columns that hold the examples."
    ),
    "csv with a huge field": (
        "data.csv, record 1 (line 2): a field is longer than 65,536 bytes, or a quote is not closed\n"
        "  What to do: Close the quote, and double quotes inside quoted fields."
    ),
    "csv in latin-1": (
        "data.csv, row 8: byte 44 of the row (0xe9) is not UTF-8\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "csv with a header in latin-1": (
        "data.csv, header: the name of column 1 has characters that are not printable UTF-8\n"
        "  What to do: Give every column a name of its own in the first line."
    ),
    "csv with an empty answer": (
        "data.csv, row 1, completion: this text is empty\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "txt of blanks": ("book.txt: the file has no text\n  What to do: Upload a file with text in it."),
    "txt in latin-1": (
        "book.txt: byte 8 (0xe9) is not UTF-8\n"
        "  What to do: Save the file as UTF-8; it may be in an older encoding, in part or as a whole."
    ),
    "txt that ends inside a character": (
        "book.txt: byte 8 (0xc3) is not UTF-8\n"
        "  What to do: Save the file as UTF-8; it may be in an older encoding, in part or as a whole."
    ),
    "pdf without text": (
        "scan.pdf: the PDF has no text in its 2 pages; they may be scanned images\n"
        "  What to do: Run text recognition (OCR) over it, or save the text as TXT."
    ),
    "pdf with a password": (
        "book.pdf: the PDF is protected by a password\n  What to do: Save a copy without the password."
    ),
    "truncated pdf": (
        "book.pdf: the PDF file is damaged: its end mark (%%EOF) is not there, so a part is missing\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "pdf of rubbish": (
        "book.pdf: the PDF file is damaged: it has no structure that can be read\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "pdf with a cyclic page tree": (
        "book.pdf: the PDF file is damaged: page 1 cannot be read\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "pdf with a bomb": (
        "book.pdf: the file makes its reader crash, or take more than the 96 MiB of memory that are allowed "
        "(SIGABRT)\n"
        "  What to do: It is probably damaged: save it again, or save the data in another format."
    ),
    "pdf with no pages": (
        "book.pdf: the PDF file is damaged: it has no structure that can be read\n"
        "  What to do: Save or transfer it again, whole, and check that it opens where it came from."
    ),
    "row that is cut off": (
        "data.jsonl, row 121: the row is not valid JSON at character 12 (Unterminated string starting at); the "
        "file ends here without a line end, so it may have been cut off\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row of 40 MiB": (
        "data.jsonl, row 1201: the row is longer than 16 MiB\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a nul byte": (
        "data.jsonl, row 120: the row is not valid JSON at character 14 (Invalid control character at)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a byte order mark": (
        "data.jsonl, row 120: the row is not valid JSON at character 1 (Expecting value)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row in latin-1": (
        "data.jsonl, row 120: byte 16 of the row (0xe9) is not UTF-8\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with an overlong character": (
        "data.jsonl, row 120: byte 13 of the row (0xc0) is not UTF-8\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with an encoded surrogate": (
        "data.jsonl, row 120: byte 13 of the row (0xed) is not UTF-8\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with half a surrogate pair": (
        "data.jsonl, row 120, prompt: this text holds half of a surrogate pair (\\ud800 to \\udfff)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a key twice": (
        "data.jsonl, row 120: an object of the row has the same key twice\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a key twice further in": (
        "data.jsonl, row 120: an object of the row has the same key twice\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with NaN": (
        "data.jsonl, row 120: the row has NaN, which is not JSON\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with Infinity": (
        "data.jsonl, row 120: the row has -Infinity, which is not JSON\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with an endless number": (
        "data.jsonl, row 120: the row has a number with too many digits\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row nested deeply": (
        "data.jsonl, row 120: the row's JSON is nested too deeply\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row that is a list": (
        "data.jsonl, row 120: the row is JSON but not an object ({…})\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row that is text": (
        "data.jsonl, row 120: the row is not valid JSON at character 1 (Expecting value)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row in Python's words": (
        "data.jsonl, row 120: the row is not valid JSON at character 2 (Expecting property name enclosed in "
        "double quotes)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a comma too many": (
        "data.jsonl, row 120: the row is not valid JSON at character 52 (Expecting property name enclosed in "
        "double quotes)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "two rows on a line": (
        "data.jsonl, row 120: the row is not valid JSON at character 52 (Extra data)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a misspelt field": (
        "data.jsonl, row 120: the row has 'promt'; did you mean 'prompt'?\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with an empty answer": (
        "data.jsonl, row 120, completion: this text is empty\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a number for text": (
        "data.jsonl, row 120, prompt: this should be text, not a number\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with roles in a wrong order": (
        "data.jsonl, row 120, messages[1].role: 'user' stands where 'assistant' belongs (after 'user')\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row without an assistant's turn": (
        "data.jsonl, row 120, messages[0].role: the last turn is 'user'; it should be the assistant's, which "
        "is what is learned\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row without turns": (
        "data.jsonl, row 120, messages: this should be a list of turns, with at least one in it\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
}
