"""One plain-text mail by SMTP (RFC 5321) over STARTTLS (RFC 3207).

The platform has one mail server, set by environment variables: ``FT_SMTP_HOST``, ``FT_SMTP_PORT`` (587),
``FT_SMTP_FROM``, ``FT_SMTP_USER`` and ``FT_SMTP_PASSWORD`` if required, and ``FT_SMTP_STARTTLS=off`` for a local one.
"""

import re
import smtplib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from ft_resources.messages import Message, NotSent
from ft_resources.receivers import ADDRESS, check_address

# Deliberately narrow: no quotes, comments or display names, so that no address can inject a header.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LONGEST_SUBJECT = 180


@dataclass(frozen=True, kw_only=True, slots=True)
class SmtpSettings:
    """The platform's mail server."""

    host: str
    port: int
    sender: str
    user: str
    password: str
    starttls: bool


def smtp_settings(environment: Callable[[str], str | None]) -> SmtpSettings:
    """The settings in ``FT_SMTP_*``. Raises NotSent if they are invalid."""
    port = environment("FT_SMTP_PORT") or "587"
    host, sender = environment("FT_SMTP_HOST") or "", environment("FT_SMTP_FROM") or ""
    user, password = environment("FT_SMTP_USER") or "", environment("FT_SMTP_PASSWORD") or ""
    starttls = (environment("FT_SMTP_STARTTLS") or "on") != "off"
    if not host or not port.isdecimal() or not ADDRESS.fullmatch(sender):
        raise NotSent(
            "no mail server is configured",
            where="FT_SMTP_HOST, FT_SMTP_PORT, FT_SMTP_FROM",
            remedy="Set them in the daemon's environment.",
        )
    if user and not starttls:
        raise NotSent(
            "a password is never sent without STARTTLS",
            where="FT_SMTP_STARTTLS",
            remedy="Leave STARTTLS on, or unset FT_SMTP_USER.",
        )
    return SmtpSettings(host=host, port=int(port), sender=sender, user=user, password=password, starttls=starttls)


def compose(sender: str, to: Sequence[str], message: Message) -> EmailMessage:
    """The mail. Its Message-ID comes from the message, so that servers can recognise a duplicate."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = ", ".join(check_address(each) for each in to)
    mail["Subject"] = _CONTROL.sub(" ", message.subject).strip()[:_LONGEST_SUBJECT]
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{message.id}@{sender.partition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text)
    return mail


def send_mail(settings: SmtpSettings, to: Sequence[str], message: Message, *, timeout_s: float) -> None:
    """Send the mail. Raises NotSent unless the server accepts it for at least one address."""
    mail = compose(settings.sender, to, message)
    try:
        with smtplib.SMTP(settings.host, settings.port, timeout=timeout_s) as server:
            if settings.starttls:
                server.starttls(context=ssl.create_default_context())
            if settings.user:
                server.login(settings.user, settings.password)
            server.send_message(mail)
    except (OSError, smtplib.SMTPException) as error:
        # The error's text may contain addresses, and after a login the user name.
        code = getattr(error, "smtp_code", "")
        raise NotSent(
            f"the mail server refused the message ({type(error).__name__}{f' {code}' if code else ''})",
            where=f"{settings.host}:{settings.port}",
            remedy="Check the server and FT_SMTP_*.",
        ) from error
