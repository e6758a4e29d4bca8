//! `POST /oauth/token`: codes and refresh tokens for token sets.
//!
//! A form; the client in Basic, as the documentation has it and nowhere else.
//! <https://developers.gorgias.com/docs/oauth2-authentication-for-creating-apps-with-gorgias>

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::account::Place;
use super::tokens::{Issued, Refused};
use crate::clock::pause;
use crate::desk::{World, locked};
use crate::faults::{Plan, break_off, hang_up};
use crate::http::{Answer, Payload, Request, find, pairs};
use crate::ledger::PresentationOutcome as Outcome;
use crate::options::CLIENT_ID;

type Fields = Vec<(String, String)>;

/// Answers on a task of its own: a provider finishes what it began, also when the caller has hung up.
pub(crate) async fn serve(world: Arc<World>, place: Arc<Place>, request: Request) -> Response {
    let work = tokio::spawn(async move { Endpoint { world, place }.answer(&request).await });
    work.await.unwrap_or_else(|_| hang_up())
}

struct Endpoint {
    world: Arc<World>,
    place: Arc<Place>,
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
        let fields = form(request);
        let refresh_token = fields.as_ref().filter(|fields| is_refresh(fields)).and_then(|f| find(f, "refresh_token"));
        let now_ms = self.world.clock.now_ms();
        let presentation = refresh_token.map(|token| {
            let seq = self.world.next_seq();
            locked(&self.place.tokens).present(token, now_ms, seq)
        });
        let plan = locked(&self.place.faults).plan(now_ms);
        let (response, outcome) = self.follow(&plan, request, fields.as_ref()).await;
        if let Some(presentation) = presentation {
            let (now_ms, seq) = (self.world.clock.now_ms(), self.world.next_seq());
            locked(&self.place.tokens).close(presentation, outcome, now_ms, seq);
        }
        response
    }

    async fn follow(&self, plan: &Plan, request: &Request, fields: Option<&Fields>) -> (Response, Outcome) {
        let counts = &self.place.counts;
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
        self.place.gate.may_process().await;
        if let Some(canned) = plan.canned.as_ref().filter(|canned| !canned.after_processing) {
            return (canned.respond(&[]), Outcome::Failed);
        }
        if refreshes && locked(&self.place.faults).refuses() {
            return (invalid_grant().into_response(), Outcome::RefusedOnOrder);
        }
        let done = self.process(request, fields);
        // Before anybody can see what was issued or spent.
        self.world.keep().await;
        pause(plan.delay_after_ms).await;
        self.place.gate.may_answer().await;
        match done {
            Err(denied) => (denied.answer.into_response(), denied.outcome),
            Ok(granted) => self.deliver(plan, granted),
        }
    }

    fn deliver(&self, plan: &Plan, granted: Granted) -> (Response, Outcome) {
        let Granted { issued, outcome } = granted;
        let body = self.body(&issued);
        let lost = locked(&self.place.faults).loses();
        if let Some(part_way) = lost {
            self.place.counts.answers_lost.up();
            locked(&self.place.tokens).mark_lost(issued.index);
            let answer = Answer::json(200, body);
            let response = match (part_way, answer.body) {
                (true, Payload::Json(body)) => break_off(answer.status, &Bytes::from(body.to_string())),
                _ => hang_up(),
            };
            return (response, Outcome::RotatedAnswerLost);
        }
        if let Some(canned) = &plan.canned {
            if !canned.body.contains("{access_token}") {
                locked(&self.place.tokens).mark_lost(issued.index);
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

    fn process(&self, request: &Request, fields: Option<&Fields>) -> Result<Granted, Denied> {
        let fields = fields.ok_or_else(|| malformed("The request is no form"))?;
        if !self.is_client(request) {
            let answer = oauth_error(401, "invalid_client", "Client authentication failed")
                .header("www-authenticate", "Basic realm=\"oauth\"");
            return Err(Denied { answer, outcome: Outcome::ClientRefused });
        }
        let known: &[&str] = match find(fields, "grant_type") {
            Some("authorization_code") => &["grant_type", "code", "redirect_uri"],
            Some("refresh_token") => &["grant_type", "refresh_token"],
            Some(_) => {
                let answer = oauth_error(400, "unsupported_grant_type", "The grant type is not supported");
                return Err(Denied { answer, outcome: Outcome::Malformed });
            }
            None => return Err(malformed("Missing grant_type")),
        };
        for (index, (name, _)) in fields.iter().enumerate() {
            if !known.contains(&name.as_str()) || fields[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(malformed(&format!("{name} is unknown, or given twice")));
            }
        }
        if is_refresh(fields) { self.refresh(fields) } else { self.exchange_code(fields) }
    }

    fn exchange_code(&self, fields: &Fields) -> Result<Granted, Denied> {
        let code = given(fields, "code")?;
        let redirect_uri = given(fields, "redirect_uri")?;
        let (now_ms, access_secs) = (self.world.clock.now_ms(), self.place.rules().access_secs);
        let mut tokens = locked(&self.place.tokens);
        let facts = tokens.spend_code(code, redirect_uri, now_ms);
        let facts = facts.ok_or_else(|| Denied { answer: invalid_grant(), outcome: Outcome::Refused })?;
        let issued = tokens.new_grant(&self.place.name, &facts, Some(code), access_secs, now_ms);
        drop(tokens);
        self.place.counts.code_exchanges.up();
        Ok(Granted { issued, outcome: Outcome::Rotated })
    }

    fn refresh(&self, fields: &Fields) -> Result<Granted, Denied> {
        let token = given(fields, "refresh_token")?;
        let (now_ms, rules) = (self.world.clock.now_ms(), self.place.rules());
        let bought = locked(&self.place.tokens).refresh(token, &rules, now_ms);
        let counts = &self.place.counts;
        let issued = bought.map_err(|refused| {
            let outcome = match refused {
                Refused::Reused => {
                    counts.reuses.up();
                    Outcome::Reused
                }
                Refused::Invalid => Outcome::Refused,
            };
            Denied { answer: invalid_grant(), outcome }
        })?;
        counts.rotations.up();
        Ok(Granted { issued, outcome: Outcome::Rotated })
    }

    /// Basic alone. Form-encoded first (RFC 6749 section 2.3.1) or as it is: either is the same for most.
    fn is_client(&self, request: &Request) -> bool {
        let pair = request.header("authorization").and_then(|value| value.strip_prefix("Basic "));
        let pair = pair.and_then(|pair| String::from_utf8(STANDARD.decode(pair).ok()?).ok());
        let Some((id, secret)) = pair.as_deref().and_then(|pair| pair.split_once(':')) else { return false };
        let decoded = |text: &str| pairs(text.as_bytes()).into_iter().next().map(|(name, _)| name).unwrap_or_default();
        let client = locked(&self.world.client);
        let accepts = |id: &str, secret: &str| client.accepts("gorgias", Some(id), Some(secret));
        accepts(id, secret) || accepts(&decoded(id), &decoded(secret))
    }

    fn body(&self, issued: &Issued) -> Value {
        let mut body = json!({
            "access_token": issued.access_token,
            "token_type": "Bearer",
            "expires_in": self.place.rules().access_secs,
            "scope": issued.scope,
        });
        if let Some(token) = &issued.refresh_token {
            body["refresh_token"] = token.as_str().into();
        }
        if issued.scope.split(' ').any(|scope| scope == "openid") {
            let now = self.world.clock.now_ms() / 1000;
            let claims = json!({"iss": format!("https://{}", self.place.domain()), "aud": CLIENT_ID,
                "sub": issued.user_id.to_string(), "nonce": issued.nonce, "iat": now, "exp": now + 3600});
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let header = json!({"alg": "RS256", "typ": "JWT"});
            body["id_token"] = format!("{}.{}.c2FuZGJveA", part(&header), part(&claims)).into();
        }
        body
    }
}

fn form(request: &Request) -> Option<Fields> {
    let kind = request.header("content-type")?.split(';').next()?.trim();
    kind.eq_ignore_ascii_case("application/x-www-form-urlencoded").then(|| pairs(&request.body))
}

fn is_refresh(fields: &Fields) -> bool {
    find(fields, "grant_type") == Some("refresh_token")
}

fn given<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, Denied> {
    find(fields, name).filter(|value| !value.is_empty()).ok_or_else(|| malformed(&format!("Missing {name}")))
}

/// The form of the standard; the documentation shows none.
fn invalid_grant() -> Answer {
    oauth_error(400, "invalid_grant", "The grant is invalid, expired or revoked")
}

fn malformed(description: &str) -> Denied {
    Denied { answer: oauth_error(400, "invalid_request", description), outcome: Outcome::Malformed }
}

fn oauth_error(status: u16, error: &str, description: &str) -> Answer {
    Answer::json(status, json!({"error": error, "error_description": description}))
}
