//! One's own second factor: set up, turned off, and codes for whoever loses it.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use chrono::TimeDelta;
use holdfast_store::{FactorOwner, Proven};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tracing::info;
use url::form_urlencoded::Serializer;

use crate::{
    app::App,
    ui::{
        form::Posted,
        moment::Moment,
        passwords,
        person::Person,
        qr::Qr,
        recovery::{self, grouped},
        routes::{Needs, Routes},
        second_step::{Typed, wrong},
        sign_in::{local, too_many},
        throttle::{self, Subject},
        trouble::Trouble,
        view::{Here, View},
    },
};

/// Also where those are led who have to have one.
pub(in crate::ui) const HERE: &str = "/settings/account/two-factor";
/// A secret that lies on an open page for longer is made anew.
const SETUP_LIFE: TimeDelta = TimeDelta::hours(1);

pub(super) fn routes() -> Routes {
    Routes::new()
        .get(HERE, Needs::Account, show)
        .post("/settings/account/two-factor/begin", Needs::Account, begin)
        .post("/settings/account/two-factor/on", Needs::Account, turn_on)
        .post("/settings/account/two-factor/codes", Needs::Account, renew)
        .post("/settings/account/two-factor/off", Needs::Account, turn_off)
}

/// Where somebody goes who has to set one up, and then on to this path.
pub(in crate::ui) fn set_up_address(next: &str) -> String {
    if next == "/" {
        return HERE.to_owned();
    }
    format!("{HERE}?{}", Serializer::new(String::new()).append_pair("next", next).finish())
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    done: String,
    #[serde(default)]
    next: String,
}

#[derive(Serialize, Default)]
struct TwoFactorPage<'a> {
    done: Option<&'static str>,
    email: &'a str,
    /// Where they go on afterwards.
    next: &'a str,
    /// Whether their org asks for it.
    required: bool,
    /// Whether they have a password to confirm it with.
    password: bool,
    on: Option<On>,
    setup: Option<Setup>,
    /// The codes that were just made, this once.
    codes: Vec<String>,
    /// Which form the problems are of.
    form: &'static str,
    problems: Problems,
}

#[derive(Serialize)]
struct On {
    since: Moment,
    left: u64,
}

#[derive(Serialize)]
struct Setup {
    secret: String,
    link: String,
    qr: Option<Qr>,
}

/// By the fields that they stand by.
#[derive(Serialize, Default)]
struct Problems {
    code: String,
    password: String,
}

/// GET /settings/account/two-factor
async fn show(State(app): State<Arc<App>>, person: Person, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let done = (asked.done == "off").then_some("Two-factor sign-in is off.");
    page(&app, &person, TwoFactorPage { done, next: local(&asked.next), ..TwoFactorPage::default() }).await
}

