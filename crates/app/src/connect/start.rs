//! The start of a consent: from the page behind a link, or by somebody who is signed in.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use holdfast_core::{
    Health, OrgId, Secret, Snapshot,
    exchange::{AuthorizeUrl, authorize_url},
    ports::StoreError,
    provider::{About, Auth, Provider},
};
use holdfast_store::{NewSession, Purpose, Session, StartSession, Way};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use super::{
    LINK_LIFE, STATE_LIFE,
    asked::{Asked, NotAsked, about, asked, connector},
    ending::Ended,
    secret_of,
};
use crate::{
    app::App,
    keys,
    ui::{
        form::{Posted, from_elsewhere},
        person::Visitor,
        trouble::Trouble,
        view::{Brand, View},
    },
    words::sentence,
};

/// What the form may carry: the account, where the link leaves it to the person, and the way in.
#[derive(Deserialize)]
pub(super) struct Form {
    account: Option<String>,
    #[serde(default)]
    by: String,
}

/// The ways in that a page offers.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Ways {
    /// Whether the one that goes without saying is a key, asked for on a page of ours.
    pub(crate) key: bool,
    /// There is the other one as well.
    pub(crate) both: bool,
}

/// Those of a provider. The first is the way that was gone last for the connector, so that somebody whose key was refused
/// is asked for the key again; else that of its credential, else OAuth where an app is set up for it.
pub(crate) async fn ways(
    app: &App,
    org: &OrgId,
    about: &About,
    snapshot: Option<&Snapshot>,
) -> Result<Ways, StoreError> {
    if !about.has_choice() {
        return Ok(Ways { key: about.takes_keys(), both: false });
    }
    let set_up = app.apps.is_set_up(org, about.id).await?;
    let last = match snapshot {
        Some(snapshot) => app.store.last_by_key(&snapshot.connector).await?,
        None => None,
    };
    let has_key = || snapshot.is_some_and(|snapshot| matches!(snapshot.credential.secret, Secret::ApiKey(_)));
    Ok(Ways { key: last.unwrap_or_else(has_key) || !set_up, both: set_up })
}

impl Ways {
    /// Whether a key is asked for, by what a button of the page said.
    fn by_key(self, said: &str) -> bool {
        match said {
            "key" => self.key || self.both,
            "oauth" => self.key && !self.both,
            _ => self.key,
        }
    }
}

#[derive(Serialize)]
struct LinkPage<'a> {
    provider: &'a str,
    again: bool,
    account: Option<&'a str>,
    org: &'a str,
    scopes: Vec<&'a str>,
    ways: Ways,
    field: Option<AccountField<'a>>,
}

#[derive(Serialize)]
struct AccountField<'a> {
    label: &'a str,
    example: &'a str,
    rule: String,
    value: &'a str,
    problem: &'a str,
}

/// GET: shows what will happen, and starts nothing.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Path(link): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Trouble> {
    let session = open_session(&app, &link).await?;
    let (snapshot, provider) = connector(&app, &session).await.map_err(not_asked)?;
    if is_framed(&headers) {
        return framed(&app, &session, &snapshot, provider.as_ref(), &link).await;
    }
    let page = page(&app, &visitor, &session, &snapshot, provider.as_ref(), None).await?;
    Ok((visitor.jar, page).into_response())
}

/// Whether a browser is about to show the answer inside of another page.
fn is_framed(headers: &HeaderMap) -> bool {
    let into = headers.get("sec-fetch-dest").and_then(|into| into.to_str().ok()).unwrap_or_default();
    matches!(into, "iframe" | "frame" | "embed" | "object")
}

#[derive(Serialize)]
struct FramedPage<'a> {
    name: &'a str,
    again: bool,
    link: &'a str,
}

/// Inside of another page nobody sees whose page it is that asks for access, and providers do not show their consent there: the
/// one thing to do is to open the link in a window of its own. Pages of the org's origins may show that, and no others.
async fn framed(
    app: &App,
    session: &Session,
    snapshot: &Snapshot,
    provider: &dyn Provider,
    link: &str,
) -> Result<Response, Trouble> {
    let brand = Brand::of(app, &snapshot.org).await?;
    let about = provider.about();
    let account = provider.account(&snapshot.account).ok();
    let name = account.as_ref().map_or(about.name, |account| account.display.as_str());
    let again = session.purpose == Purpose::Reconnect;
    let link = format!("/connect/{}", secret_of(link));
    let page = FramedPage { name, again, link: &link };
    let title = format!("{} {name}", if again { "Reconnect" } else { "Connect" });
    Ok(View::plain("", "pages/connect/framed.html", &title, &page).framed_by(&brand).show(app))
}

