//! The server: from a builder to a port, and the way of a request to its imitation.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::State;
use axum::http::Method;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::response::Response;
use axum::serve::ListenerExt as _;
use chrono::{DateTime, Utc};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use url::{Host, Url};

use crate::control;
use crate::counters::Counters;
use crate::desk::{Start, World, is_dns_label, locked};
use crate::events::{self, EventAttempt, EventOrder};
use crate::freshdesk::{self, Freshdesk};
use crate::front::{self, FrontRig};
use crate::generic::{self, GenericRig};
use crate::google::{self, GoogleRig};
use crate::gorgias::{self, Gorgias};
use crate::handle::Helpdesk;
use crate::http::{Answer, Request, pairs};
use crate::keep::{Keeper, State as Kept};
use crate::options::{Options, Scene};
use crate::shopify::{self, Shop};
use crate::zendesk;
use crate::zendesk::consent::{ConsentRefused, consent};

/// No request of any provider comes near this.
const BODY_LIMIT_BYTES: usize = 4 << 20;
/// Requests under way get so long when the sandbox is stopped.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How a sandbox starts.
#[derive(Debug, Clone)]
pub struct Builder {
    ip: IpAddr,
    port: u16,
    public_url: Option<String>,
    home: Option<String>,
    scene: Scene,
    options: Options,
    redirect_uris: Vec<String>,
    file: Option<PathBuf>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            ip: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            public_url: None,
            home: None,
            scene: Scene::default(),
            options: Options::default(),
            redirect_uris: Vec::new(),
            file: None,
        }
    }
}

impl Builder {
    /// The port; 0, the default, takes a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The address to bind; 127.0.0.1 when not called.
    #[must_use]
    pub fn ip(mut self, ip: IpAddr) -> Self {
        self.ip = ip;
        self
    }

    /// How callers reach the sandbox, for the links in its answers; `http://{ip}:{port}` when not called.
    #[must_use]
    pub fn public_url(mut self, url: impl Into<String>) -> Self {
        self.public_url = Some(url.into().trim_end_matches('/').to_owned());
        self
    }

    /// Where the pages lead back to: the address of the Holdfast that this is for.
    #[must_use]
    pub fn home(mut self, url: impl Into<String>) -> Self {
        self.home = Some(url.into());
        self
    }

    /// What new helpdesks hold.
    #[must_use]
    pub fn scene(mut self, scene: Scene) -> Self {
        self.scene = scene;
        self
    }

    /// All switches at once.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Changes some of the switches.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// One more https address that the OAuth client may send people back to; loopback ones always work.
    #[must_use]
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.redirect_uris.push(uri.into());
        self
    }

    /// Keeps everything in this file, and goes on from what is there: what was issued is still honoured, what was spent
    /// stays spent. Options of before are kept too.
    #[must_use]
    pub fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Binds and serves, on a task of the current runtime. A file that holds something else is an error, and is left as
    /// it is.
    pub async fn start(self) -> io::Result<Sandbox> {
        let listener = TcpListener::bind((self.ip, self.port)).await?;
        let addr = listener.local_addr()?;
        let loopback_only = self.public_url.is_none() && self.ip.is_loopback();
        let url = self.public_url.unwrap_or_else(|| format!("http://{addr}"));
        let world = Arc::new(World::new(Start {
            loopback_only,
            url,
            home: self.home,
            scene: self.scene,
            options: self.options,
            redirect_uris: self.redirect_uris,
        }));
        if let Some(file) = self.file {
            if let Some(kept) = Kept::read(&file)? {
                world.restore(kept);
            }
            world.keeper.get_or_init(|| Keeper::start(&world, file));
        }
        let router = Router::new().fallback(handle).with_state(Arc::clone(&world));
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!("could not set TCP_NODELAY: {error}");
            }
        });
        let task = tokio::spawn(async move {
            let served = axum::serve(listener, router)
                .with_graceful_shutdown(async move {
                    // A dropped sender means a dropped sandbox, which stops as well.
                    stopped.await.ok();
                })
                .await;
            if let Err(error) = served {
                tracing::error!("the sandbox stopped serving: {error}");
            }
        });
        Ok(Sandbox { world, addr, stop: Some(stop), task })
    }
}

/// A running sandbox. Dropping it stops it.
#[derive(Debug)]
pub struct Sandbox {
    world: Arc<World>,
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Sandbox {
    /// Starts to build one.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.world.start.url
    }

