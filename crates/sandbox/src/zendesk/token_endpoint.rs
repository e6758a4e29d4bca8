//! `POST /oauth/tokens`: codes and refresh tokens for token sets.
//!
//! <https://developer.zendesk.com/api-reference/ticketing/oauth/grant_type_tokens/>

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::clock::pause;
use crate::desk::{Desk, World, locked};
use crate::faults::{Plan, break_off, hang_up};
use crate::http::{Answer, Payload, Request};
use crate::ledger::{PresentationOutcome as Outcome, pkce_challenge};
use crate::options::{CLIENT_ID, Options};
use crate::zendesk::scopes::Scopes;
use crate::zendesk::tokens::{Bought, Lives, Pair, Refused};

/// Zendesk's bounds, and what it gives where nothing was asked for.
const MAX_ACCESS_SECS: i64 = 172_800;
const MAX_REFRESH_SECS: i64 = 7_776_000;
pub(crate) const DEFAULT_ACCESS_SECS: i64 = 1_800;
pub(crate) const DEFAULT_REFRESH_SECS: i64 = 2_592_000;

const INVALID_GRANT: &str = "The provided access grant is invalid, expired, or revoked (e.g. invalid assertion, \
    expired authorization token, bad end-user password credentials, or mismatching authorization code and \
    redirection URI).";
const INVALID_CLIENT: &str = "The client identifier provided is invalid, the client failed to authenticate, the \
    client did not include its credentials, provided multiple client credentials, or used unsupported credentials \
    type.";
const INVALID_REQUEST: &str = "The request is missing a required parameter, includes an unsupported parameter or \
    parameter value, or is otherwise malformed.";

/// Answers on a task of its own: a provider finishes what it began, also when the caller has hung up.
pub(crate) async fn serve(world: Arc<World>, desk: Arc<Desk>, request: Request) -> Response {
    let work = tokio::spawn(async move { Endpoint { world, desk }.answer(&request).await });
    work.await.unwrap_or_else(|_| hang_up())
}

struct Endpoint {
    world: Arc<World>,
    desk: Arc<Desk>,
}

struct Granted {
    pair: Pair,
    body: Value,
    outcome: Outcome,
}

struct Denied {
    answer: Answer,
    outcome: Outcome,
}

impl Endpoint {
    async fn answer(&self, request: &Request) -> Response {
        let fields = fields(request);
        let refresh_token = fields
            .as_ref()
            .filter(|fields| text(fields, "grant_type") == Some("refresh_token"))
            .and_then(|fields| text(fields, "refresh_token"));
        let now_ms = self.world.clock.now_ms();
        let presentation = refresh_token.map(|token| {
            let seq = self.world.next_seq();
            locked(&self.desk.tokens).present(token, now_ms, seq)
        });
        let plan = locked(&self.desk.faults).plan(now_ms);
        let (response, outcome) = self.follow(&plan, fields.as_ref()).await;
        if let Some(presentation) = presentation {
            let (now_ms, seq) = (self.world.clock.now_ms(), self.world.next_seq());
            locked(&self.desk.tokens).close(presentation, outcome, now_ms, seq);
        }
        response
    }

    async fn follow(&self, plan: &Plan, fields: Option<&Map<String, Value>>) -> (Response, Outcome) {
        let counts = &self.desk.counts;
        if plan.dropped {
            counts.dropped.up();
            return (hang_up(), Outcome::Dropped);
        }
        let refreshes = fields.is_some_and(|fields| text(fields, "grant_type") == Some("refresh_token"));
        if refreshes {
            counts.exchanges.up();
        }
        let _inside = refreshes.then(|| self.world.at_once.enter());
        pause(plan.delay_ms).await;
        self.desk.gate.may_process().await;
        if let Some(canned) = plan.canned.as_ref().filter(|canned| !canned.after_processing) {
            return (canned.respond(&[]), Outcome::Failed);
        }
        if refreshes && locked(&self.desk.faults).refuses() {
            return (invalid_grant().into_response(), Outcome::RefusedOnOrder);
        }

        let done = self.process(fields);
        // Before anybody can see what was issued or spent.
        self.world.keep().await;
        pause(plan.delay_after_ms).await;
        self.desk.gate.may_answer().await;
        match done {
            Err(denied) => (denied.answer.into_response(), denied.outcome),
            Ok(granted) => self.deliver(plan, granted),
        }
    }