/// The link's page; `refused`: the account that was typed, and why it is not one.
async fn page(
    app: &App,
    visitor: &Visitor,
    session: &Session,
    snapshot: &Snapshot,
    provider: &dyn Provider,
    refused: Option<(&str, &str)>,
) -> Result<Response, Trouble> {
    let about = provider.about();
    let account = provider.account(&snapshot.account).ok();
    let brand = Brand::of(app, &snapshot.org).await?;
    let again = session.purpose == Purpose::Reconnect;
    let (value, problem) = refused.unwrap_or((session.account.as_deref().unwrap_or_default(), ""));
    let field = account.is_none().then(|| AccountField {
        label: about.account_label,
        example: about.account_example,
        rule: sentence(about.account_rule),
        value,
        problem,
    });
    let display = account.as_ref().map(|account| account.display.as_str());
    let context = LinkPage {
        provider: about.name,
        again,
        account: display,
        org: brand.name(),
        scopes: about.scopes.iter().map(|scope| scope.words).collect(),
        ways: ways(app, &snapshot.org, about, Some(snapshot)).await?,
        field,
    };
    let title = format!("{} {}", if again { "Reconnect" } else { "Connect" }, display.unwrap_or(about.name));
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let view = View::plain(&visitor.csrf, "pages/connect/link.html", &title, &context);
    Ok(view.status(status).branded(&brand).leads_to(leads_to(app).as_str()).show(app))
}

/// Where forms that start a consent may lead. Browsers hold every redirect after a form to it, and a provider's sign-in
/// may go over hosts that nobody knows beforehand (single sign-on, a helpdesk's own domain): any https one, and
/// sandboxes' own origins.
pub(crate) fn leads_to(app: &App) -> String {
    let mut sources = "https:".to_owned();
    for provider in app.providers().iter() {
        let example = provider.account(provider.about().account_example).ok();
        if let Some(base) = example.map(|account| account.base_url).filter(|base| base.scheme() == "http") {
            sources.push(' ');
            sources.push_str(&base.origin().ascii_serialization());
        }
    }
    sources
}

/// POST: binds the consent to this browser and sends it to the provider.
pub(super) async fn start(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Path(link): Path<String>,
    headers: HeaderMap,
    form: Result<Posted<Form>, Trouble>,
) -> Result<Response, Trouble> {
    if from_elsewhere(&headers) {
        let way_on = "Open the connect link itself, and press the button there.";
        return Err(Trouble::outside(StatusCode::FORBIDDEN, "This was sent from another site", way_on));
    }
    let mut session = open_session(&app, &link).await?;
    let Posted(form) = form?;
    let (snapshot, provider) = connector(&app, &session).await.map_err(not_asked)?;
    session.by_key = Some(ways(&app, &snapshot.org, provider.about(), Some(&snapshot)).await?.by_key(&form.by));
    if let Some(typed) = form.account.filter(|_| session.purpose == Purpose::Connect) {
        // It stays with this consent until the grant is stored, so that a slip can be mended.
        match provider.account(&typed) {
            Ok(account) => session.account = Some(account.id),
            Err(invalid) => {
                let refused = Some((typed.as_str(), invalid.message.as_str()));
                let page = page(&app, &visitor, &session, &snapshot, provider.as_ref(), refused).await?;
                return Ok((visitor.jar, page).into_response());
            }
        }
    }
    let asked = asked(&app, &session).await.map_err(not_asked)?;
    let target = send(&app, &asked, &keys::hash(secret_of(&link)), &visitor.browser).await?;
    Ok((StatusCode::SEE_OTHER, visitor.jar, [(header::LOCATION, target)]).into_response())
}

/// Starts a consent without a connect link, for a person who may: signed in, or by the link of a mail that was sent to
/// them. `by`: what the button said of the way in. Bound to this browser; answers where to send it.
pub(crate) async fn begin(
    app: &App,
    snapshot: &Arc<Snapshot>,
    account: Option<String>,
    by: &str,
    way: Way,
    user: &str,
    browser: &str,
) -> Result<HeaderValue, Trouble> {
    let Some(provider) = app.providers().find(&snapshot.provider).cloned() else {
        return Err(no_app(&snapshot.provider));
    };
    let by_key = ways(app, &snapshot.org, provider.about(), Some(snapshot)).await?.by_key(by);
    let asked = about(Arc::clone(snapshot), provider, account.as_deref(), Some(by_key)).map_err(not_asked)?;
    let at = app.seams.clock.now();
    let session = NewSession {
        org: snapshot.org.clone(),
        connector: snapshot.connector.clone(),
        // Nobody is told it.
        link_hash: keys::hash(keys::secret_text("", app.seams.random.as_ref()).expose_secret()),
        purpose: purpose(snapshot),
        return_url: None,
        way,
        user: Some(user.to_owned()),
        at,
        expires_at: at + LINK_LIFE,
        asked_for: true,
    };
    if matches!(asked.auth, Auth::OAuth2(_)) && app.apps.for_consent(&snapshot.org, &snapshot.provider).await?.is_none()
    {
        return Err(no_app(asked.provider.about().name));
    }
    app.store.create_session(&session).await?;
    send(app, &asked, &session.link_hash, browser).await
}

