"""A real SMTP server whose moods a test decides. Commands come as JSON lines, each is answered by one.

`messages` are those that were accepted, as a mail program would read them."""

import argparse
import asyncio
import contextlib
import email
import email.policy
import json
import logging
import ssl
import sys
import warnings

from aiosmtpd.smtp import SMTP, AuthResult


# Clients that hang up or mistrust us are what tests are about.
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


class Moods:
    """What the server does with mail; the default is to take it."""

    def __init__(self):
        self.messages = []
        self.attempts = 0
        self.calm()

    def calm(self):
        # Answers by command: to MAIL, to RCPT by address (or "*"), to the end of DATA.
        self.mail, self.rcpt, self.data = None, {}, None
        # What is held is let go by the next calm: at RCPT before anything is taken, at DATA after it was taken.
        if hasattr(self, "go"):
            self.go.set()
        self.go = asyncio.Event()
        self.hold_rcpt = self.hold_data = False
        self.held = 0

    async def handle_MAIL(self, server, session, envelope, address, options):
        self.attempts += 1
        if self.mail:
            return self.mail
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        if self.hold_rcpt:
            await self.wait()
        refusal = self.rcpt.get(address) or self.rcpt.get("*")
        if refusal:
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if self.data:
            return self.data
        self.messages.append(read(session, envelope))
        if self.hold_data:
            await self.wait()
        return "250 OK"

    async def wait(self):
        self.held += 1
        await self.go.wait()


def read(session, envelope):
    message = email.message_from_bytes(envelope.content, policy=email.policy.default)
    part = lambda kind: message.get_body((kind,)).get_content().replace("\r\n", "\n")
    return {
        "from": envelope.mail_from,
        "to": envelope.rcpt_tos,
        "secure": session.ssl is not None,
        "user": session.auth_data,
        "headers": [[name, str(value)] for name, value in message.items()],
        "structure": [one.get_content_type() for one in message.walk()],
        "text": part("plain"),
        "html": part("html"),
        "raw": envelope.content.decode("utf-8", "replace"),
    }


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    parser.add_argument("--tls", choices=["implicit", "starttls"])
    parser.add_argument("--user")
    parser.add_argument("--password")
    args = parser.parse_args()
    loop, moods, open_lines = asyncio.get_running_loop(), Moods(), set()
    context = None
    if args.tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(args.certificate, args.key)

    def authenticate(server, session, envelope, mechanism, auth):
        right = auth.login == args.user.encode() and auth.password == args.password.encode()
        return AuthResult(success=right, handled=False, auth_data=args.user if right else None)

    class Line(SMTP):
        def connection_made(self, transport):
            open_lines.add(transport)
            super().connection_made(transport)

        def connection_lost(self, error):
            open_lines.discard(self.transport)
            super().connection_lost(error)

    def protocol():
        return Line(
            moods,
            loop=loop,
            hostname="mail.test",
            enable_SMTPUTF8=False,
            tls_context=context if args.tls == "starttls" else None,
            require_starttls=args.tls == "starttls",
            authenticator=authenticate if args.user else None,
            auth_required=bool(args.user),
            auth_require_tls=args.tls == "starttls",
        )

    secure = context if args.tls == "implicit" else None
    server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=secure)
    port = server.sockets[0].getsockname()[1]
    say = lambda answer: print(json.dumps(answer), flush=True)
    say({"port": port})

    commands = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        command = json.loads(line)
        match command.pop("do"):
            case "set":
                for name, value in command.items():
                    setattr(moods, name, value)
                say({})
            case "calm":
                moods.calm()
                say({})
            case "look":
                say({"messages": moods.messages, "attempts": moods.attempts, "held": moods.held})
            case "down":
                server.close()
                for transport in list(open_lines):
                    # One that is closing at this moment may have nothing left to abort, and says so in its own ways.
                    with contextlib.suppress(Exception):
                        transport.abort()
                say({})
            case "up":
                server = await loop.create_server(protocol, "127.0.0.1", port, ssl=secure)
                say({})


asyncio.run(main())
