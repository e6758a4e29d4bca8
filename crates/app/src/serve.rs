//! A service that answers: listener, scheduler, and an end that cuts nothing off.

mod heads;

pub(crate) use heads::Peer;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderName, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures::FutureExt as _;
use holdfast_store::ServingLock;
use tokio::net::TcpListener;
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer},
};
use tracing::{debug, error, info, warn};

use heads::HeadsInTime;

use crate::{
    admin, agents, api,
    app::{App, CLOCK_TOLERANCE_SECS},
    config::is_loopback,
    hooks, jobs, mail,
    metrics::UPKEEP_INTERVAL,
    ops,
    problem::Problem,
    recovery, ui, usage,
};

/// Everything that is served.
pub fn router(app: &Arc<App>) -> Router {
    let id = HeaderName::from_static("x-request-id");
    Router::new()
        .nest("/api/v1", api::router(Arc::clone(app)))
        .merge(hooks::router(Arc::clone(app)))
        .merge(ui::router(Arc::clone(app)))
        .merge(ops::router(Arc::clone(app)))
        .layer(middleware::from_fn_with_state(app.config.is_loopback(), own_host))
        .layer(middleware::from_fn(clean_path))
        .layer(CatchPanicLayer::custom(|_| panicked()))
        .layer(middleware::from_fn_with_state(Arc::clone(app), ui::view::troubles))
        .layer(middleware::from_fn_with_state(Arc::clone(app), ui::armour::wear))
        .layer(middleware::from_fn(log))
        .layer(PropagateRequestIdLayer::new(id.clone()))
        .layer(SetRequestIdLayer::new(id, MakeRequestUuid))
}

fn panicked() -> Response {
    let detail = "Something went wrong on our side; the request id finds it in the log.";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
}

/// On loopback only loopback names are answered to: a page of another site whose name is made to point here (DNS
/// rebinding) reaches nothing.
async fn own_host(State(loopback): State<bool>, request: Request, next: Next) -> Response {
    // HTTP/2 has it in the request line.
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).or(authority);
    let url = host.and_then(|host| url::Url::parse(&format!("http://{host}")).ok());
    if loopback && !url.as_ref().is_some_and(is_loopback) {
        let detail = "This instance is on loopback; call it by 127.0.0.1 or localhost, or set public_url.";
        return refused(&request, Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail));
    }
    next.run(request).await
}

/// A path or query that is no text names nothing here; PostgreSQL could not even look for it. What is passed on to a
/// provider is the provider's to read.
async fn clean_path(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<axum::extract::MatchedPath>();
    if route.is_some_and(|route| api::passes_on(route.as_str())) {
        return next.run(request).await;
    }
    let uri = request.uri();
    let text = |part: &str| percent_decoded(part).is_some_and(|text| !text.contains('\0'));
    if !text(uri.path()) {
        return refused(&request, Problem::not_found("thing"));
    }
    if !uri.query().is_none_or(text) {
        let detail = "The query holds bytes that are no text.";
        return refused(&request, Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail));
    }
    next.run(request).await
}

/// A problem for programs, a page for people.
fn refused(request: &Request, problem: Problem) -> Response {
    if ui::is_api(request.uri().path()) { problem.into_response() } else { ui::refused(&problem).into_response() }
}

fn percent_decoded(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// One line a request: method, route and status. Never the path itself, which may hold a connect link, nor a query.
async fn log(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request.extensions().get::<axum::extract::MatchedPath>().map(|path| path.as_str().to_owned());
    let id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let response = next.run(request).await;
    let (status, route) = (response.status().as_u16(), route.as_deref().unwrap_or("(no route)"));
    // A provider's bad day is its callers' to see; our log would only repeat it.
    if status >= 500 && !api::is_providers(&response) {
        warn!(http.method = %method, http.route = route, http.status = status, request.id = id, "{method} {route}: {status}");
    } else {
        debug!(http.method = %method, http.route = route, http.status = status, request.id = id, "{method} {route}: {status}");
    }
    response
}

/// Opens the port, with an error that says what to do: `flag` chooses another.
pub async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; is another service there? Choose another with {flag}"))
}

/// Serves until `end`, then drains: no new requests, the ones under way are answered, and no exchange is cut off.
pub async fn serve(
    app: Arc<App>,
    lock: ServingLock,
    listener: TcpListener,
    end: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let work = Beside::start(&app, lock)?;
    info!("listening on http://{}, reached as {}", listener.local_addr()?, app.config.public_url());
    ui::announce_setup(&app).await;
    if let Some(redis) = &app.redis {
        // Where it is away, it tells the log.
        redis.ping().await.ok();
    }
    let draining = app.draining.clone();
    let end = async move {
        end.await;
        info!("stopping: waiting for what is under way");
        draining.cancel();
    };
    let listener = HeadsInTime::new(listener, app.seams.clock.clone());
    let served = axum::serve(listener, router(&app).into_make_service_with_connect_info::<Peer>())
        .with_graceful_shutdown(end)
        .into_future();
    // A client that never finishes its request must not keep the service from ending.
    let long_enough = async {
        app.draining.cancelled().await;
        app.seams.clock.sleep(app.config.shutdown.drain).await;
    };
    tokio::select! {
        served = served => served?,
        () = long_enough => warn!("some requests have not ended; their connections are closed"),
    }
    work.end(&app).await;
    info!("stopped");
    Ok(())
}

/// What runs beside requests.
pub struct Beside {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    _lock: ServingLock,
}