/// The first grant, or another one.
pub(super) fn purpose(snapshot: &Snapshot) -> Purpose {
    if snapshot.health == Health::Pending { Purpose::Connect } else { Purpose::Reconnect }
}

/// Starts the consent of this session; answers the provider's page for it, or ours that asks for a key.
async fn send(app: &App, asked: &Asked, link_hash: &[u8; 32], browser: &str) -> Result<HeaderValue, Trouble> {
    let client = match &asked.auth {
        Auth::OAuth2(facts) => match app.apps.for_consent(&asked.snapshot.org, &asked.snapshot.provider).await? {
            Some((id, client)) => Some((facts, id, client)),
            None => return Err(no_app(asked.provider.about().name)),
        },
        Auth::ApiKey(_) => None,
    };
    let pkce = client.as_ref().is_some_and(|(facts, ..)| facts.pkce);
    let random = app.seams.random.as_ref();
    let (state, verifier) = (keys::secret_text("", random), keys::secret_text("", random));
    let at = app.seams.clock.now();
    let start = StartSession {
        link_hash: *link_hash,
        state_hash: keys::hash(state.expose_secret()),
        browser_hash: keys::hash(browser),
        app: client.as_ref().map(|(_, id, _)| id.clone()),
        verifier: pkce.then(|| verifier.clone()),
        account: Some(asked.account.id.clone()),
        by_key: client.is_none(),
        at,
        state_expires_at: at + STATE_LIFE,
    };
    if app.store.start_session(&start).await?.is_none() {
        return Err(spent());
    }
    let target = match client {
        Some((facts, _, client)) => {
            let redirect_uri = app.redirect_uri();
            let parts = AuthorizeUrl {
                client_id: &client.client_id,
                redirect_uri: &redirect_uri,
                state: state.expose_secret(),
                verifier: pkce.then_some(&verifier),
            };
            let mut url = authorize_url(facts, &parts);
            if asked.provider.sends_nonce() {
                url.query_pairs_mut().append_pair("nonce", keys::secret_text("", random).expose_secret());
            }
            url.into()
        }
        None => format!("/connect/key/{}", state.expose_secret()),
    };
    Ok(HeaderValue::try_from(target).expect("a URL is a valid header"))
}

async fn open_session(app: &App, link: &str) -> Result<Session, Trouble> {
    let session = app.store.find_session_by_link(&keys::hash(secret_of(link))).await?;
    let now = app.seams.clock.now();
    match session {
        None => Err(Trouble::outside(
            StatusCode::NOT_FOUND,
            "This link is not known",
            "It may be cut off at its end. Copy the whole link, or ask for a new one.",
        )),
        Some(session) if session.result.as_ref().and_then(Ended::read).is_some_and(|ended| ended.ok()) => Err(spent()),
        Some(session) if session.expires_at <= now => Err(Trouble::outside(
            StatusCode::GONE,
            "This link is over",
            "Links to connect work for an hour. Ask for a new one; nothing has changed meanwhile.",
        )),
        Some(session) => Ok(session),
    }
}

fn spent() -> Trouble {
    Trouble::outside(
        StatusCode::GONE,
        "This link has been used",
        "The connection that it was for was made. Ask for a new link if something still does not work.",
    )
}

/// There is no OAuth app for this provider.
pub(crate) fn no_app(provider: &str) -> Trouble {
    Trouble::outside(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("{provider} cannot be connected yet"),
        "It needs an OAuth app first: whoever runs this installation can set one up for everybody, and an owner or admin one \
         of your organisation's own, under Settings.",
    )
}

fn not_asked(why: NotAsked) -> Trouble {
    match why {
        NotAsked::Removed => Trouble::outside(
            StatusCode::GONE,
            "This connector was removed",
            "There is nothing to connect any more. Ask whoever sent you the link.",
        ),
        NotAsked::NoAdapter(name) => no_app(&name),
        NotAsked::NoAccount(_) => Trouble::outside(
            StatusCode::UNPROCESSABLE_ENTITY,
            "The account is missing",
            "Go back and say which account it is.",
        ),
        NotAsked::Ours(error) => error.into(),
    }
}
