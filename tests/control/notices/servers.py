"""A webhook's and a mail server's other side, in this process: they keep what they were given, and answer as told."""

import datetime
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Hook:
    """What a webhook was given, and how it answers: statuses, one after the other, the last for ever."""

    url: str = ""
    answers: list[int] = field(default_factory=lambda: [200])
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    # Set it to let a server that hangs go on.
    released: threading.Event = field(default_factory=threading.Event)


HANGS, DRIPS = -1, -2


@contextmanager
def webhook(*answers: int, certificate: tuple[Path, Path] | None = None) -> Iterator[Hook]:
    """A webhook on this machine; HTTPS where it has a certificate."""
    hook = Hook(answers=list(answers) or [200])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
            hook.got.append((dict(self.headers), body))
            if answer == HANGS:
                hook.released.wait(600)
                return
            if answer == DRIPS:
                # A byte now and then keeps every read short, and the answer never ends.
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
                while not hook.released.wait(0.05):
                    try:
                        self.wfile.write(b"x")
                    except OSError:
                        return
                return
            self.send_response(answer)
            if 300 <= answer < 400:
                self.send_header("Location", hook.url)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    hook.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}/notices"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.released.set()
        server.shutdown()
        server.server_close()


@dataclass
class Postbox:
    """What a mail server took: (recipients, mail)."""

    port: int = 0
    got: list[tuple[list[str], bytes]] = field(default_factory=list)
    secured: int = 0
    refuses: bool = False


@contextmanager
def mail_server(certificate: tuple[Path, Path] | None = None) -> Iterator[Postbox]:
    """As much of SMTP as one mail needs; STARTTLS where it has a certificate."""
    box = Postbox()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(line.encode() + b"\r\n")

        def handle(self) -> None:
            to: list[str] = []
            self.say("220 box")
            while line := self.rfile.readline().decode().strip():
                verb = line.partition(" ")[0].upper()
                if verb == "EHLO":
                    self.say("250-box" if certificate else "250 box")
                    if certificate:
                        self.say("250 STARTTLS")
                elif verb == "STARTTLS" and certificate:
                    self.say("220 go on")
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.load_cert_chain(*certificate)
                    secure = context.wrap_socket(self.connection, server_side=True)
                    self.rfile, self.wfile = secure.makefile("rb"), secure.makefile("wb", 0)  # type: ignore[assignment]
                    box.secured += 1
                elif verb == "RCPT":
                    to.append(line.partition("<")[2].rstrip(">"))
                    self.say("250 ok")
                elif verb == "DATA" and not box.refuses:
                    self.say("354 go on")
                    lines = []
                    while (part := self.rfile.readline()) != b".\r\n":
                        lines.append(part)
                    box.got.append((to, b"".join(lines)))
                    self.say("250 ok")
                elif verb == "DATA":
                    self.say("451 later")
                else:
                    self.say("221 bye" if verb == "QUIT" else "250 ok")
                    if verb == "QUIT":
                        return

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    box.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield box
    finally:
        server.shutdown()
        server.server_close()


def make_certificate(folder: Path, name: str = "127.0.0.1") -> tuple[Path, Path]:
    """A certificate for ``name`` and its key, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    alternative: x509.GeneralName = x509.IPAddress(IPv4Address(name)) if name[0].isdigit() else x509.DNSName(name)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(exist_ok=True)
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return files
