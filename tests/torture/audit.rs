//! The sandbox's ledger against the database: what was presented while, what was lost, who was failed and who was told.

use std::{collections::HashMap, fmt};

use holdfast_sandbox::{IssuedSet, Ledger, Presentation, PresentationOutcome};
use holdfast_tests::process::Answer;
use reqwest::Method;

use crate::stage::{Connector, Stage};

/// Clocks of two processes on one machine, and the time between a decision and its row.
const BLUR_MS: i64 = 50;
/// A process that was stopped and goes on has sent what it was about to send by then.
const WAKING_MS: i64 = 1000;

/// A row of the journal. Moments are milliseconds since 1970.
#[derive(Clone, Debug)]
struct Exchange {
    holder: String,
    version: i64,
    started_ms: i64,
    closed_ms: i64,
    lease_end_ms: i64,
    outcome: String,
}

impl Exchange {
    /// Whether a request that arrived then was sent under this row.
    fn covers(&self, at_ms: i64) -> bool {
        (self.started_ms - BLUR_MS..=self.closed_ms + BLUR_MS).contains(&at_ms)
    }

    /// Whether it is another one that began from the same version, by the database's own word, and was still under its
    /// lease then. A row of a success says when the answer came: where its owner could not reach the database, it was
    /// closed for the owner first, and the answer was stored later.
    fn found_it_unstored(&self, first: &Self, at_ms: i64) -> bool {
        self.started_ms != first.started_ms && self.version == first.version && at_ms <= self.lease_end_ms
    }

    /// Whether it is another one that began from the same version before the first one was stored, and whose owner stood
    /// still until then, past its lease. A process looks at its lease, and at the time once more when its connection is
    /// about to write; one that is stopped after that sends when it wakes, and no client can take that back.
    fn was_slept_through(&self, first: &Self, at_ms: i64, wakes: &[i64]) -> bool {
        let woken = |woken: &i64| (woken - BLUR_MS..woken + WAKING_MS).contains(&at_ms);
        self.version == first.version
            && self.started_ms < first.closed_ms
            && self.lease_end_ms < at_ms
            && wakes.iter().any(woken)
    }

    /// Whether its owner had no right any more to be at it then.
    fn over_by(&self, at_ms: i64) -> bool {
        self.closed_ms <= at_ms + BLUR_MS || self.lease_end_ms <= at_ms + BLUR_MS || self.outcome == "owner_lost"
    }
}

#[derive(Debug)]
struct Stored {
    health: String,
    reason: Option<String>,
    fingerprint: Option<String>,
}

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) exchanges: usize,
    rotated: usize,
    overlapped_after_a_lease: usize,
    reused_after_a_loss: usize,
    reused_before_it_was_stored: usize,
    sent_by_sleepers: usize,
    failed: HashMap<String, usize>,
    lost: HashMap<&'static str, usize>,
    mails: usize,
    repeated_mails: usize,
    done: Vec<String>,
    pub(crate) violations: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "what was done: {}", self.done.join(", "))?;
        writeln!(f, "{} exchanges, {} rotations", self.exchanges, self.rotated)?;
        writeln!(f, "{} tokens were presented twice at once, after a lease had ended", self.overlapped_after_a_lease)?;
        writeln!(f, "{} spent tokens were presented again, their success unknown", self.reused_after_a_loss)?;
        writeln!(
            f,
            "{} were presented again while their owner had the answer and could not store it",
            self.reused_before_it_was_stored
        )?;
        writeln!(f, "{} were sent by a process that had stood still past its lease", self.sent_by_sleepers)?;
        writeln!(f, "token sets that were issued and are not stored, by what happened to the answer: {:?}", self.lost)?;
        writeln!(f, "connectors that need a person now, by reason: {:?}", self.failed)?;
        writeln!(f, "{} mails, {} of them twice, with the same id", self.mails, self.repeated_mails)?;
        write!(f, "{} violations", self.violations.len())
    }
}

type Row = (String, String, i64, i64, i64, i64, String);

const EXCHANGES: &str = "SELECT e.connector_id, e.holder, e.version, (extract(epoch FROM e.started_at) * 1000)::bigint AS started_ms, \
     (extract(epoch FROM e.closed_at) * 1000)::bigint AS closed_ms, e.lease_expires_at_ms AS lease_end_ms, \
     e.outcome FROM exchanges e WHERE e.\"trigger\" <> 'grant' ORDER BY e.started_at, e.id";

