//! The mailbox of a demo: every mail that the service sent, as its reader sees it.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderValue, header},
    response::{Html, IntoResponse, Response},
};
use serde::Serialize;

use super::Demo;
use crate::{
    app::App,
    mail::Outgoing,
    ui::{
        live,
        moment::Moment,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
};

/// Of the HTML part: nothing is loaded and no script runs; its links lead the whole page on. Of the same origin, so that
/// the page around it can see how high it is.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; form-action 'none'; \
     sandbox allow-same-origin allow-top-navigation-by-user-activation allow-popups",
);

pub(super) fn routes() -> Routes {
    Routes::new().get("/demo/mailbox", Needs::SignedIn, list).get("/demo/mailbox/{id}", Needs::SignedIn, show).get(
        "/demo/mailbox/{id}/html",
        Needs::SignedIn,
        html,
    )
}

#[derive(Serialize)]
struct Line {
    id: String,
    to: String,
    subject: String,
    at: Moment,
}

#[derive(Serialize)]
struct ListPage {
    /// Where it follows what happens.
    events: String,
    mails: Vec<Line>,
    /// One is on its way.
    comes: bool,
}

#[derive(Serialize)]
struct MailPage {
    events: String,
    line: Line,
    from: String,
    text: String,
    headers: Vec<(String, String)>,
}

fn line(app: &App, mail: &Outgoing) -> Line {
    Line {
        id: mail.message_id.trim_matches(['<', '>']).to_owned(),
        to: mail.to.clone(),
        subject: mail.subject.clone(),
        at: Moment::new(mail.date, app.seams.clock.now()),
    }
}

async fn list(State(app): State<Arc<App>>, person: Person) -> Result<Response, Trouble> {
    let demo = app.demo.get().ok_or_else(|| Trouble::not_found(&person))?;
    let events = live::address(None, app.seams.clock.now());
    let comes = person.demo.as_ref().is_some_and(|bar| bar.mail_comes);
    let page = ListPage { events, comes, mails: demo.mailbox.messages().iter().map(|mail| line(&app, mail)).collect() };
    Ok(View::of(&person, Here::Nowhere, "pages/demo/mailbox.html", "Mailbox", &page).show(&app))
}

async fn show(State(app): State<Arc<App>>, mut person: Person, Path(id): Path<String>) -> Result<Response, Trouble> {
    let (demo, mail) = find(&app, &person, &id)?;
    demo.read.lock().expect("no panic happens while it is held").insert(mail.message_id.clone());
    // The bar over this very page goes on to the next step.
    person.demo = Some(Arc::new(demo.bar(&app, person.org()).await?));
    let page = MailPage {
        events: live::address(None, app.seams.clock.now()),
        line: line(&app, &mail),
        from: mail.from.clone(),
        text: mail.text.clone(),
        headers: mail.headers.clone(),
    };
    Ok(View::of(&person, Here::Nowhere, "pages/demo/mail.html", &mail.subject, &page).framing().show(&app))
}

async fn html(State(app): State<Arc<App>>, person: Person, Path(id): Path<String>) -> Result<Response, Trouble> {
    let (_, mail) = find(&app, &person, &id)?;
    let headers =
        [(header::CONTENT_SECURITY_POLICY, POLICY), (header::X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"))];
    // In a frame, a link would open within it.
    let html = mail.html.replacen("<head>", "<head><base target=\"_top\">", 1);
    Ok((headers, Html(html)).into_response())
}

fn find<'a>(app: &'a App, person: &Person, id: &str) -> Result<(&'a Demo, Arc<Outgoing>), Trouble> {
    let found = app.demo.get().and_then(|demo| demo.mailbox.find(id).map(|mail| (demo, mail)));
    found.ok_or_else(|| Trouble::not_found(person))
}