impl Beside {
    /// Starts it.
    pub fn start(app: &Arc<App>, lock: ServingLock) -> anyhow::Result<Self> {
        let store = app.store.clone();
        let stop = app.stop.clone();
        let mut tasks = vec![
            tokio::spawn(async move { store.run(stop).await }),
            tokio::spawn(schedule(Arc::clone(app))),
            tokio::spawn(mail::run(Arc::clone(app))),
            tokio::spawn(upkeep(Arc::clone(app))),
            tokio::spawn(warn_of_ends(Arc::clone(app))),
            tokio::spawn(watch_clock(Arc::clone(app))),
            tokio::spawn(recovery::work(Arc::clone(app))),
            tokio::spawn(agents::work(Arc::clone(app))),
            tokio::spawn(jobs::work(Arc::clone(app))),
            tokio::spawn(jobs::keep_alive(Arc::clone(app))),
            tokio::spawn(jobs::settle(Arc::clone(app))),
            tokio::spawn(hooks::work(Arc::clone(app))),
            tokio::spawn(usage::work(Arc::clone(app))),
        ];
        if let Some(listener) = admin::socket(&app.config)? {
            tasks.push(tokio::spawn(admin::answer(Arc::clone(app), listener)));
        }
        Ok(Self { tasks, _lock: lock })
    }

    /// Waits for every exchange, as long as the drain may take, then ends the rest.
    pub async fn end(self, app: &Arc<App>) {
        tokio::select! {
            () = app.engine.drain() => {}
            () = app.seams.clock.sleep(app.config.shutdown.drain) => {
                error!("the drain took too long: an exchange or a write that is under way may be lost");
            }
        }
        // What the last requests used.
        if let Err(error) = usage::round(app).await {
            warn!(%error, "could not note what connectors were used for");
        }
        app.stop.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                error!(%error, "a task ended badly");
            }
        }
    }
}

/// Refreshes what is due until the service is asked to stop.
async fn schedule(app: Arc<App>) {
    app.scheduler().run(&app.due, &app.draining).await;
}

/// Keeps metrics small; once a day, tells of client secrets that are about to end, and removes connectors that nobody ever
/// connected, and old counts.
async fn upkeep(app: Arc<App>) {
    let day = Duration::from_hours(24);
    let mut told = None;
    loop {
        app.metrics.upkeep();
        let now = app.seams.clock.uptime();
        if told.is_none_or(|at| now.saturating_sub(at) >= day) {
            told = Some(now);
            match app.apps.ends().await {
                Ok(ends) => {
                    let warnings = ends.iter().filter_map(|end| end.warning(app.seams.clock.now()));
                    warnings.for_each(|warning| warn!("{warning}"));
                }
                Err(error) => warn!(%error, "could not look when client secrets end"),
            }
            match app.forget_unfinished().await {
                Ok(0) => {}
                Ok(count) => info!("removed connectors that nobody has connected: {count}"),
                Err(error) => warn!(%error, "could not look for connectors that nobody has connected"),
            }
            if let Err(error) = usage::forget(&app).await {
                warn!(%error, "could not forget what connectors were used for long ago");
            }
        }
        pause(&app, UPKEEP_INTERVAL).await;
        if app.draining.is_cancelled() {
            return;
        }
    }
}

/// Tells people of access that ends for good, once a minute. Days ahead, nobody minds the minute.
async fn warn_of_ends(app: Arc<App>) {
    while !app.draining.is_cancelled() {
        if let Err(error) = app.warn_of_ends().await {
            warn!(%error, "could not look for access that ends soon");
        }
        pause(&app, Duration::from_mins(1)).await;
    }
}

/// Tells when this machine's clock is off the database's, and when it is right again. Leases and signs of life go by the
/// database's clock and by uptime, so no credential is at stake; what people read is.
async fn watch_clock(app: Arc<App>) {
    let mut told = false;
    while !app.draining.is_cancelled() {
        if let Ok(ahead) = app.clock_ahead().await {
            let secs = ahead.num_seconds();
            let off = secs.abs() > CLOCK_TOLERANCE_SECS;
            match (told, off) {
                (false, true) => warn!("the database's clock is {secs} s ahead of ours: run NTP on both machines"),
                (true, false) => info!("our clock is within {CLOCK_TOLERANCE_SECS} s of the database's again"),
                _ => {}
            }
            told = off;
        }
        pause(&app, Duration::from_mins(1)).await;
    }
}

/// Until the time is over, or the service is asked to stop.
async fn pause(app: &App, time: Duration) {
    tokio::select! {
        () = app.seams.clock.sleep(time) => {}
        () = app.draining.cancelled() => {}
    }
}

/// SIGTERM or Ctrl-C. Both are caught from the call on, not only once the future is polled: a service that is stopped in
/// its first moment ends as well as any other.
pub fn asked_to_stop() -> impl Future<Output = ()> + Send + 'static {
    #[cfg(unix)]
    let asked = {
        use tokio::signal::unix::{SignalKind, signal};
        let caught = [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| match signal(kind) {
            Ok(mut signal) => async move { signal.recv().await.unwrap_or_default() }.boxed(),
            Err(error) => {
                warn!(%error, "a signal cannot be caught: it ends the service without a drain");
                std::future::pending().boxed()
            }
        });
        futures::future::select_all(caught).map(drop)
    };
    #[cfg(not(unix))]
    let asked = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    asked
}
