"""What a client that was made from the OpenAPI document does with the sandbox: ADDRESS KEY PORTAL."""

import json
import sys
import urllib.request

from shop_api import AuthenticatedClient
from shop_api.api.default import (
    automation_ping,
    create_lead,
    create_self_checkin,
    custom_fields,
    ping,
    recent_customers,
    recent_job_status_changes,
    recent_jobs,
    recent_leads,
    recent_outsourced_jobs,
    recent_payments,
    search_customers,
)
from shop_api.models import Error, Lead, SelfCheckin

address, automation_key, portal = sys.argv[1:]


def new_key(provider):
    request = urllib.request.Request(
        portal + "/keys",
        json.dumps({"provider": provider}).encode(),
        {"content-type": "application/json"},
    )
    return json.load(urllib.request.urlopen(request))["key"]


reading = AuthenticatedClient(base_url=address, token=automation_key)
writing = AuthenticatedClient(base_url=address, token=new_key("website"))

assert automation_ping.sync(client=reading).status == "connected"
assert ping.sync(client=writing).status == "connected"
for route in (
    recent_jobs,
    recent_customers,
    recent_leads,
    recent_payments,
    recent_job_status_changes,
    recent_outsourced_jobs,
):
    records = route.sync(client=reading, limit=7)
    assert 0 < len(records) <= 7, route.__name__
    assert all(record.id for record in records)
    print(route.__name__.split(".")[-1], len(records))

customer = recent_customers.sync(client=reading, limit=1)[0]
found = search_customers.sync(client=reading, search_term=customer["name"])
assert customer.id in [record.id for record in found]

assert custom_fields.sync(client=writing).form_types
form_type = custom_fields.sync(client=writing).form_types[0]
print("custom_fields", form_type, len(custom_fields.sync(client=writing, form_type=form_type).fields))

lead = Lead(name="Ann Fischer", mobile_number="030 901820", comment="Screen is broken")
made = create_lead.sync_detailed(client=writing, body=lead, idempotency_key="client-1")
assert made.status_code == 201 and made.parsed.data.object_ == "lead", made
again = create_lead.sync_detailed(client=writing, body=lead, idempotency_key="client-1")
assert again.status_code == 200 and again.parsed.data.id == made.parsed.data.id, again
refused = create_lead.sync(client=writing, body=Lead(name="Nobody to call"))
assert isinstance(refused, Error), refused
checkin = SelfCheckin(name="Ann Fischer", email="ann@example.com")
made = create_self_checkin.sync_detailed(client=writing, body=checkin)
assert made.status_code in (201, 202), made
shown = [record["name"] for record in recent_leads.sync(client=reading, limit=10)]
assert "Ann Fischer" in shown, shown
print("1 passed, 0 failed")