    /// Lets a provider send an event, as often as it would; every attempt with its answer. An error: the order makes no sense.
    pub async fn send_event(&self, order: &EventOrder) -> Result<Vec<EventAttempt>, String> {
        events::send(&self.world, order).await
    }

    /// What the operator setting `providers.zendesk.base_url_override` has to be.
    pub fn zendesk_override(&self) -> String {
        format!("{}/zendesk/{{account}}", self.world.start.url)
    }

    /// What the operator setting `providers.freshdesk.base_url_override` has to be.
    pub fn freshdesk_override(&self) -> String {
        format!("{}/freshdesk/{{account}}", self.world.start.url)
    }

    /// A Freshdesk account that exists: `acme` and `globex` do from the start.
    pub fn freshdesk(&self, name: &str) -> Option<Freshdesk> {
        let account = self.world.freshdesk.find(name, &self.world.start.url, self.world.clock.now_ms())?;
        Some(Freshdesk::new(Arc::clone(&self.world), account))
    }

    /// A Freshdesk account, made when there is none of that name; `None` when the name is no DNS label.
    pub fn create_freshdesk(&self, name: &str) -> Option<Freshdesk> {
        let (url, now_ms) = (&self.world.start.url, self.world.clock.now_ms());
        let account = is_dns_label(name).then(|| self.world.freshdesk.create(name, url, now_ms))?;
        Some(Freshdesk::new(Arc::clone(&self.world), account))
    }

    /// Closes a Freshdesk account: its address answers 404 with a page. False when there was none.
    pub fn close_freshdesk(&self, name: &str) -> bool {
        self.world.freshdesk.close(name)
    }

    /// What the operator setting `providers.gorgias.base_url_override` has to be.
    pub fn gorgias_override(&self) -> String {
        format!("{}/gorgias/{{account}}", self.world.start.url)
    }

    /// A Gorgias account that exists: `acme` and `globex` do from the start.
    pub fn gorgias(&self, name: &str) -> Option<Gorgias> {
        let place = self.world.gorgias.find(name, self.world.clock.now_ms())?;
        Some(Gorgias::new(Arc::clone(&self.world), place))
    }

    /// A Gorgias account, made when there is none of that name; `None` when the name is no DNS label.
    pub fn create_gorgias(&self, name: &str) -> Option<Gorgias> {
        let place = is_dns_label(name).then(|| self.world.gorgias.create(name, self.world.clock.now_ms()))?;
        Some(Gorgias::new(Arc::clone(&self.world), place))
    }

    /// Closes a Gorgias account: its address answers 404 with a page. False when there was none.
    pub fn close_gorgias(&self, name: &str) -> bool {
        self.world.gorgias.close(name)
    }

    /// What the operator setting `providers.shopify.base_url_override` has to be.
    pub fn shopify_override(&self) -> String {
        format!("{}/shopify/{{account}}", self.world.start.url)
    }

    /// A shop that exists: `acme` and `globex` do from the start.
    pub fn shop(&self, name: &str) -> Option<Shop> {
        let place = self.world.shops.find(name)?;
        Some(Shop::new(Arc::clone(&self.world), place))
    }

    /// A shop, made when there is none of that name; `None` when no shop has such a name.
    pub fn create_shop(&self, name: &str) -> Option<Shop> {
        let place = self.world.shops.create(name)?;
        Some(Shop::new(Arc::clone(&self.world), place))
    }

    /// Closes a shop: its address answers 404. False when there was none.
    pub fn close_shop(&self, name: &str) -> bool {
        self.world.shops.close(name)
    }

    /// What the operator setting `providers.google.base_url_override` has to be.
    pub fn google_override(&self) -> String {
        format!("{}/google", self.world.start.url)
    }

    /// Its Google.
    pub fn google(&self) -> GoogleRig {
        GoogleRig::new(Arc::clone(&self.world))
    }

    /// What the operator setting `providers.front.base_url_override` has to be.
    pub fn front_override(&self) -> String {
        format!("{}/front", self.world.start.url)
    }

    /// Its Front.
    pub fn front(&self) -> FrontRig {
        FrontRig::new(Arc::clone(&self.world))
    }

    /// What the operator setting `providers.ID.base_url_override` has to be, for a provider that is described in a file.
    pub fn generic_override(&self) -> String {
        format!("{}/generic", self.world.start.url)
    }

