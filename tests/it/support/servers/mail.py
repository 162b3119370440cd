"""A mail server for tests: prints its port, and appends each mail to a file before it accepts it.

Arguments as JSON: {"mails": FILE, "mood": FILE, "user": "", "password": "", "cert": FILE, "key": FILE, "tls": bool}.
The file `mood` says how the next mails are answered; it is read for each of them.
"""

import asyncio
import email
import email.policy
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

asked = json.loads(sys.argv[1])


def mood():
    with open(asked["mood"]) as file:
        return file.read().strip()


def content(part):
    found = part.get_content()
    return found.decode(errors="replace") if isinstance(found, bytes) else found


class Handler:
    async def handle_MAIL(self, server, session, envelope, address, options):
        if mood() == "sender550":
            return "550 5.7.1 sender not allowed"
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        if mood() == "recipient550":
            return "550 5.1.1 no such \x1b[31mmailbox"
        if mood() == "boss550" and address.startswith("boss"):
            return "550 5.1.1 no such mailbox"
        if mood() == "recipient450":
            return "450 4.2.1 mailbox busy"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if mood() == "data554":
            return "554 5.7.1 refused as spam"
        if mood() == "data451":
            return "451 4.3.0 try again later"
        if mood() == "drop":
            server.transport.abort()
            return "421 bye"
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        text = message.get_body(("plain",))
        html = message.get_body(("html",))
        if text and "REFUSE-ME" in text.get_content():
            return "554 5.7.1 refused for its text"
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "headers": [[name, str(value)] for name, value in message.items()],
            "text": text.get_content() if text else None,
            "html": html.get_content() if html else None,
            "parts": [
                [part.get_content_type(), part.get_filename(), part.get("Content-ID"), content(part)]
                for part in message.walk()
                if not part.is_multipart()
            ],
            "encrypted": session.ssl is not None or bool(asked.get("tls")),
            "login": session.authenticated,
            "connection": session.peer[1],
        }
        with open(asked["mails"], "a") as file:
            file.write(json.dumps(mail) + "\n")
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    right = data.login == asked["user"].encode() and data.password == asked["password"].encode()
    return AuthResult(success=right, handled=False)


async def main():
    context = None
    if asked.get("cert"):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(asked["cert"], asked["key"])
    wrapped = bool(asked.get("tls"))
    login = bool(asked.get("user"))

    def server():
        return SMTP(
            Handler(),
            hostname="localhost",
            tls_context=None if wrapped else context,
            require_starttls=context is not None and not wrapped,
            authenticator=authenticate if login else None,
            auth_required=login,
            auth_require_tls=not wrapped,
        )

    loop = asyncio.get_running_loop()
    port = asked.get("port", 0)
    served = await loop.create_server(server, "127.0.0.1", port, ssl=context if wrapped else None)
    print(served.sockets[0].getsockname()[1], flush=True)
    await served.serve_forever()


asyncio.run(main())
