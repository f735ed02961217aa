"""Messages in a Slack channel."""

from __future__ import annotations

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.models.blocks import PlainTextObject, SectionBlock

from alerts.message import Message, text
from alerts.transport import DeliveryError

TEXT_LIMIT = 3000  # Slack's own, for one text object


class SlackTransport:
    """Posts a message into one channel; replies go into the thread of their incident's head."""

    name = "slack"

    def __init__(self, *, token: str, channel: str, base_url: str = WebClient.BASE_URL) -> None:
        self._channel = channel
        self._client = WebClient(token=token, base_url=base_url)

    def deliver(self, message: Message, *, thread: str | None) -> str | None:
        """Post it; the thread's reference is the timestamp of its head.

        Raises:
            DeliveryError: Slack refused it or did not answer.
        """
        try:
            answer = self._client.chat_postMessage(
                channel=self._channel,
                thread_ts=thread,
                text=_escaped(text(message))[:TEXT_LIMIT],
                blocks=_blocks(message),
                unfurl_links=False,
            )
        except SlackApiError as error:
            raise DeliveryError(f"Slack refused the message: {error.response['error']}") from error
        except (SlackClientError, OSError) as error:
            raise DeliveryError(f"Slack did not answer: {error}") from error
        return None if thread else str(answer["ts"])


def _blocks(message: Message) -> list[SectionBlock]:
    """Plain text blocks: no mention, link or markup can be made of what a benchmark or a log says."""
    lines = "\n".join(message["lines"])
    return [
        SectionBlock(text=PlainTextObject(text=words[:TEXT_LIMIT], emoji=False))
        for words in (message["title"], lines)
        if words
    ]


def _escaped(words: str) -> str:
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