    /// The services behind it.
    pub fn generic(&self) -> GenericRig {
        GenericRig::new(Arc::clone(&self.world))
    }

    /// What the operator setting `providers.pipedrive.base_url_override` has to be.
    pub fn pipedrive_override(&self) -> String {
        format!("{}/pipedrive", self.world.start.url)
    }

    /// Its Pipedrive.
    pub fn pipedrive(&self) -> crate::PipedriveRig {
        crate::PipedriveRig::new(Arc::clone(&self.world))
    }

    /// A helpdesk that exists: `acme` and `globex` do from the start.
    pub fn helpdesk(&self, name: &str) -> Option<Helpdesk> {
        let desk = self.world.find(name)?;
        Some(Helpdesk::new(Arc::clone(&self.world), desk))
    }

    /// All helpdesks, by name.
    pub fn helpdesks(&self) -> Vec<Helpdesk> {
        let desks = self.world.all().into_iter();
        desks.map(|desk| Helpdesk::new(Arc::clone(&self.world), desk)).collect()
    }

    /// A helpdesk, made when there is none of that name; `None` when the name is no DNS label.
    pub fn create_helpdesk(&self, name: &str) -> Option<Helpdesk> {
        let desk = self.world.create(name)?;
        Some(Helpdesk::new(Arc::clone(&self.world), desk))
    }

    /// Closes a helpdesk: its address answers "No help desk at this address". False when there was none.
    pub fn close_helpdesk(&self, name: &str) -> bool {
        self.world.close(name)
    }

    /// The numbers of all helpdesks together.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for desk in self.world.all() {
            sum += desk.counts.read();
        }
        sum
    }

    /// The most refresh requests, to all helpdesks, that were under way at the same time.
    pub fn most_exchanges_at_once(&self) -> u64 {
        self.world.at_once.most()
    }

    /// Moves the sandbox's clock forward.
    pub fn advance(&self, by: Duration) {
        self.world.clock.advance(by);
    }

    /// What its clock says.
    pub fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.world.clock.now_ms()).unwrap_or_default()
    }

    /// The switches.
    pub fn options(&self) -> Options {
        self.world.options()
    }

    /// Changes switches while it runs.
    pub fn set_options(&self, options: Options) {
        self.world.set_options(options);
    }

    /// The client's secret from now on, at all providers, and one more that is accepted as well.
    pub fn set_client_secret(&self, current: &str, next: Option<&str>) {
        locked(&self.world.client).set(current.to_owned(), next.map(str::to_owned));
    }

    /// One more client at Zendesk, until the sandbox ends. What is granted to one client is refused to another.
    pub fn register_client(&self, id: &str, secret: &str) {
        locked(&self.world.client).register(id, secret);
    }

    /// Allows all of the authorisation request as `user` (an id, an address or the start of a name) and answers the
    /// address that the browser would be sent back to.
    ///
    /// A shop's request is allowed as the shop, whoever `user` is.
    pub fn consent(&self, authorize_url: &str, user: &str) -> Result<String, ConsentRefused> {
        decide(&self.world, authorize_url, Some(user))
    }

    /// Denies it.
    pub fn deny(&self, authorize_url: &str) -> Result<String, ConsentRefused> {
        decide(&self.world, authorize_url, None)
    }

    /// Back to the first moment: tokens, tickets, clock, switches, trouble, counters.
    pub fn reset(&self) {
        self.world.reset();
    }

    /// Returns once everything up to now is in its file, where it has one. What a request changes is there before it is
    /// answered; what these methods change waits for the next request, or for this.
    pub async fn keep(&self) {
        self.world.keep().await;
    }

    /// Stops listening, waits a little for requests under way, and keeps what there is.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        if tokio::time::timeout(STOP_PATIENCE, &mut self.task).await.is_err() {
            self.task.abort();
        }
        self.world.keep().await;
    }

    /// Serves until the process ends or the socket fails: for a binary.
    pub async fn serve(mut self) {
        (&mut self.task).await.ok();
    }
}

