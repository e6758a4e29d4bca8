"""python-freshdesk against the sandbox for Freshdesk."""

import os

from freshdesk.v2.api import API
from freshdesk.v2.errors import FreshdeskNotFound, FreshdeskUnauthorized

from there import done, session


def client(key):
    api = API("acme.freshdesk.com", key)
    old, api._session = api._session, session("freshdesk", "acme", "freshdesk.com")
    api._session.auth, api._session.headers = old.auth, old.headers
    return api


api = client(os.environ["KEY"])

me = api.agents.currently_authenticated_agent()
assert me.id and me.contact["email"], me

lately = api.tickets.list_tickets(per_page=100)
page = api.tickets.list_tickets(updated_since="2020-01-01T00:00:00Z", per_page=10)
assert len(page) > 30 > len(lately), (len(page), len(lately))
ticket = api.tickets.get_ticket(page[0].id)
assert ticket.id == page[0].id and ticket.subject == page[0].subject
assert ticket.status in ("open", "pending", "resolved", "closed"), ticket.status

made = api.tickets.create_ticket("Made by python-freshdesk", description="Schön, 日本", email="zoe@example.org", tags=["made"])
assert made.id and api.tickets.get_ticket(made.id).tags == ["made"]
changed = api.tickets.update_ticket(made.id, priority=3, status=3)
assert changed.priority == "high" and changed.status == "pending"

note = api.comments.create_note(made.id, "For colleagues")
reply = api.comments.create_reply(made.id, "For Zoe")
said = api.comments.list_comments(made.id)
assert [one.body_text for one in said] == ["For colleagues", "For Zoe"], [one.body_text for one in said]

assert api.contacts.list_contacts(email="zoe@example.org") == [], "a new contact is not verified yet"
people = api.contacts.list_contacts(email="zoe@example.org", state="unverified")
assert [person.email for person in people] == ["zoe@example.org"], [person.email for person in people]

try:
    api.tickets.get_ticket(99999999)
    raise SystemExit("a ticket that is not there was found")
except FreshdeskNotFound:
    pass
try:
    client("wrong-key").agents.currently_authenticated_agent()
    raise SystemExit("a wrong key was taken")
except FreshdeskUnauthorized:
    pass

done(
    "agents/me with a key, and 401 with a wrong one",
    "tickets: list of 30 days and of all by pages, read, create, change, 404",
    "notes and replies, and the conversation with both",
    "contacts by address and state",
)
