"""Google's own client libraries against the sandbox for Google."""

import base64
import email.message
import os

from google.auth.exceptions import RefreshError
from google.auth.transport.requests import Request
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from there import SANDBOX, done

GOOGLE = f"{SANDBOX}/google"


def credentials(refresh_token):
    return Credentials(
        None,
        refresh_token=refresh_token,
        token_uri=f"{GOOGLE}/oauth2.googleapis.com/token",
        client_id=os.environ["CLIENT_ID"],
        client_secret=os.environ["CLIENT_SECRET"],
    )


def service(name, version, host):
    options = {"api_endpoint": f"{GOOGLE}/{host}/"}
    return build(name, version, credentials=ada, client_options=options, static_discovery=True)


ada = credentials(os.environ["REFRESH_TOKEN"])
ada.refresh(Request())
assert ada.valid and ada.refresh_token == os.environ["REFRESH_TOKEN"], "a refresh brings no new refresh token"
first = ada.token
ada.refresh(Request())
assert ada.token != first
try:
    credentials("no-token").refresh(Request())
    raise SystemExit("a wrong refresh token was taken")
except RefreshError as error:
    assert "invalid_grant" in str(error), error

mail = service("gmail", "v1", "gmail.googleapis.com").users()
pages, request = [], mail.messages().list(userId="me", maxResults=5)
while request is not None:
    answer = request.execute()
    pages.append(answer.get("messages", []))
    request = mail.messages().list_next(request, answer)
ids = [one["id"] for page in pages for one in page]
assert len(pages) > 1 and len(set(ids)) == len(ids), (len(pages), len(ids))
read = mail.messages().get(userId="me", id=ids[0], format="full").execute()
assert read["payload"]["headers"] and read["threadId"]
message = email.message.EmailMessage()
message["To"], message["Subject"] = "bob@example.com", "Schön, 日本"
message.set_content("Hello")
sent = mail.messages().send(userId="me", body={"raw": base64.urlsafe_b64encode(message.as_bytes()).decode()}).execute()
again = mail.messages().get(userId="me", id=sent["id"], format="full").execute()
assert b"Hello" in base64.urlsafe_b64decode(again["payload"]["body"]["data"])
assert "SENT" in again["labelIds"]

events = service("calendar", "v3", "www.googleapis.com/calendar/v3").events()
day = {"start": {"date": "2026-12-24"}, "end": {"date": "2026-12-25"}, "summary": "Closed"}
made = events.insert(calendarId="primary", body=day).execute()
listed = events.list(calendarId="primary", timeMin="2026-12-23T00:00:00Z", singleEvents=True, orderBy="startTime").execute()
assert made["id"] in [one["id"] for one in listed["items"]]

values = service("sheets", "v4", "sheets.googleapis.com").spreadsheets().values()
sheet = os.environ["SHEET"]
before = values.get(spreadsheetId=sheet, range="Orders!A1:C").execute()["values"]
row = {"values": [["#2000", "Zoe", "open"]]}
added = values.append(spreadsheetId=sheet, range="Orders!A1", valueInputOption="RAW", body=row).execute()
assert added["updates"]["updatedRows"] == 1
after = values.get(spreadsheetId=sheet, range="Orders!A1:C").execute()["values"]
assert len(after) == len(before) + 1 and after[-1][0] == "#2000", after[-1]
try:
    values.get(spreadsheetId="nothing", range="A1").execute()
    raise SystemExit("a sheet that is not there was read")
except HttpError as error:
    assert error.status_code == 404 and error.error_details is not None

done(
    "refresh without a new refresh token, and `invalid_grant`",
    "Gmail: list by pages, read, send a raw message",
    "Calendar: insert, list by start",
    "Sheets: read, append, 404 in the shape that its error class reads",
)
