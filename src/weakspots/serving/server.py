"""Where a server is, the key it wants, and how long it asks to be left alone."""

from __future__ import annotations

import os
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from weakspots.errors import UserError

KEY_VARIABLE = "WEAKSPOTS_API_KEY"

_EXAMPLE = "http://127.0.0.1:8000/v1"


def completions_url(url: str) -> str:
    """Where completions are asked, from a base URL or that URL itself. Raises UserError where it cannot be one."""
    if "://" not in url:
        raise UserError(f"{url!r} is no URL of a server: http:// is missing before it, or https://")
    try:
        parts = urlsplit(url)
        _ = parts.port  # read for its error: a port is a number up to 65535
    except ValueError as error:
        raise UserError(f"{url!r} is no URL of a server ({error}): give one such as {_EXAMPLE}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not _plain(url):
        raise UserError(f"{url!r} is no URL of a server: give one such as {_EXAMPLE}")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise UserError(
            f"the URL of the server at {parts.hostname} must end with its path, without user, password or query: "
            f"put an API key into {KEY_VARIABLE}"
        )
    path = parts.path.rstrip("/").removesuffix("/completions") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}/completions"


def api_key(variable: str) -> str:
    """The API key in an environment variable, empty where there is none. Raises UserError, without its content."""
    key = os.environ.get(variable, "").strip()
    if not _plain(key):
        raise UserError(f"{variable} holds no API key: it has characters that no header may have")
    return key


def retry_after(value: str) -> float:
    """Seconds, from a header that has them, or a date, or nothing that can be read (0)."""
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0


def _plain(text: str) -> bool:
    """Whether it can stand in the head of a request."""
    return text.isascii() and text.isprintable() and " " not in text
