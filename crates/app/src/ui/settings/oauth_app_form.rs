//! Changes of an OAuth app, below /settings/oauth-apps or /settings/own-apps. A secret that the provider refuses is not
//! saved, and the one before stays (RC-03).

use std::sync::Arc;

use axum::{
    extract::{Path, State as Shared},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use holdfast_core::{OrgId, Provider, Role, ports::Changed, refresh::ClientTaken};
use holdfast_store::{AppSecret, StoredApp};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tracing::info;

use super::oauth_apps::{Problems, State, Told, Typed, Whose, found, page};
use crate::{
    app::App,
    oauth_apps::{self, check, look_at},
    ui::{
        form::{Nothing, Posted},
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
    },
};

/// No provider's are longer.
const LONGEST: usize = 2000;

pub(super) fn routes() -> Routes {
    let admin = Needs::Role(Role::Admin);
    Routes::new()
        .post("/settings/oauth-apps/{provider}", Needs::Operator, save)
        .post("/settings/oauth-apps/{provider}/check", Needs::Operator, look)
        .post("/settings/oauth-apps/{provider}/promote", Needs::Operator, promote)
        .post("/settings/oauth-apps/{provider}/drop-next", Needs::Operator, drop_next)
        .post("/settings/oauth-apps/{provider}/remove", Needs::Operator, remove)
        .post("/settings/own-apps/{provider}", admin, save)
        .post("/settings/own-apps/{provider}/check", admin, look)
        .post("/settings/own-apps/{provider}/promote", admin, promote)
        .post("/settings/own-apps/{provider}/drop-next", admin, drop_next)
        .post("/settings/own-apps/{provider}/remove", admin, remove)
}

#[derive(Deserialize)]
struct Save {
    #[serde(default)]
    revision: i64,
    #[serde(default)]
    client_id: String,
    /// Empty: as it is.
    #[serde(default)]
    client_secret: SecretString,
    /// Empty: as it is.
    #[serde(default)]
    next_client_secret: SecretString,
    #[serde(default)]
    ends_on: String,
    /// Another client id is meant.
    confirm: Option<String>,
}

#[derive(Deserialize)]
struct OfRevision {
    #[serde(default)]
    revision: i64,
    /// The provider's name, typed by whoever takes an app out.
    #[serde(default)]
    name: String,
}

/// POST {provider}
async fn save(
    Shared(app): Shared<Arc<App>>,
    whose: Whose,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<Save>,
) -> Result<Response, Trouble> {
    let provider = found(&app, &person, &id)?;
    let org = whose.org(&person);
    let state = State::of(&app, org, provider.as_ref()).await?;
    if state.is_configured() {
        return Err(in_configuration(&person));
    }
    let held = state.held;
    let before = state.stored();
    if before.as_ref().map_or(0, |before| before.revision) != form.revision {
        return Err(changed_meanwhile(&person));
    }
    let client_id = form.client_id.trim();
    let now = app.seams.clock.now();
    let mut problems = complaints(&form, client_id, before.as_ref(), now);
    let another = before.as_ref().is_some_and(|before| before.client_id != client_id);
    let confirm = another && held > 0;
    if problems == Problems::default() && confirm && form.confirm.is_none() {
        problems.client_id = format!(
            "{} authorised for the client {}. With another client each of them has to be reconnected.",
            connectors_were(held),
            before.as_ref().map(|before| before.client_id.as_str()).unwrap_or_default()
        );
    }
    if org.is_some() && app.apps.instances(&id).await.is_ok_and(|one| one.is_some_and(|one| one.client_id == client_id))
    {
        "This installation connects with this client already. One of your own has another id."
            .clone_into(&mut problems.client_id);
    }
    let mut new = StoredApp {
        org: org.cloned(),
        provider: provider.about().id.to_owned(),
        client_id: client_id.to_owned(),
        secret: secret_of(&form.client_secret, before.as_ref().and_then(|before| before.secret.clone()), now),
        next_secret: secret_of(&form.next_client_secret, before.as_ref().and_then(|b| b.next_secret.clone()), now),
        secret_expires_at: date(&form.ends_on),
        revision: form.revision,
        changed_by: Some(person.actor()),
        changed_at: now,
    };
    if problems == Problems::default() {
        // Only what is new: the current secret may be over already, and the next one the cure.
        if another || !form.client_secret.expose_secret().trim().is_empty() || before.is_none() {
            problems.secret = checked(&app, org, provider.as_ref(), client_id, &mut new.secret).await?;
        }
        if new.next_secret.is_some() && (another || !form.next_client_secret.expose_secret().trim().is_empty()) {
            problems.next = checked(&app, org, provider.as_ref(), client_id, &mut new.next_secret).await?;
        }
    }
    if problems != Problems::default() {
        let typed = Some(Typed { client_id: &form.client_id, ends_on: &form.ends_on, confirm });
        let told = Told { typed, problems, ..Told::default() };
        return page(&app, whose, &person, provider.as_ref(), told, StatusCode::UNPROCESSABLE_ENTITY).await;
    }
    let next = new.next_secret.is_some() && !form.next_client_secret.expose_secret().trim().is_empty();
    write(&app, whose, &person, &new, if next { "next-saved" } else { "saved" }).await
}

/// POST {provider}/check
async fn look(
    Shared(app): Shared<Arc<App>>,
    whose: Whose,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let provider = found(&app, &person, &id)?;
    let name = provider.about().name;
    let (mut told, mut said) = (Told::default(), Vec::new());
    // The current secret is refused, and the one that is used in its place is taken.
    let mut next_serves = false;
    let org = whose.org(&person);
    if let Some(configured) = app.apps.configured(&id).filter(|_| org.is_none()) {
        let configured = configured.app();
        let (client_id, next) = (&configured.client_id, configured.next_client_secret);
        let taken = check(&app, None, provider.as_ref(), client_id, configured.client_secret.as_ref()).await?;
        said.extend(refusal(name, "current", &taken, configured.client_secret.as_ref()));
        if let Some(next) = next {
            let taken = check(&app, None, provider.as_ref(), client_id, Some(&next)).await?;
            next_serves = !said.is_empty() && matches!(taken, ClientTaken::Yes);
            said.extend(refusal(name, "next", &taken, Some(&next)));
        }
    } else {
        let Some(mut stored) = app.store.find_oauth_app(org, &id).await? else {
            return Err(Trouble::not_found(&person));
        };
        let client_id = stored.client_id.clone();
        let now = app.seams.clock.now();
        for (which, secret) in [("current", &mut stored.secret), ("next", &mut stored.next_secret)] {
            let plain = match secret {
                Some(AppSecret { secret: None, .. }) => continue,
                None if which == "next" => continue,
                Some(secret) => secret.secret.clone(),
                None => None,
            };
            let taken = check(&app, org, provider.as_ref(), &client_id, plain.as_ref()).await?;
            next_serves = which == "next" && !said.is_empty() && matches!(taken, ClientTaken::Yes);
            said.extend(refusal(name, which, &taken, plain.as_ref()));
            if let Some(secret) = secret {
                match taken {
                    ClientTaken::Yes => secret.checked_at = Some(now),
                    ClientTaken::No(_) => secret.checked_at = None,
                    ClientTaken::Unknown(_) => {}
                }
            }
        }
        let unreadable = [&stored.secret, &stored.next_secret].into_iter().flatten().any(|one| one.secret.is_none());
        // Whoever changed it meanwhile has had it checked.
        if !unreadable {
            let _moved = app.store.save_oauth_app(&stored).await?;
        }
    }
    if next_serves {
        told.done = Some(
            "The next secret is taken, and the current one is not any more: the next one is used, and nothing stops. Make it the \
             current one, and the rotation is done.",
        );
    } else if said.is_empty() {
        told.done = Some("The provider takes this client.");
    } else {
        told.trouble = Some(said.join(" "));
    }
    page(&app, whose, &person, provider.as_ref(), told, StatusCode::OK).await
}

/// POST {provider}/promote
async fn promote(
    Shared(app): Shared<Arc<App>>,
    whose: Whose,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<OfRevision>,
) -> Result<Response, Trouble> {
    let mut stored = of_revision(&app, whose, &person, &id, form.revision).await?;
    let Some(next) = stored.next_secret.take() else { return Err(changed_meanwhile(&person)) };
    stored.secret = Some(next);
    // It was the end of the secret before.
    stored.secret_expires_at = None;
    write(&app, whose, &person, &stored, "promoted").await
}

/// POST {provider}/drop-next
async fn drop_next(
    Shared(app): Shared<Arc<App>>,
    whose: Whose,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<OfRevision>,
) -> Result<Response, Trouble> {
    let mut stored = of_revision(&app, whose, &person, &id, form.revision).await?;
    stored.next_secret = None;
    write(&app, whose, &person, &stored, "dropped").await
}

/// POST {provider}/remove
async fn remove(
    Shared(app): Shared<Arc<App>>,
    whose: Whose,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<OfRevision>,
) -> Result<Response, Trouble> {
    let provider = found(&app, &person, &id)?;
    of_revision(&app, whose, &person, &id, form.revision).await?;
    if !form.name.trim().eq_ignore_ascii_case(provider.about().name) {
        let trouble = Some(format!("To take it out, type its name: {}. Nothing was changed.", provider.about().name));
        let told = Told { trouble, ..Told::default() };
        return page(&app, whose, &person, provider.as_ref(), told, StatusCode::UNPROCESSABLE_ENTITY).await;
    }
    if app.store.remove_oauth_app(whose.org(&person), &id, form.revision).await? == Changed::No {
        return Err(changed_meanwhile(&person));
    }
    app.apps.forget();
    let org = whose.org(&person).map(OrgId::as_str);
    info!(user.id = person.user.id, org.id = org, provider = id, "{} took the OAuth app of {id} out", person.user.id);
    Ok(Redirect::to(&format!("{}/{id}?done=removed", whose.here())).into_response())
}

/// The app of the UI, as whoever sent the form has seen it.
async fn of_revision(app: &App, whose: Whose, person: &Person, id: &str, revision: i64) -> Result<StoredApp, Trouble> {
    let provider = found(app, person, id)?;
    let state = State::of(app, whose.org(person), provider.as_ref()).await?;
    if state.is_configured() {
        return Err(in_configuration(person));
    }
    let stored = state.stored().ok_or_else(|| Trouble::not_found(person))?;
    if stored.revision == revision { Ok(stored) } else { Err(changed_meanwhile(person)) }
}

async fn write(app: &App, whose: Whose, person: &Person, new: &StoredApp, done: &str) -> Result<Response, Trouble> {
    let new = StoredApp { changed_by: Some(person.actor()), changed_at: app.seams.clock.now(), ..new.clone() };
    if oauth_apps::save(app, &new).await? == Changed::No {
        return Err(changed_meanwhile(person));
    }
    let id = &new.provider;
    let org = new.org.as_ref().map(OrgId::as_str);
    info!(user.id = person.user.id, org.id = org, provider = id, "{} changed the OAuth app of {id}", person.user.id);
    Ok(Redirect::to(&format!("{}/{id}?done={done}", whose.here())).into_response())
}

/// Asks the provider, and notes on the secret what it said. Answers what is wrong with it, in words; else nothing.
async fn checked(
    app: &App,
    org: Option<&OrgId>,
    provider: &dyn Provider,
    client_id: &str,
    secret: &mut Option<AppSecret>,
) -> Result<String, Trouble> {
    let taken = look_at(app, org, provider, client_id, secret).await?;
    let what = if secret.is_some() { "this client id and secret" } else { "this client without a secret" };
    Ok(refused(provider.about().name, what, &taken).unwrap_or_default())
}

/// In words: what it refuses, and that nothing was saved.
fn refused(name: &str, what: &str, taken: &ClientTaken) -> Option<String> {
    let ClientTaken::No(refusal) = taken else { return None };
    let code = refusal.code.as_deref().unwrap_or("without an error code");
    Some(format!("{name} refuses {what} ({code}). Nothing was saved; what was set before still counts."))
}

/// What a check found that is not as it should be.
fn refusal(name: &str, which: &str, taken: &ClientTaken, secret: Option<&SecretString>) -> Option<String> {
    match taken {
        ClientTaken::Yes => None,
        ClientTaken::No(refusal) => {
            Some(format!("{name} refuses the {which} secret ({}).", without(&refusal.words(), secret)))
        }
        ClientTaken::Unknown(words) => {
            Some(format!("The {which} secret could not be checked ({}).", without(words, secret)))
        }
    }
}

/// A provider's words; one that repeats what it was sent must not bring a secret onto a page.
fn without(words: &str, secret: Option<&SecretString>) -> String {
    let words = words.trim_end_matches(['.', ' ']);
    match secret.map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty()) {
        Some(secret) => words.replace(secret, "..."),
        None => words.to_owned(),
    }
}

