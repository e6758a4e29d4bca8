//! Templates, and the frame that every page stands in.

use std::sync::Arc;

use anyhow::Context as _;
use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{Html, IntoResponse, Response},
};
use holdfast_core::{OrgId, ports::StoreError};
use rust_embed::Embed;
use serde::Serialize;
use tera::{Context, Tera};
use tracing::error;

use super::{
    assets, is_api,
    person::Person,
    trouble::{Trouble, TroublePage, sign_in_address},
};
use crate::{
    app::App,
    brand::{self, Colour},
    demo::Bar,
    mail,
    problem::Code,
};

#[derive(Embed)]
#[folder = "../../templates"]
struct Templates;

/// All templates, parsed.
pub struct Views {
    tera: Tera,
    style: String,
    script: String,
}

impl Views {
    /// Parses them.
    pub fn load() -> anyhow::Result<Self> {
        let mut tera = Tera::default();
        mail::register_filters(&mut tera);
        let mut all = Vec::new();
        for name in Templates::iter() {
            let file = Templates::get(&name).context("a template that was listed is there")?;
            let text = String::from_utf8(file.data.into_owned()).with_context(|| format!("template {name}"))?;
            all.push((name.into_owned(), text));
        }
        tera.add_raw_templates(all).context("the templates cannot be read")?;
        Ok(Self { tera, style: assets::address("style.css"), script: assets::address("app.js") })
    }

    /// A template by its name below `templates/`, with this context.
    pub fn render(&self, template: &str, context: &impl Serialize) -> anyhow::Result<String> {
        let context = Context::from_serialize(context).with_context(|| format!("the context of {template}"))?;
        self.tera.render(template, &context).with_context(|| format!("template {template}"))
    }
}

/// Where a page belongs in the navigation.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Here {
    /// In none of its places.
    Nowhere,
    /// Connectors.
    Connectors,
    /// Agents.
    Agents,
    /// Deliveries.
    Deliveries,
    /// Jobs.
    Jobs,
    /// Settings and account.
    Settings,
}

/// A page to be shown: its frame, and its own context, which templates find as `page`.
pub(crate) struct View<'a, C> {
    template: &'static str,
    title: &'a str,
    here: Here,
    status: StatusCode,
    person: Option<&'a Person>,
    csrf: &'a str,
    leads_to: Option<&'a str>,
    frames: bool,
    brand: Option<&'a Brand>,
    framed_by: Option<&'a str>,
    page: &'a C,
}

/// Whose page it is to somebody who has no account here.
#[derive(Serialize)]
pub(crate) struct Brand {
    name: String,
    /// Where the stylesheet of its colour is.
    style: Option<String>,
    /// Whose pages may frame a page of it, as a content security policy spells them.
    #[serde(skip)]
    origins: String,
}