pub(crate) async fn audit(stage: &Stage) -> Found {
    let mut found = Found::default();
    serve(&mut found, stage).await;
    // From here on nothing moves.
    stage.stop().await;
    let mut journal: HashMap<String, Vec<Exchange>> = HashMap::new();
    let rows = stage.cluster.database.rows::<Row>(EXCHANGES).await;
    for (connector, holder, version, started_ms, closed_ms, lease_end_ms, outcome) in rows {
        let exchange = Exchange { holder, version, started_ms, closed_ms, lease_end_ms, outcome };
        journal.entry(connector).or_default().push(exchange);
    }
    let stored = "SELECT c.id, c.health, c.health_reason AS reason, k.fingerprint FROM connectors c \
                  JOIN credentials k ON k.id = c.credential_id";
    let stored: HashMap<String, Stored> = stage
        .cluster
        .database
        .rows::<(String, String, Option<String>, Option<String>)>(stored)
        .await
        .into_iter()
        .map(|(id, health, reason, fingerprint)| (id, Stored { health, reason, fingerprint }))
        .collect();
    let wakes = stage.wakes.lock().unwrap().clone();
    for connector in &stage.connectors {
        let ledger = connector.desk.ledger();
        let rows = journal.remove(&connector.id).unwrap_or_default();
        found.exchanges += rows.len();
        found.rotated += rows.iter().filter(|row| row.outcome == "rotated").count();
        let before = found.violations.len();
        presentations(&mut found, connector, &ledger, &rows, &wakes);
        credential(&mut found, connector, &ledger, &rows, &stored[&connector.id]);
        if found.violations.len() > before {
            found.violations.push(story(&ledger, &rows));
        }
    }
    mails(&mut found, stage).await;
    found.done = stage.done.lock().unwrap().iter().map(|(what, times)| format!("{times} × {what}")).collect();
    found
}

/// I1: no two at once while the first one's lease lasts, and none once its success is stored.
fn presentations(found: &mut Found, connector: &Connector, ledger: &Ledger, rows: &[Exchange], wakes: &[i64]) {
    let under = |shown: &Presentation| rows.iter().rev().find(|row| row.covers(shown.started_at_ms));
    for (place, second) in ledger.presentations.iter().enumerate() {
        for first in &ledger.presentations[..place] {
            if first.fingerprint != second.fingerprint {
                continue;
            }
            let Some(row) = under(first) else {
                found.violations.push(format!("{}: a presentation that no row of the journal covers", connector.id));
                continue;
            };
            let at = second.started_at_ms;
            let together = first.answered_seq.is_none_or(|answered| answered > second.started_seq);
            // The same owner sends again only when it has given up on the first one.
            let same_owner = under(second).is_some_and(|other| other.started_ms == row.started_ms);
            if together && !same_owner {
                if row.over_by(at) {
                    found.overlapped_after_a_lease += 1;
                } else {
                    found.violations.push(format!("{}: presented twice at once at {at} under {row:?}", connector.id));
                }
            }
            let spent = matches!(first.outcome, PresentationOutcome::Rotated | PresentationOutcome::RotatedAnswerLost);
            let stored = spent && row.outcome == "rotated" && row.closed_ms + BLUR_MS < at;
            if stored && under(second).is_some_and(|other| other.found_it_unstored(row, at)) {
                found.reused_before_it_was_stored += 1;
            } else if stored && under(second).is_some_and(|other| other.was_slept_through(row, at, wakes)) {
                found.sent_by_sleepers += 1;
            } else if stored {
                found.violations.push(format!("{}: presented at {at} after {row:?} was stored", connector.id));
            } else if spent && second.outcome == PresentationOutcome::Reused {
                found.reused_after_a_loss += 1;
            }
        }
    }
}

