//! `POST /admin/oauth/access_token`: codes, refresh tokens and endless tokens for tokens.
//!
//! The client is in the body, which is a form or JSON.

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::shop::Place;
use super::tokens::{Bought, Issued, Refused};
use crate::clock::pause;
use crate::desk::{World, locked};
use crate::faults::{Plan, break_off, hang_up};
use crate::http::{Answer, Payload, Request, pairs};
use crate::ledger::PresentationOutcome as Outcome;

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const OFFLINE: &str = "urn:shopify:params:oauth:token-type:offline-access-token";

/// Answers on a task of its own: a provider finishes what it began, also when the caller has hung up.
pub(crate) async fn serve(world: Arc<World>, shop: Arc<Place>, request: Request) -> Response {
    let work = tokio::spawn(async move { Endpoint { world, shop }.answer(&request).await });
    work.await.unwrap_or_else(|_| hang_up())
}

struct Endpoint {
    world: Arc<World>,
    shop: Arc<Place>,
}

struct Granted {
    issued: Issued,
    outcome: Outcome,
}

struct Denied {
    answer: Answer,
    outcome: Outcome,
}

impl Endpoint {
    async fn answer(&self, request: &Request) -> Response {
        let fields = fields(request);
        let refresh_token = fields.as_ref().filter(|fields| is_refresh(fields)).and_then(|f| text(f, "refresh_token"));
        let now_ms = self.world.clock.now_ms();
        let presentation = refresh_token.map(|token| {
            let seq = self.world.next_seq();
            locked(&self.shop.tokens).present(token, now_ms, seq)
        });
        let plan = locked(&self.shop.faults).plan(now_ms);
        let (response, outcome) = self.follow(&plan, fields.as_ref()).await;
        if let Some(presentation) = presentation {
            let (now_ms, seq) = (self.world.clock.now_ms(), self.world.next_seq());
            locked(&self.shop.tokens).close(presentation, outcome, now_ms, seq);
        }
        response
    }

    async fn follow(&self, plan: &Plan, fields: Option<&Map<String, Value>>) -> (Response, Outcome) {
        let counts = &self.shop.counts;
        if plan.dropped {
            counts.dropped.up();
            return (hang_up(), Outcome::Dropped);
        }
        let refreshes = fields.is_some_and(is_refresh);
        if refreshes {
            counts.exchanges.up();
        }
        let _inside = refreshes.then(|| self.world.at_once.enter());
        pause(plan.delay_ms).await;
        self.shop.gate.may_process().await;
        if let Some(canned) = plan.canned.as_ref().filter(|canned| !canned.after_processing) {
            return (canned.respond(&[]), Outcome::Failed);
        }
        if refreshes && locked(&self.shop.faults).refuses() {
            return (inactive().into_response(), Outcome::RefusedOnOrder);
        }
        let done = self.process(fields);
        // Before anybody can see what was issued or spent.
        self.world.keep().await;
        pause(plan.delay_after_ms).await;
        self.shop.gate.may_answer().await;
        match done {
            Err(denied) => (denied.answer.into_response(), denied.outcome),
            Ok(granted) => self.deliver(plan, granted),
        }
    }

    fn deliver(&self, plan: &Plan, granted: Granted) -> (Response, Outcome) {
        let Granted { issued, outcome } = granted;
        let body = token_body(&issued, self.shop.rules().says_expires_in);
        let lost = locked(&self.shop.faults).loses();
        if let Some(part_way) = lost {
            self.shop.counts.answers_lost.up();
            locked(&self.shop.tokens).mark_lost(issued.index);
            let answer = Answer::json(200, body);
            let response = match (part_way, answer.body) {
                (true, Payload::Json(body)) => break_off(answer.status, &Bytes::from(body.to_string())),
                _ => hang_up(),
            };
            return (response, Outcome::RotatedAnswerLost);
        }
        if let Some(canned) = &plan.canned {
            if !canned.body.contains("{access_token}") {
                locked(&self.shop.tokens).mark_lost(issued.index);
            }
            let response = canned.respond(&[
                ("access_token", &issued.access_token),
                ("refresh_token", issued.refresh_token.as_deref().unwrap_or("")),
                ("expires_in", &body["expires_in"].to_string()),
            ]);
            return (response, Outcome::RotatedAnswerReplaced);
        }
        (Answer::json(200, body).into_response(), outcome)
    }

    fn process(&self, fields: Option<&Map<String, Value>>) -> Result<Granted, Denied> {
        let fields = fields.ok_or_else(|| malformed("The request body could not be read"))?;
        let (id, secret) = (text(fields, "client_id"), text(fields, "client_secret"));
        if !locked(&self.world.client).accepts("shopify", id, secret) {
            let answer = oauth_error(401, "invalid_client", "The client credentials are invalid");
            return Err(Denied { answer, outcome: Outcome::ClientRefused });
        }
        match text(fields, "grant_type") {
            Some("refresh_token") => self.refresh(fields),
            Some(EXCHANGE) => self.migrate(fields),
            // The documentation names none for a code; clients of the standard send one.
            None | Some("authorization_code") => self.exchange_code(fields),
            Some(_) => Err(Denied {
                answer: oauth_error(400, "unsupported_grant_type", "The grant type is not supported"),
                outcome: Outcome::Malformed,
            }),
        }
    }

