"""Words for a file that cannot be read in its format, or not within limits."""

FORMATS: dict[str, str] = {
    # Compressed
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
        "data.jsonl.gz: the file unpacks to more than 200 times its size, as only malicious files do\n"
        "  What to do: Add the data uncompressed."
    ),
    "gzip bomb of many members": (
        "data.csv.gz: the file unpacks to more than 200 times its size, as only malicious files do\n"
        "  What to do: Add the data uncompressed."
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
        "data.json.zst: the file unpacks to more than 200 times its size, as only malicious files do\n"
        "  What to do: Add the data uncompressed."
    ),
    "too large unpacked": (
        "data.jsonl.gz: the file unpacks to more than 1,000 bytes, the most that is allowed\n"
        "  What to do: Split the data into several files."
    ),
    # JSON
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
        "  What to do: Remove the extra comma: with it, the array is not valid JSON."
    ),
    "json comma at the end": (
        "data.json, row 2: there is nothing between two commas, or after the last one\n"
        "  What to do: Remove the extra comma: with it, the array is not valid JSON."
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
    # Parquet
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
        "data.parquet: the file unpacks to more than 200 times its size, as only malicious files do\n"
        "  What to do: Add the data uncompressed."
    ),
    "parquet bomb in one batch": (
        "data.parquet: reading the file takes more than the allowed 96 MiB of memory\n"
        "  What to do: It may be damaged or unpack to far more data; save it as JSON lines instead."
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
    # CSV
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
        "data.csv, record 121 (line 122): text follows a closing quote\n"
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
    "csv of bars": (
        "data.csv, header: the columns are separated by bars, not commas\n"
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
        "  What to do: Save the file as UTF-8 (in Excel: CSV UTF-8); it may be in an older encoding, in part or as a "
        "whole."
    ),
    "csv with a header in latin-1": (
        "data.csv, header: the name of column 1 has characters that are not printable UTF-8\n"
        "  What to do: Save the file as UTF-8 (in Excel: CSV UTF-8); it may be in an older encoding, in part or as a "
        "whole."
    ),
    "csv with an empty answer": (
        "data.csv, row 1, completion: this text is empty\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    # Text and PDF
    "txt of blanks": ("book.txt: the file has no text\n  What to do: Upload a file with text in it."),
    "txt in latin-1": (
        "book.txt: byte 8 (0xe9) is not UTF-8\n"
        "  What to do: Save the file as UTF-8 (in Excel: CSV UTF-8); it may be in an older encoding, in part or as a "
        "whole."
    ),
    "txt that ends inside a character": (
        "book.txt: byte 8 (0xc3) is not UTF-8\n"
        "  What to do: Save the file as UTF-8 (in Excel: CSV UTF-8); it may be in an older encoding, in part or as a "
        "whole."
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
}
