"""Send one notification to one target, once, or raise an error with the reason.

Recipients and retries are decided in ``ft_assets/control/notices``. Secrets are named by environment variable and
appear in no record, error or log.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ft_resources.mail import send_mail, smtp_settings
from ft_resources.messages import Message, NotSent, Target, WebhookTarget
from ft_resources.webhook import allowed_hosts, post

_LEAST_SECRET = 16


Send = Callable[[Target, Message], None]


@dataclass(frozen=True, kw_only=True)
class Notifier:
    """Sends messages. All configuration comes from the environment, read for each message.

    Args:
        environment: variables by name.
        timeout_s: maximum seconds for one message in total, whatever the receiver does.
    """

    environment: Callable[[str], str | None] = field(default=os.environ.get)
    timeout_s: float = 10.0

    def send(self, target: Target, message: Message) -> None:
        """Send ``message``. Raises NotSent unless the target confirms that it has it."""
        if isinstance(target, WebhookTarget):
            secret = self._secret(target)
            hosts = allowed_hosts(self.environment("FT_NOTIFY_HOSTS") or "")
            post(target.url, message, secret=secret, hosts=hosts, timeout_s=self.timeout_s)
        else:
            send_mail(smtp_settings(self.environment), target.to, message, timeout_s=self.timeout_s)

    def _secret(self, target: WebhookTarget) -> bytes:
        secret = self.environment(target.secret_env) or ""
        if len(secret) < _LEAST_SECRET:
            raise NotSent(
                f"{target.secret_env} is {'too short to be a key' if secret else 'not set'}",
                where=target.name,
                remedy=f"Set it to at least {_LEAST_SECRET} characters in the daemon's environment.",
            )
        return secret.encode()