async fn page(app: &App, person: &Person, page: TwoFactorPage<'_>) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let on = app.store.find_second_factor(&person.user.email).await?;
    let setup = match on {
        Some(_) => None,
        None => app.store.second_factor_setup(&person.session.id, now - SETUP_LIFE).await?,
    };
    let wrong = !page.problems.code.is_empty() || !page.problems.password.is_empty();
    let page = TwoFactorPage {
        email: &person.user.email,
        required: person.user.second_factor_required,
        password: person.user.password_hash.is_some(),
        on: on.map(|on| On { since: Moment::new(on.since, now), left: on.recovery_left }),
        setup: setup.map(|secret| shown(app, person, secret.expose_secret())),
        ..page
    };
    let status = if wrong { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let view = View::of(person, Here::Settings, "pages/settings/two_factor.html", "Two-factor sign-in", &page);
    Ok(view.status(status).show(app))
}

/// A secret, in every form that apps take.
fn shown(app: &App, person: &Person, secret: &str) -> Setup {
    let host = app.config.public_url().host_str().unwrap_or_default().to_owned();
    let issuer = format!("Holdfast ({host})");
    let mut link = url::Url::parse("otpauth://totp/").expect("it is an address");
    link.set_path(&format!("{issuer}:{}", person.user.email));
    link.query_pairs_mut().append_pair("secret", secret);
    // As Google's and Apple's apps read it, a plus sign is none.
    let issuer = issuer.replace(' ', "%20").replace('(', "%28").replace(')', "%29");
    let link = format!("{link}&issuer={issuer}&algorithm=SHA1&digits=6&period=30");
    Setup { secret: grouped(secret, ' '), qr: Qr::of(&link), link }
}

#[derive(Deserialize)]
struct Begin {
    #[serde(default)]
    next: String,
}

/// POST /settings/account/two-factor/begin
async fn begin(State(app): State<Arc<App>>, person: Person, Posted(form): Posted<Begin>) -> Result<Response, Trouble> {
    if !person.user.second_factor {
        app.store.begin_second_factor(&person.session.id, app.seams.clock.now()).await?;
    }
    Ok(Redirect::to(&set_up_address(local(&form.next))).into_response())
}

#[derive(Deserialize)]
struct Proof {
    #[serde(default)]
    code: SecretString,
    #[serde(default)]
    password: SecretString,
    #[serde(default)]
    next: String,
}

impl Proof {
    /// Counts an attempt and holds it to the password; what is wrong, where it is. Guessing here is no faster than at the
    /// door, of either.
    async fn begun(&self, app: &App, person: &Person) -> Result<Result<(), Problems>, Trouble> {
        let subjects = [Subject::person(&person.user.id), Subject::second_factor(&person.user.email)];
        if let Err(wait) = throttle::attempt(app, &subjects).await? {
            return Ok(Err(Problems { code: too_many(wait), ..Problems::default() }));
        }
        let Some(hash) = &person.user.password_hash else { return Ok(Ok(())) };
        let right = passwords::verify(self.password.clone(), vec![Some(hash.clone())]).await;
        if right == [true] {
            return Ok(Ok(()));
        }
        let password = "That is not your password.".to_owned();
        Ok(Err(Problems { password, ..Problems::default() }))
    }

    async fn ended(&self, app: &App, person: &Person, typed: &Typed<'_>, proven: Proven) -> Result<Problems, Trouble> {
        match proven {
            Proven::Yes => {
                throttle::forget(app, Subject::person(&person.user.id)).await?;
                throttle::forget(app, Subject::second_factor(&person.user.email)).await?;
                Ok(Problems::default())
            }
            Proven::Wrong | Proven::Used => {
                if person.user.second_factor {
                    wrong(app, &person.user).await?;
                }
                Ok(Problems { code: typed.complaint(proven).to_owned(), ..Problems::default() })
            }
            Proven::Nothing => Err(Trouble::told(
                person,
                StatusCode::CONFLICT,
                "It was changed meanwhile",
                "In another tab, or it lay here for too long. Open the page of your account and begin again.",
            )),
        }
    }
}

/// POST /settings/account/two-factor/on
async fn turn_on(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(form): Posted<Proof>,
) -> Result<Response, Trouble> {
    let next = local(&form.next);
    let refuse = async |problems| {
        page(&app, &person, TwoFactorPage { next, form: "on", problems, ..TwoFactorPage::default() }).await
    };
    if let Err(problems) = form.begun(&app, &person).await? {
        return refuse(problems).await;
    }
    let codes = recovery::codes(app.seams.random.as_ref());
    let hashes: Vec<_> = codes.iter().map(|code| recovery::hash(code)).collect();
    let now = app.seams.clock.now();
    let (typed, session) = (form.code.expose_secret(), (person.session.id.as_str(), now - SETUP_LIFE));
    let proven = app.store.turn_on_second_factor(owner(&person), session, typed, &hashes, &app.telling()).await?;
    let problems = form.ended(&app, &person, &Typed::Code(typed), proven).await?;
    if proven != Proven::Yes {
        return refuse(problems).await;
    }
    info!(user.id = person.user.id, "{} turned their second factor on", person.user.id);
    let done = Some("Two-factor sign-in is on.");
    page(&app, &person, TwoFactorPage { done, next, codes, ..TwoFactorPage::default() }).await
}

/// POST /settings/account/two-factor/codes
async fn renew(State(app): State<Arc<App>>, person: Person, Posted(form): Posted<Proof>) -> Result<Response, Trouble> {
    let refuse = async |problems| {
        page(&app, &person, TwoFactorPage { form: "codes", problems, ..TwoFactorPage::default() }).await
    };
    if let Err(problems) = form.begun(&app, &person).await? {
        return refuse(problems).await;
    }
    let codes = recovery::codes(app.seams.random.as_ref());
    let hashes: Vec<_> = codes.iter().map(|code| recovery::hash(code)).collect();
    let typed = Typed::either(form.code.expose_secret());
    let mut hash = [0; 32];
    let proven =
        app.store.renew_recovery_codes(owner(&person), typed.proof(&mut hash), &hashes, &app.telling()).await?;
    let problems = form.ended(&app, &person, &typed, proven).await?;
    if proven != Proven::Yes {
        return refuse(problems).await;
    }
    info!(user.id = person.user.id, "{} made new recovery codes", person.user.id);
    let done = Some("Those before are worth nothing any more.");
    page(&app, &person, TwoFactorPage { done, codes, ..TwoFactorPage::default() }).await
}

/// POST /settings/account/two-factor/off
async fn turn_off(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(form): Posted<Proof>,
) -> Result<Response, Trouble> {
    let refuse =
        async |problems| page(&app, &person, TwoFactorPage { form: "off", problems, ..TwoFactorPage::default() }).await;
    if let Err(problems) = form.begun(&app, &person).await? {
        return refuse(problems).await;
    }
    let typed = Typed::either(form.code.expose_secret());
    let mut hash = [0; 32];
    let proven = app.store.turn_off_second_factor(owner(&person), typed.proof(&mut hash), &app.telling()).await?;
    let problems = form.ended(&app, &person, &typed, proven).await?;
    if proven != Proven::Yes {
        return refuse(problems).await;
    }
    info!(user.id = person.user.id, "{} turned their second factor off", person.user.id);
    Ok(Redirect::to(&format!("{HERE}?done=off")).into_response())
}

fn owner(person: &Person) -> FactorOwner<'_> {
    FactorOwner { user: &person.user.id, email: &person.user.email }
}