/// What can be told without the provider.
fn complaints(form: &Save, client_id: &str, before: Option<&StoredApp>, now: DateTime<Utc>) -> Problems {
    let unless = |good: bool, text: &str| if good { String::new() } else { text.to_owned() };
    let is_one_line = |text: &str| text.len() <= LONGEST && !text.chars().any(char::is_control);
    let of_secret = |typed: &SecretString, kept: Option<&AppSecret>| {
        let typed = typed.expose_secret().trim();
        let lost = typed.is_empty() && kept.is_some_and(|kept| kept.secret.is_none());
        if lost {
            return "The stored one cannot be opened with this master key. Enter it again.".to_owned();
        }
        unless(is_one_line(typed), "A secret is one line, as the provider shows it.")
    };
    Problems {
        client_id: unless(
            !client_id.is_empty() && is_one_line(client_id) && !client_id.contains(char::is_whitespace),
            "The client id is what the provider shows beside the secret: one word.",
        ),
        secret: of_secret(&form.client_secret, before.and_then(|before| before.secret.as_ref())),
        next: of_secret(&form.next_client_secret, before.and_then(|before| before.next_secret.as_ref())),
        ends_on: match date(&form.ends_on) {
            None => unless(form.ends_on.trim().is_empty(), "A date, such as 2027-01-31."),
            // One that was entered when it lay ahead may stand.
            Some(end) => unless(
                end > now || before.is_some_and(|before| before.secret_expires_at == Some(end)),
                "This day is over. It is the day on which the current secret ends.",
            ),
        },
    }
}

/// What was typed, or what there was.
fn secret_of(typed: &SecretString, before: Option<AppSecret>, now: DateTime<Utc>) -> Option<AppSecret> {
    let typed = typed.expose_secret().trim();
    if typed.is_empty() {
        return before;
    }
    Some(AppSecret { secret: Some(SecretString::from(typed)), set_at: now, checked_at: None })
}

/// The beginning of a day in UTC.
fn date(text: &str) -> Option<DateTime<Utc>> {
    let day: NaiveDate = text.trim().parse().ok()?;
    Some(day.and_time(NaiveTime::MIN).and_utc())
}

fn connectors_were(count: u64) -> String {
    if count == 1 { "One connector was".to_owned() } else { format!("{count} connectors were") }
}

fn in_configuration(person: &Person) -> Trouble {
    let way_on =
        "It is set in the settings file or the environment, and goes before what is set here. Nothing was changed.";
    Trouble::told(person, StatusCode::CONFLICT, "This app is set in the configuration", way_on)
}

fn changed_meanwhile(person: &Person) -> Trouble {
    let way_on =
        "Somebody changed this app since the page was loaded. Go back, load it again, and look before you send it.";
    Trouble::told(person, StatusCode::CONFLICT, "Not as you saw it any more", way_on)
}
