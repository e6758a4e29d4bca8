"""zenpy against the sandbox for Zendesk."""

import os

from zenpy import Zenpy
from zenpy.lib.api_objects import Comment, Ticket, User
from zenpy.lib.exception import APIException, RecordNotFoundException

from there import done, session

client = Zenpy(subdomain="acme", oauth_token=os.environ["TOKEN"], session=session("zendesk", "acme", "zendesk.com"))

me = client.users.me()
assert me.id and me.email and me.role == "admin", me.to_dict()

found = client.search(type="ticket", status="open")
first = next(iter(found))
assert first.id and first.subject and first.requester.email, first.to_dict()
count = len(list(client.search(type="ticket")))
assert count > 100, f"the client follows next_page by itself: {count}"

ticket = client.tickets(id=first.id)
assert ticket.id == first.id and ticket.created_at == first.created_at
comments = list(client.tickets.comments(ticket=ticket.id))
assert comments and comments[0].author.name

ticket.comment = Comment(body="From zenpy, schön, 日本", public=False)
ticket.priority = "high"
ticket.tags = ticket.tags + ["from-zenpy"]
audit = client.tickets.update(ticket)
assert audit.ticket.priority == "high" and "from-zenpy" in audit.ticket.tags
assert list(client.tickets.comments(ticket=ticket.id))[-1].body == "From zenpy, schön, 日本"

made = client.tickets.create(Ticket(subject="Made by zenpy", comment=Comment(body="Hello"), requester=User(name="Zoe", email="zoe@example.org")))
assert made.ticket.id and made.ticket.status == "new", made.ticket.to_dict()
assert client.tickets(id=made.ticket.id).requester.email == "zoe@example.org"

people = list(client.users.search(query="zoe@example.org"))
assert [person.email for person in people] == ["zoe@example.org"]

try:
    client.tickets(id=99999999)
    raise SystemExit("a ticket that is not there was found")
except RecordNotFoundException:
    pass

wrong = Zenpy(subdomain="acme", oauth_token="no-token", session=session("zendesk", "acme", "zendesk.com"))
try:
    wrong.users.me()
    raise SystemExit("a wrong token was taken")
except APIException as error:
    assert error.response.status_code == 401, error

done(
    "users/me with a bearer, and 401 without a right one",
    "search with its pages, people side-loaded",
    "ticket: read, comments with authors, update with comment, tags and priority, create with a new requester, 404",
    "users/search",
)
