//! The people that there are at the start, and what they have: more than one page of everything.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use chrono::{DateTime, Duration, SecondsFormat};
use serde_json::{Value, json};

use super::gmail::add;
use super::state::{Event, Person, Spreadsheet, State};

/// The spreadsheet that Ada and Bob share.
pub(super) const ORDERS: &str = "1SandboxOrders_AdaAndBob";

const PEOPLE: [(&str, &str, &str); 3] = [
    ("110248495921238986420", "ada@example.com", "Ada Lovelace"),
    ("113456789012345678901", "bob@example.com", "Bob Okafor"),
    ("108765432109876543210", "cleo.larsen@gmail.com", "Cleo Larsen"),
];
/// So many newsletters in each mailbox.
const NEWSLETTERS: i64 = 30;
const EVENTS: i64 = 12;

impl State {
    pub(super) fn seeded(now_ms: i64) -> Self {
        let mut state = Self::default();
        for (sub, email, name) in PEOPLE {
            state.add_person(sub, email, name);
        }
        for (sub, email, _) in PEOPLE {
            for number in 0..NEWSLETTERS {
                let text = format!("Issue {number}: what is new.");
                let payload = plain(
                    &[
                        ("From", "News <news@letters.example>"),
                        ("To", email),
                        ("Subject", &format!("Newsletter {number}")),
                        ("Message-ID", &format!("<news-{number}@letters.example>")),
                    ],
                    &text,
                );
                add(&mut state, sub, None, payload, now_ms - (NEWSLETTERS - number) * 86_400_000, &["INBOX"]);
            }
        }
        for (index, (subject, from, text)) in [
            (
                "Where is my order 1042?",
                "Mira Castellan <mira@customer.example>",
                "Hello,\r\nmy order 1042 has not come.\r\nMira",
            ),
            (
                "=?utf-8?B?R3LDvMOfZSBhdXMgS8O2bG4=?=",
                "=?utf-8?Q?J=C3=B6rg_M=C3=BCller?= <joerg@customer.example>",
                "Grüße aus Köln!",
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let id = format!("<customer-{index}@customer.example>");
            let headers =
                [("From", from), ("To", "ada@example.com"), ("Subject", subject), ("Message-Id", id.as_str())];
            let at = now_ms - (2 - i64::try_from(index).unwrap_or(0)) * 3_600_000;
            add(&mut state, PEOPLE[0].0, None, plain(&headers, text), at, &["INBOX", "UNREAD"]);
        }
        let day = now_ms - now_ms.rem_euclid(86_400_000);
        for number in 0..EVENTS {
            let start_ms = day + number * 86_400_000 + 9 * 3_600_000;
            state.add_event(PEOPLE[0].0, &format!("Standup {number}"), start_ms, start_ms + 900_000);
        }
        let header = ["Day", "Name", "Sum"].map(Value::from).to_vec();
        let rows = (1..=5).map(|number| vec![json!(format!("2026-11-{number:02}")), json!("Ada"), json!(number * 10)]);
        let editors = vec![PEOPLE[0].0.to_owned(), PEOPLE[1].0.to_owned()];
        let tabs = vec![("Orders".to_owned(), std::iter::once(header).chain(rows).collect())];
        state.spreadsheets.insert(ORDERS.to_owned(), Spreadsheet { editors, tabs });
        state
    }

    pub(super) fn add_person(&mut self, sub: &str, email: &str, name: &str) {
        let person = Person {
            sub: sub.to_owned(),
            email: email.to_lowercase(),
            name: name.to_owned(),
            verified: true,
            mails: Vec::new(),
            history_id: 1000,
            oldest_history: 1000,
            events: Vec::new(),
            calendar_seq: 0,
            oldest_sync: 0,
            watch: None,
            channels: Vec::new(),
        };
        self.people.insert(sub.to_owned(), person);
    }

    pub(super) fn add_event(&mut self, sub: &str, summary: &str, start_ms: i64, end_ms: i64) {
        let Some(person) = self.people.get_mut(sub) else { return };
        person.calendar_seq += 1;
        let id = format!("seed{:08}", person.calendar_seq);
        let text = |at: i64| {
            let at = DateTime::from_timestamp_millis(at).unwrap_or_default() + Duration::zero();
            at.to_rfc3339_opts(SecondsFormat::Secs, true)
        };
        let own = json!({"email": person.email, "self": true});
        let body = json!({"kind": "calendar#event", "id": id, "status": "confirmed", "summary": summary,
            "start": {"dateTime": text(start_ms), "timeZone": "Europe/Berlin"},
            "end": {"dateTime": text(end_ms), "timeZone": "Europe/Berlin"}, "creator": own, "organizer": own,
            "eventType": "default", "sequence": 0});
        person.events.push(Event { seq: person.calendar_seq, start_ms, end_ms, body });
    }
}

/// A mail of one text.
pub(super) fn plain(headers: &[(&str, &str)], text: &str) -> Value {
    let headers = headers.iter().copied().chain([("Content-Type", "text/plain; charset=\"UTF-8\"")]);
    let headers: Vec<Value> = headers.map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({"mimeType": "text/plain", "filename": "", "headers": headers,
        "body": {"size": text.len(), "data": URL_SAFE.encode(text)}})
}