/// I3 and I5: what is stored is the newest that reached us; failed is only what the provider does not take.
fn credential(found: &mut Found, connector: &Connector, ledger: &Ledger, rows: &[Exchange], stored: &Stored) {
    let of = |fingerprint: &str| ledger.sets.iter().find(|set| set.access_fingerprint == fingerprint);
    let Some(set) = stored.fingerprint.as_deref().and_then(of) else {
        found.violations.push(format!("{}: what is stored was never issued: {stored:?}", connector.id));
        return;
    };
    if stored.health == "auth_failed" {
        *found.failed.entry(stored.reason.clone().unwrap_or_default()).or_default() += 1;
        if set.is_live() {
            found.violations.push(format!("{}: failed although the provider takes what is stored", connector.id));
        }
    }
    if set.spent_at_ms.is_none() {
        return;
    }
    let Some(next) = successor(ledger, set) else { return };
    // Its answer did not get into the database: why?
    let shown = ledger.presentations.iter().find(|shown| Some(&shown.fingerprint) == set.refresh_fingerprint.as_ref());
    let row = shown.and_then(|shown| rows.iter().rev().find(|row| row.covers(shown.started_at_ms)));
    let why = match row.map(|row| row.outcome.as_str()) {
        _ if next.answer_lost => "dropped by the provider",
        Some("owner_lost") => "its owner was killed or stalled",
        Some("ambiguous" | "rejected" | "not_sent" | "internal") => "cut off on its way",
        Some("superseded" | "discarded") => return,
        other => {
            found.violations.push(format!("{}: a token set was issued, {other:?}, and is not stored", connector.id));
            return;
        }
    };
    *found.lost.entry(why).or_default() += 1;
}

fn successor<'a>(ledger: &'a Ledger, set: &IssuedSet) -> Option<&'a IssuedSet> {
    ledger.sets.iter().find(|next| next.parent.is_some() && next.parent == set.refresh_fingerprint)
}

/// Whoever is connected gets a token that works.
async fn serve(found: &mut Found, stage: &Stage) {
    let url = stage.slots[0].url().expect("it runs");
    for connector in &stage.connectors {
        let answer = stage.call(&url, Method::GET, connector, "/token", None).await;
        let works = |answer: &Answer| answer.status == 200 && connector.desk.accepts(answer.text("access_token"));
        match answer {
            Ok(answer) if works(&answer) || answer.code() == "connector_auth_failed" => {}
            // Revoked, and nobody has noticed yet.
            Ok(answer) if answer.status == 200 && !connector.desk.ledger().sets.iter().any(IssuedSet::is_live) => {}
            other => found.violations.push(format!("{}: no token that works: {other:?}", connector.id)),
        }
    }
}

/// One mail per person and failure; a crash may repeat it, with the same id.
async fn mails(found: &mut Found, stage: &Stage) {
    let twice = "SELECT count(*) FROM (SELECT 1 FROM mail_items i JOIN mails m ON m.id = i.mail_id \
                 WHERE i.kind = 'needs_you' GROUP BY i.connector_id, i.epoch, m.user_id HAVING count(*) > 1) AS twice";
    let twice = stage.cluster.database.number(twice).await;
    if twice > 0 {
        found.violations.push(format!("{twice} failures were told twice to the same person"));
    }
    let untold = "SELECT count(*) FROM connectors c WHERE c.health = 'auth_failed' AND NOT EXISTS ( \
                  SELECT 1 FROM mail_items i WHERE i.connector_id = c.id AND i.epoch = c.epoch AND i.kind = 'needs_you')";
    let untold = stage.cluster.database.number(untold).await;
    if untold > 0 {
        found.violations.push(format!("{untold} failures were told to nobody"));
    }
    let mut ids: Vec<_> =
        stage.smtp.messages().await.iter().map(|message| message.header("message-id").to_owned()).collect();
    found.mails = ids.len();
    ids.sort();
    ids.dedup();
    found.repeated_mails = found.mails - ids.len();
}

/// The connector's whole ledger.
fn story(ledger: &Ledger, rows: &[Exchange]) -> String {
    let mut lines: Vec<(i64, String)> = Vec::new();
    for set in &ledger.sets {
        let words = format!(
            "  issued  grant {} {} from {:?}, spent {:?}, revoked {:?}, answer lost {}",
            set.grant,
            set.refresh_fingerprint.as_deref().unwrap_or_default(),
            set.parent,
            set.spent_at_ms,
            set.revoked_at_ms,
            set.answer_lost
        );
        lines.push((set.issued_at_ms, words));
    }
    for shown in &ledger.presentations {
        let words = format!("  shown   {} {:?}, answered {:?}", shown.fingerprint, shown.outcome, shown.answered_at_ms);
        lines.push((shown.started_at_ms, words));
    }
    for row in rows {
        let words = format!(
            "  journal {} version {} {}, closed {}, lease to {}",
            row.holder, row.version, row.outcome, row.closed_ms, row.lease_end_ms
        );
        lines.push((row.started_ms, words));
    }
    lines.sort();
    let lines: Vec<_> = lines.into_iter().map(|(at, words)| format!("{at}{words}")).collect();
    lines.join("\n")
}