/// What the page of an authorisation request does when it is allowed as `user`, or denied. Whose page it is, its prefix
/// says.
pub(crate) fn decide(world: &World, authorize_url: &str, user: Option<&str>) -> Result<String, ConsentRefused> {
    match Url::parse(authorize_url) {
        Ok(url) if url.path().starts_with("/front/") => front::consent::consent(world, authorize_url, user),
        Ok(url) if url.path().starts_with("/google/") => google::consent::consent(world, authorize_url, user, |_| true),
        Ok(url) if url.path().starts_with("/gorgias/") => gorgias::consent::consent(world, &url, user),
        Ok(url) if url.path().starts_with("/generic/") => generic::consent(world, &url, user),
        Ok(url) if url.path().starts_with("/shopify/") => shopify::consent::consent(world, &url, user.is_some()),
        Ok(url) if url.path().starts_with("/pipedrive/") => crate::pipedrive::consent::consent(world, &url, user),
        _ => consent(world, authorize_url, user),
    }
}

async fn handle(State(world): State<Arc<World>>, request: axum::extract::Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Some(refusal) = from_elsewhere(&world, &parts) {
        return refusal.into_response();
    }
    let mut path: Vec<String> =
        parts.uri.path().split('/').filter(|segment| !segment.is_empty()).map(percent_decoded).collect();
    let body = match zendesk::early(&world, &path, &parts, body).await {
        ControlFlow::Break(response) => return response,
        ControlFlow::Continue(body) => body,
    };
    let Ok(body) = to_bytes(body, BODY_LIMIT_BYTES).await else {
        return Answer::text(413, "Request Entity Too Large").into_response();
    };
    let prefix = if path.is_empty() { String::new() } else { path.remove(0) };
    let request = Request {
        query: pairs(parts.uri.query().unwrap_or_default().as_bytes()),
        method: parts.method,
        headers: parts.headers,
        path,
        body,
    };
    let changes = !matches!(request.method, Method::GET | Method::HEAD);
    match prefix.as_str() {
        "zendesk" => zendesk::serve(world, request).await,
        "freshdesk" => freshdesk::serve(world, request).await,
        "shopify" => shopify::serve(world, request).await,
        "front" => front::serve(world, request).await,
        "generic" => generic::serve(world, request).await,
        "google" => google::serve(world, request).await,
        "gorgias" => gorgias::serve(world, request).await,
        "pipedrive" => crate::pipedrive::serve(world, request).await,
        "control" if request.method == Method::POST && request.path == ["events"] => send_event(&world, &request).await,
        "control" => {
            let answer = control::serve(&world, &request);
            if changes {
                world.keep().await;
            }
            answer.into_response()
        }
        "" => Answer::empty(302).header("location", "/control").into_response(),
        _ => {
            let places = "/zendesk/{subdomain}, /freshdesk/{domain}, /front/{host}, /generic/{host}, /google/{host}, \
                          /gorgias/{subdomain}, /pipedrive/{host}, /shopify/{shop} and /control";
            Answer::text(404, &format!("There is {places} here")).into_response()
        }
    }
}

/// An event to be sent, and how it was answered.
async fn send_event(world: &World, request: &Request) -> Response {
    let order = serde_json::from_slice::<EventOrder>(&request.body).map_err(|error| error.to_string());
    let sent = match order {
        Ok(order) => events::send(world, &order).await,
        Err(error) => Err(error),
    };
    match sent {
        Ok(attempts) => Answer::json(200, serde_json::json!({ "attempts": attempts })),
        Err(why) => Answer::json(400, events::refused(&why)),
    }
    .into_response()
}

/// Pages of other sites press no buttons here; and on loopback only loopback names are answered to, so that no site whose
/// name is made to point here (DNS rebinding) reads anything.
fn from_elsewhere(world: &World, parts: &Parts) -> Option<Answer> {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if world.start.loopback_only {
        let host = header("host").or(parts.uri.authority().map(Authority::as_str));
        let host = host.and_then(|host| Url::parse(&format!("http://{host}")).ok());
        let ours = host.is_some_and(|url| match url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        });
        if !ours {
            return Some(Answer::text(421, "This sandbox is on loopback; call it by 127.0.0.1 or localhost"));
        }
    }
    let changes = !matches!(parts.method, Method::GET | Method::HEAD);
    (changes && header("sec-fetch-site") == Some("cross-site"))
        .then(|| Answer::text(403, "Another site has sent this; nothing was changed"))
}

fn percent_decoded(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = |at: usize| tail.get(at).and_then(|c| char::from(*c).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (first, hex(0), hex(1)) {
            bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
