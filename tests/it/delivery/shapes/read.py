"""Reads what webhooks received with the public libraries of the receivers' side.

Standard input: {"requests": [{"headers": {}, "body": ""}], "secrets": []}. Standard output: for each
request the CloudEvent as its SDK reads it, or the payload that standardwebhooks verified.
"""

import json
import sys

asked = json.load(sys.stdin)
out = []
for request in asked["requests"]:
    headers, body = request["headers"], request["body"].encode()
    if asked.get("secrets"):
        from standardwebhooks import Webhook, WebhookVerificationError

        read = [Webhook(secret).verify(body, headers) for secret in asked["secrets"]]
        try:
            Webhook(asked["secrets"][0]).verify(body + b" ", headers)
            read.append("a changed body was accepted")
        except WebhookVerificationError:
            pass
        out.append(read)
    else:
        from cloudevents.core.bindings import http

        event = http.from_http_event(http.HTTPMessage(headers=headers, body=body))
        attributes = {name: str(value) for name, value in event.get_attributes().items()}
        attributes["time"] = event.get_time().isoformat()
        out.append({"attributes": attributes, "data": event.get_data()})
json.dump(out, sys.stdout)
