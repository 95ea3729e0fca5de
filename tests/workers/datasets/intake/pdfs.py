"""Small PDFs written by hand, good and bad."""

import zlib
from collections.abc import Sequence


def make_pdf(pages: Sequence[str], *, locked: bool = False, cyclic: bool = False, bomb_mib: int = 0) -> bytes:
    """A PDF with one line of text a page (lines at line ends).

    Args:
        locked: it asks for a password (its key is of no use to anybody).
        cyclic: its page tree contains itself.
        bomb_mib: so many MiB of white space, deflated, before the text of each page.
    """
    kids = [f"{4 + 2 * index} 0 R" for index in range(len(pages))]
    objects: list[bytes] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{'2 0 R' if cyclic else ' '.join(kids)}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, text in enumerate(pages):
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * index} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode(),
            _content(text, bomb_mib),
        ]
    extra = b""
    if locked:
        objects.append(b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <" + b"1f" * 32 + b"> /U <" + b"2e" * 32 + b"> >>")
        extra = f" /Encrypt {len(objects)} 0 R /ID [<{'ab' * 16}> <{'ab' * 16}>]".encode()
    return _assemble(objects, extra)


def _content(text: str, bomb_mib: int) -> bytes:
    lines = text.split("\n") if text else []
    commands = " T* ".join(f"({line}) Tj" for line in lines)
    stream = f"BT /F1 12 Tf 14 TL 72 720 Td {commands} ET".encode() if lines else b""
    if not bomb_mib:
        return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream)
    packer = zlib.compressobj(9)
    packed = b"".join([*(packer.compress(b" " * (1 << 20)) for _ in range(bomb_mib)), packer.compress(stream)])
    packed += packer.flush()
    return b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)


def _assemble(objects: list[bytes], extra: bytes) -> bytes:
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R%s >>\n" % (len(objects) + 1, extra)
    out += b"startxref\n%d\n%%%%EOF\n" % table
    return bytes(out)