    fn exchange_code(&self, fields: &Map<String, Value>) -> Result<Granted, Denied> {
        let code = text(fields, "code").ok_or_else(|| malformed("Missing or invalid code"))?;
        let expiring = expiring(fields)?;
        let now_ms = self.world.clock.now_ms();
        let mut tokens = locked(&self.shop.tokens);
        let scope = tokens.spend_code(code, now_ms).ok_or_else(|| Denied {
            answer: oauth_error(400, "invalid_request", "The authorization code was not found or was already used"),
            outcome: Outcome::Refused,
        })?;
        let issued = tokens.acquire(scope, expiring, self.shop.rules().access_secs, now_ms);
        drop(tokens);
        self.shop.counts.code_exchanges.up();
        Ok(Granted { issued, outcome: Outcome::Rotated })
    }

    fn refresh(&self, fields: &Map<String, Value>) -> Result<Granted, Denied> {
        let token = text(fields, "refresh_token").ok_or_else(|| malformed("Missing refresh_token"))?;
        let (now_ms, rules) = (self.world.clock.now_ms(), self.shop.rules());
        let bought = locked(&self.shop.tokens).refresh(token, rules.access_secs, rules.same_pair_again, now_ms);
        let counts = &self.shop.counts;
        match bought {
            Ok(Bought::New(issued)) => {
                counts.rotations.up();
                Ok(Granted { issued, outcome: Outcome::Rotated })
            }
            Ok(Bought::Again(issued)) => {
                counts.replays.up();
                Ok(Granted { issued, outcome: Outcome::Replayed })
            }
            Err(refused) => {
                let outcome = match refused {
                    Refused::Reused => {
                        counts.reuses.up();
                        Outcome::Reused
                    }
                    Refused::Dead => Outcome::Refused,
                };
                Err(Denied { answer: inactive(), outcome })
            }
        }
    }

    fn migrate(&self, fields: &Map<String, Value>) -> Result<Granted, Denied> {
        if text(fields, "requested_token_type") != Some(OFFLINE) || text(fields, "subject_token_type") != Some(OFFLINE)
        {
            return Err(malformed("The token types are not supported"));
        }
        if !expiring(fields)? {
            return Err(malformed("An offline token is exchanged for an expiring one only"));
        }
        let token = text(fields, "subject_token").ok_or_else(|| malformed("Missing subject_token"))?;
        let (now_ms, rules) = (self.world.clock.now_ms(), self.shop.rules());
        let bought = locked(&self.shop.tokens).migrate(token, rules.access_secs, now_ms);
        match bought {
            Some(Bought::New(issued)) => {
                self.shop.counts.rotations.up();
                Ok(Granted { issued, outcome: Outcome::Rotated })
            }
            Some(Bought::Again(issued)) => {
                self.shop.counts.replays.up();
                Ok(Granted { issued, outcome: Outcome::Replayed })
            }
            None => Err(Denied {
                answer: oauth_error(400, "invalid_subject_token", "The subject token is invalid"),
                outcome: Outcome::Refused,
            }),
        }
    }
}

/// There is no `token_type`, and an endless token has nothing but its scope.
pub(crate) fn token_body(issued: &Issued, says_expires_in: bool) -> Value {
    let mut body = json!({"access_token": issued.access_token, "scope": issued.scope});
    if let (Some(secs), true) = (issued.access_secs, says_expires_in) {
        body["expires_in"] = secs.into();
    }
    if let (Some(token), Some(secs)) = (&issued.refresh_token, issued.refresh_secs) {
        body["refresh_token"] = token.as_str().into();
        body["refresh_token_expires_in"] = secs.into();
    }
    body
}

fn expiring(fields: &Map<String, Value>) -> Result<bool, Denied> {
    match fields.get("expiring") {
        None => Ok(false),
        Some(value) if *value == "1" || *value == 1 => Ok(true),
        Some(value) if *value == "0" || *value == 0 => Ok(false),
        Some(_) => Err(malformed("expiring has to be 0 or 1")),
    }
}

fn is_refresh(fields: &Map<String, Value>) -> bool {
    text(fields, "grant_type") == Some("refresh_token")
}

fn fields(request: &Request) -> Option<Map<String, Value>> {
    if request.is_json() {
        return serde_json::from_slice::<Value>(&request.body).ok()?.as_object().cloned();
    }
    let form = request.header("content-type")?.starts_with("application/x-www-form-urlencoded");
    let pairs = form.then(|| pairs(&request.body))?;
    let count = pairs.len();
    let fields: Map<_, _> = pairs.into_iter().map(|(name, value)| (name, value.into())).collect();
    // Twice the same: neither counts.
    (fields.len() == count).then_some(fields)
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// As it was reported by many; the documentation lists no errors of this endpoint.
fn inactive() -> Answer {
    oauth_error(401, "invalid_request", "This request requires an active refresh_token")
}

fn malformed(description: &str) -> Denied {
    Denied { answer: oauth_error(400, "invalid_request", description), outcome: Outcome::Malformed }
}

fn oauth_error(status: u16, error: &str, description: &str) -> Answer {
    Answer::json(status, json!({"error": error, "error_description": description}))
}