    fn deliver(&self, plan: &Plan, granted: Granted) -> (Response, Outcome) {
        let Granted { pair, body, outcome } = granted;
        let lost = locked(&self.desk.faults).loses();
        if let Some(part_way) = lost {
            self.desk.counts.answers_lost.up();
            locked(&self.desk.tokens).mark_lost(pair.index);
            let answer = Answer::json(self.world.options().success_status, body);
            let response = match (part_way, answer.body) {
                (true, Payload::Json(body)) => break_off(answer.status, &Bytes::from(body.to_string())),
                _ => hang_up(),
            };
            return (response, Outcome::RotatedAnswerLost);
        }
        if let Some(canned) = &plan.canned {
            let expires_in = body["expires_in"].to_string();
            let shows_tokens = canned.body.contains("{access_token}");
            if !shows_tokens {
                locked(&self.desk.tokens).mark_lost(pair.index);
            }
            let response = canned.respond(&[
                ("access_token", &pair.access_token),
                ("refresh_token", pair.refresh_token.as_deref().unwrap_or("")),
                ("expires_in", &expires_in),
            ]);
            return (response, Outcome::RotatedAnswerReplaced);
        }
        let answer = Answer::json(self.world.options().success_status, body);
        (answer.into_response(), outcome)
    }

    fn process(&self, fields: Option<&Map<String, Value>>) -> Result<Granted, Denied> {
        let fields = fields.ok_or_else(|| malformed(INVALID_REQUEST))?;
        let (id, secret) = (text(fields, "client_id"), text(fields, "client_secret"));
        let Some(client_id) = locked(&self.world.client).known_as(id, secret) else {
            return Err(Denied {
                answer: oauth_error(401, "invalid_client", INVALID_CLIENT),
                outcome: Outcome::ClientRefused,
            });
        };
        match text(fields, "grant_type") {
            Some("authorization_code") => self.exchange_code(fields, client_id),
            Some("refresh_token") => self.refresh(fields, client_id),
            Some(_) => Err(Denied {
                answer: oauth_error(
                    400,
                    "unsupported_grant_type",
                    "The access grant included - its type or another attribute - is not supported by the \
                     authorization server.",
                ),
                outcome: Outcome::Malformed,
            }),
            None => Err(malformed(INVALID_REQUEST)),
        }
    }

    fn exchange_code(&self, fields: &Map<String, Value>, client_id: &str) -> Result<Granted, Denied> {
        let options = self.world.options();
        let asked = asked_lives(fields, options)?;
        let code = text(fields, "code").ok_or_else(|| malformed(INVALID_REQUEST))?;
        let redirect_uri = text(fields, "redirect_uri").ok_or_else(|| malformed(INVALID_REQUEST))?;
        let verifier = text(fields, "code_verifier");
        let lives = Lives {
            access_secs: asked.access_secs,
            refresh_secs: asked.access_secs.map(|_| asked.refresh_secs.unwrap_or(DEFAULT_REFRESH_SECS)),
        };
        let now_ms = self.world.clock.now_ms();

        let mut tokens = locked(&self.desk.tokens);
        let facts = tokens
            .spend_code(code, now_ms, options.family_revocation, |facts| {
                facts.redirect_uri == redirect_uri
                    && facts.client_id.as_deref().unwrap_or(CLIENT_ID) == client_id
                    && match (&facts.challenge, verifier) {
                        (Some(challenge), Some(verifier)) => {
                            is_verifier(verifier) && *challenge == pkce_challenge(verifier)
                        }
                        (None, None) => true,
                        _ => false,
                    }
            })
            .map_err(|_| Denied { answer: invalid_grant(), outcome: Outcome::Refused })?;
        let scope = same_scope(fields, &facts.scope)?.unwrap_or(facts.scope);
        let pair = tokens.new_grant(&self.desk.name, facts.user_id, scope, lives, Some(code), now_ms);
        drop(tokens);

        self.desk.counts.code_exchanges.up();
        let body = token_body(&pair, lives, asked);
        Ok(Granted { pair, body, outcome: Outcome::Rotated })
    }

    fn refresh(&self, fields: &Map<String, Value>, client_id: &str) -> Result<Granted, Denied> {
        let options = self.world.options();
        let asked = asked_lives(fields, options)?;
        let token = text(fields, "refresh_token").ok_or_else(|| malformed(INVALID_REQUEST))?;
        // A refresh that does not ask still gets tokens that die, only the answer does not say when.
        let lives = Lives {
            access_secs: Some(asked.access_secs.unwrap_or(DEFAULT_ACCESS_SECS)),
            refresh_secs: Some(asked.refresh_secs.unwrap_or(DEFAULT_REFRESH_SECS)),
        };
        let now_ms = self.world.clock.now_ms();

        let mut tokens = locked(&self.desk.tokens);
        if !tokens.is_of(token, client_id) {
            return Err(Denied { answer: invalid_grant(), outcome: Outcome::Refused });
        }
        let scope = match tokens.scope_of(token) {
            Some(granted) => same_scope(fields, granted)?,
            None => None,
        };
        let bought =
            tokens.rotate(token, scope.as_deref(), lives, options.reuse_grace_secs, options.family_revocation, now_ms);
        drop(tokens);

        let counts = &self.desk.counts;
        let (pair, outcome) = match bought {
            Ok(Bought::New(pair)) => {
                counts.rotations.up();
                (pair, Outcome::Rotated)
            }
            Ok(Bought::SameAgain(pair)) => {
                counts.replays.up();
                (pair, Outcome::Replayed)
            }
            Err(refused) => {
                let outcome = match refused {
                    Refused::Reused => {
                        counts.reuses.up();
                        Outcome::Reused
                    }
                    Refused::Invalid => Outcome::Refused,
                };
                return Err(Denied { answer: invalid_grant(), outcome });
            }
        };
        let body = token_body(&pair, lives, asked);
        Ok(Granted { pair, body, outcome })
    }
}

