//! The routes of the pages, each with what it takes to use it. What is declared here is what is enforced: a route that is
//! not declared cannot be added, and a test holds the whole list against a table of roles.

use std::{collections::HashMap, fmt, sync::Arc};

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    handler::Handler,
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Redirect, Response},
    routing::{MethodRouter, get, post},
};
use axum_extra::extract::cookie::CookieJar;
use holdfast_core::Role;
use holdfast_store::{By, ByKind, Surface, acting};
use tower_http::set_header::SetResponseHeaderLayer;
use tracing::error;

use super::{form::from_elsewhere, person::Person, settings::set_up_address, throttle, trouble::Trouble};
use crate::app::App;

/// What it takes to use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: also somebody who is signed out. What the page itself asks for (a token, a link) is its own matter.
    Nothing,
    /// A link that was given to somebody, or the browser that it was opened in. The page itself looks at both, and has its
    /// own words for whoever comes otherwise.
    Link,
    /// Somebody who is signed in, also before they have the second factor that their org asks for: their own account.
    Account,
    /// Somebody who is signed in.
    SignedIn,
    /// Somebody whose role is this, or more.
    Role(Role),
    /// Somebody who runs the instance. To others the page does not exist.
    Operator,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// GET or POST.
    pub method: Method,
    /// As axum matches it.
    pub path: &'static str,
    /// What it takes.
    pub needs: Needs,
}

/// Routes, while they are put together.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<Arc<App>>,
    declared: Vec<Declared>,
}

impl Routes {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A page. It changes nothing.
    pub(crate) fn get<H, T>(self, path: &'static str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        self.add(Method::GET, path, needs, get(handler))
    }

    /// A form. Its handler takes [`super::form::Posted`], which holds it to its CSRF token.
    pub(crate) fn post<H, T>(self, path: &'static str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        self.add(Method::POST, path, needs, post(handler))
    }

    /// No other page learns the addresses of these: secrets stand in them.
    pub(crate) fn referring_nobody(mut self) -> Self {
        let nobody = HeaderValue::from_static("no-referrer");
        self.router = self.router.layer(SetResponseHeaderLayer::overriding(header::REFERRER_POLICY, nobody));
        self
    }

    /// These and the others.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.declared.extend(other.declared);
        self.router = self.router.merge(other.router);
        self
    }

    /// What was declared.
    pub(crate) fn declared(self) -> Vec<Declared> {
        self.declared
    }

    /// The router, behind its guard.
    pub(crate) fn guarded(self, app: &Arc<App>) -> Router<Arc<App>> {
        let mut needs: HashMap<&'static str, Vec<(Method, Needs)>> = HashMap::new();
        for declared in self.declared {
            needs.entry(declared.path).or_default().push((declared.method, declared.needs));
        }
        let guard = Guard { app: Arc::clone(app), needs: Arc::new(needs) };
        self.router.route_layer(from_fn_with_state(guard, stand_guard))
    }

    fn add(mut self, method: Method, path: &'static str, needs: Needs, handler: MethodRouter<Arc<App>>) -> Self {
        self.router = self.router.route(path, handler);
        self.declared.push(Declared { method, path, needs });
        self
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.declared).finish()
    }
}

#[derive(Clone)]
struct Guard {
    app: Arc<App>,
    needs: Arc<HashMap<&'static str, Vec<(Method, Needs)>>>,
}

impl Guard {
    /// What this request takes; `None`: the path has no such method.
    fn of(&self, request: &Request) -> Option<Needs> {
        let path = request.extensions().get::<MatchedPath>()?;
        // A page's head is the page without its body.
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let declared = self.needs.get(path.as_str())?;
        declared.iter().find(|(of, _)| of == method).map(|(_, needs)| *needs)
    }
}

/// Lets through who may, and what they change is theirs. Handlers find the person whom it has looked up in the request.
async fn stand_guard(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let known = request.extensions().get::<MatchedPath>().is_some_and(|path| guard.needs.contains_key(path.as_str()));
    let Some(needs) = guard.of(&request) else {
        if known {
            // The router answers that itself.
            return next.run(request).await;
        }
        error!("a page has no entry in the table of routes");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let address = throttle::from(request.extensions());
    let visitor = |surface| By {
        kind: ByKind::Visitor,
        id: None,
        name: "Somebody who is not signed in".to_owned(),
        surface,
        address: address.clone(),
    };
    if needs == Needs::Link {
        return acting(visitor(Surface::Link), next.run(request)).await;
    }
    if request.method() == Method::POST && from_elsewhere(request.headers()) {
        return Trouble::Forged.into_response();
    }
    if needs == Needs::Nothing {
        return acting(visitor(Surface::Web), next.run(request)).await;
    }
    let jar = CookieJar::from_headers(request.headers());
    let person = match Person::find(&guard.app, &jar).await {
        Ok(Some(person)) => person,
        Ok(None) => return super::person::signed_out(&guard.app, &request).into_response(),
        Err(trouble) => return trouble.into_response(),
    };
    if needs != Needs::Account && person.lacks_second_factor() {
        let wanted = request.uri().path_and_query().filter(|_| request.method() == Method::GET);
        return Redirect::to(&set_up_address(wanted.map_or("/", |path| path.as_str()))).into_response();
    }
    let allowed = match needs {
        Needs::Nothing | Needs::Link | Needs::Account | Needs::SignedIn => Ok(()),
        Needs::Role(role) => person.needs(role),
        Needs::Operator => person.needs_operator(),
    };
    if let Err(trouble) = allowed {
        return trouble.into_response();
    }
    let by = By {
        kind: if needs == Needs::Operator { ByKind::Operator } else { ByKind::Person },
        id: Some(person.user.id.clone()),
        name: person.actor(),
        ..visitor(Surface::Web)
    };
    request.extensions_mut().insert(person);
    acting(by, next.run(request)).await
}