impl Brand {
    /// An org's.
    pub(crate) async fn of(app: &App, org: &OrgId) -> Result<Self, StoreError> {
        let face = app.store.org_face(org).await?.unwrap_or_default();
        let colour = face.colour.as_deref().and_then(Colour::parse);
        let all = app.config.connect.return_origins.iter().map(|origin| origin.origin().ascii_serialization());
        let origins: Vec<_> = all.chain(face.return_origins).collect();
        Ok(Self { name: face.name, style: colour.map(brand::stylesheet), origins: origins.join(" ") })
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl<'a, C: Serialize> View<'a, C> {
    /// For somebody who is signed in.
    pub(crate) fn of(person: &'a Person, here: Here, template: &'static str, title: &'a str, page: &'a C) -> Self {
        let (csrf, person) = (person.csrf.as_str(), Some(person));
        let status = StatusCode::OK;
        let (leads_to, frames, brand, framed_by) = (None, false, None, None);
        Self { template, title, here, status, person, csrf, leads_to, frames, brand, framed_by, page }
    }

    /// For anybody; `csrf` is a [`super::person::Visitor`]'s.
    pub(crate) fn plain(csrf: &'a str, template: &'static str, title: &'a str, page: &'a C) -> Self {
        let (here, status, person) = (Here::Nowhere, StatusCode::OK, None);
        let (leads_to, frames, brand, framed_by) = (None, false, None, None);
        Self { template, title, here, status, person, csrf, leads_to, frames, brand, framed_by, page }
    }

    /// With an org's name and colour on top.
    pub(crate) fn branded(mut self, brand: &'a Brand) -> Self {
        self.brand = Some(brand);
        self
    }

    /// The same, and pages of the org's origins may frame it.
    pub(crate) fn framed_by(mut self, brand: &'a Brand) -> Self {
        self.framed_by = Some(&brand.origins).filter(|origins| !origins.is_empty()).map(String::as_str);
        self.branded(brand)
    }

    /// With another status than 200.
    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Its forms may lead to these sources too, as a content security policy spells them. Browsers hold every redirect
    /// after a form to `form-action`.
    pub(crate) fn leads_to(mut self, sources: impl Into<Option<&'a str>>) -> Self {
        self.leads_to = sources.into();
        self
    }

    /// It shows another page of ours in a frame.
    pub(crate) fn framing(mut self) -> Self {
        self.frames = true;
        self
    }

    /// The page.
    pub(crate) fn show(self, app: &App) -> Response {
        let frame = Frame {
            title: self.title,
            here: self.here,
            csrf: self.csrf,
            style: &app.views.style,
            script: &app.views.script,
            person: self.person.map(|person| Shown {
                name: person.user.shown(),
                email: &person.user.email,
                org: &person.user.org_name,
                role: person.user.role.as_str(),
                operator: person.user.operator,
                others: !person.session.also.is_empty(),
                member: person.may(holdfast_core::Role::Member),
                admin: person.may(holdfast_core::Role::Admin),
                owner: person.may(holdfast_core::Role::Owner),
            }),
            demo: self.person.and_then(|person| person.demo.as_deref()),
            brand: self.brand,
        };
        let context = Whole { frame, page: self.page };
        match app.views.render(self.template, &context) {
            Ok(html) => {
                let policy = policy(self.leads_to, self.frames, self.framed_by);
                let mut response =
                    (self.status, [(header::CONTENT_SECURITY_POLICY, policy)], Html(html)).into_response();
                if self.framed_by.is_some() {
                    // The policy says by whom; the older header could only say nobody.
                    response.extensions_mut().insert(Framed);
                }
                response
            }
            Err(cause) => {
                error!(error = format!("{cause:#}"), "a page could not be rendered");
                (StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong on our side.").into_response()
            }
        }
    }
}

#[derive(Serialize)]
struct Whole<'a, C> {
    frame: Frame<'a>,
    page: &'a C,
}

/// What stands around every page; templates find it as `frame`.
#[derive(Serialize)]
struct Frame<'a> {
    title: &'a str,
    here: Here,
    csrf: &'a str,
    style: &'a str,
    script: &'a str,
    person: Option<Shown<'a>>,
    /// Where this is a demo.
    demo: Option<&'a Bar>,
    /// Whose page it is, where that is not ours.
    brand: Option<&'a Brand>,
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own that templates ask")]
struct Shown<'a> {
    name: &'a str,
    email: &'a str,
    org: &'a str,
    role: &'a str,
    operator: bool,
    others: bool,
    /// Whether they may do what a member may, and so on.
    member: bool,
    admin: bool,
    owner: bool,
}

/// On an answer that pages of others may frame, by its policy.
#[derive(Clone, Copy)]
pub(super) struct Framed;

fn policy(leads_to: Option<&str>, frames: bool, framed_by: Option<&str>) -> HeaderValue {
    let more = leads_to.map(|sources| format!(" {sources}")).unwrap_or_default();
    let frames = if frames { " frame-src 'self';" } else { "" };
    let policy = format!(
        "default-src 'none';{frames} style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'{more}; base-uri 'none'; frame-ancestors {}",
        framed_by.unwrap_or("'none'")
    );
    HeaderValue::try_from(policy).expect("sources are a valid header")
}

/// Makes a page of a [`Trouble`], and of what went wrong in our own code where people look.
pub(crate) async fn troubles(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let for_people = !is_api(request.uri().path());
    let id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let mut response = next.run(request).await;
    let panicked = response.extensions().get::<Code>().is_some_and(|code| code.0 == "internal");
    let trouble = match response.extensions_mut().remove::<Trouble>() {
        Some(trouble) => trouble,
        None if for_people && panicked => Trouble::Told {
            status: response.status(),
            title: "Something went wrong on our side".to_owned(),
            way_on: "Try again. If it stays so, the number below finds it in the log.".to_owned(),
            way: None,
            person: None,
        },
        None => return response,
    };
    let (status, title, way_on) = trouble.words();
    let sign_in = match &trouble {
        Trouble::SignedOut { back, .. } => Some(sign_in_address(back)),
        _ => None,
    };
    let account = !matches!(trouble, Trouble::Outside { .. });
    let page = TroublePage { title: title.clone(), way_on, sign_in, account, request: id, way: trouble.way().cloned() };
    let view = match trouble.person() {
        Some(person) => View::of(person, Here::Nowhere, "pages/trouble.html", &title, &page),
        None => View::plain("", "pages/trouble.html", &title, &page),
    };
    view.status(status).show(&app)
}