/// The answer says only what was asked for.
pub(crate) fn token_body(pair: &Pair, lives: Lives, asked: Lives) -> Value {
    let mut body = json!({
        "access_token": pair.access_token,
        "token_type": "bearer",
        "scope": pair.scope,
    });
    if let (Some(secs), Some(_)) = (lives.access_secs, asked.access_secs) {
        body["expires_in"] = secs.into();
    }
    if let Some(refresh_token) = &pair.refresh_token {
        body["refresh_token"] = refresh_token.as_str().into();
        if let (Some(secs), Some(_)) = (lives.refresh_secs, asked.access_secs.or(asked.refresh_secs)) {
            body["refresh_token_expires_in"] = secs.into();
        }
    }
    body
}

fn asked_lives(fields: &Map<String, Value>, options: Options) -> Result<Lives, Denied> {
    let access_secs = seconds(fields, "expires_in", i64::from(options.min_expires_in)..=MAX_ACCESS_SECS)?;
    let refresh_secs =
        seconds(fields, "refresh_token_expires_in", i64::from(options.min_refresh_expires_in)..=MAX_REFRESH_SECS)?;
    if access_secs.is_some_and(|access| access >= refresh_secs.unwrap_or(DEFAULT_REFRESH_SECS)) {
        return Err(malformed("expires_in must be less than refresh_token_expires_in."));
    }
    let longest = Some(i64::from(options.max_expires_in)).filter(|secs| *secs > 0);
    Ok(Lives { access_secs: access_secs.map(|secs| secs.min(longest.unwrap_or(secs))), refresh_secs })
}

fn seconds(
    fields: &Map<String, Value>,
    name: &str,
    bounds: std::ops::RangeInclusive<i64>,
) -> Result<Option<i64>, Denied> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_i64().filter(|secs| bounds.contains(secs)) {
            Some(secs) => Ok(Some(secs)),
            None => {
                Err(malformed(&format!("{name} must be an integer between {} and {}.", bounds.start(), bounds.end())))
            }
        },
    }
}

/// A repeated scope has to be the granted one; an array makes a token without any rights, as it does at Zendesk.
fn same_scope(fields: &Map<String, Value>, granted: &str) -> Result<Option<String>, Denied> {
    let sorted = |scopes: &str| {
        let mut scopes: Vec<String> = Scopes(scopes).iter().map(str::to_owned).collect();
        scopes.sort_unstable();
        scopes
    };
    match fields.get("scope") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(scope)) if sorted(scope) == sorted(granted) => Ok(None),
        Some(Value::Array(_)) => Ok(Some(String::new())),
        Some(_) => Err(Denied {
            answer: oauth_error(
                400,
                "invalid_scope",
                "The requested scope is invalid, unknown, malformed, or exceeds the previously granted scope.",
            ),
            outcome: Outcome::Malformed,
        }),
    }
}

/// RFC 7636, 4.1.
fn is_verifier(verifier: &str) -> bool {
    (43..=128).contains(&verifier.len()) && verifier.bytes().all(|c| c.is_ascii_alphanumeric() || b"-._~".contains(&c))
}

/// JSON alone: a form is no request here.
fn fields(request: &Request) -> Option<Map<String, Value>> {
    if !request.is_json() {
        return None;
    }
    match serde_json::from_slice(&request.body) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name)?.as_str()
}

fn invalid_grant() -> Answer {
    oauth_error(400, "invalid_grant", INVALID_GRANT)
}

fn malformed(description: &str) -> Denied {
    Denied { answer: oauth_error(400, "invalid_request", description), outcome: Outcome::Malformed }
}

pub(crate) fn oauth_error(status: u16, error: &str, description: &str) -> Answer {
    Answer::json(status, json!({"error": error, "error_description": description}))
}
