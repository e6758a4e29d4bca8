//! The built binary as a process of its own: started, spoken to over HTTP, killed.

use std::{
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::{Method, RequestBuilder, StatusCode, header::RETRY_AFTER};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStderr, Command},
};

use crate::{
    command::binary,
    wait::{uptime, within},
};

/// From the start to the open port, with the schema's migration in between, on a machine that has other things to do.
pub(crate) const START_BOUND: Duration = Duration::from_mins(1);
/// From a signal to the end.
const END_BOUND: Duration = Duration::from_mins(1);
/// An answer that takes longer is none: far above every bound of the service.
const ANSWER_BOUND: Duration = Duration::from_mins(2);
/// Lines of its log that a failed test shows.
const LAST_LINES: usize = 60;

/// The binary with this environment and no other; killed when it is dropped.
pub(crate) fn command(environment: &[(String, String)]) -> Command {
    command_of("holdfast", environment)
}

/// The same with another program that is built with these tests.
fn command_of(program: &str, environment: &[(String, String)]) -> Command {
    let mut command = Command::new(binary().with_file_name(program));
    command.env_clear().envs(environment.iter().cloned()).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// One `holdfast serve`. Dropping it kills it.
#[derive(Debug)]
pub struct Replica {
    name: String,
    url: String,
    key: String,
    child: Child,
    log: Log,
    http: reqwest::Client,
}

/// What it wrote to stderr so far.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

/// An answer of the service.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// The header, in seconds.
    pub retry_after: Option<u64>,
    /// `Null` where there was none.
    pub body: Value,
    /// From the request to the last byte.
    pub took: Duration,
}

impl Answer {
    /// A text field of the body; empty where it is absent.
    pub fn text(&self, field: &str) -> &str {
        self.body[field].as_str().unwrap_or_default()
    }

    /// Of a problem.
    pub fn code(&self) -> &str {
        self.text("code")
    }

    /// The token; fails where there is none.
    #[track_caller]
    pub fn access_token(&self) -> &str {
        assert_eq!(self.status, 200, "{self:?}");
        self.text("access_token")
    }
}

impl Replica {
    /// Starts it and waits until it listens. `key` is the API key that its callers send.
    ///
    /// # Panics
    /// When it ends before.
    pub async fn start(name: &str, program: &str, environment: &[(String, String)], key: &str) -> Self {
        Self::try_start(name, program, environment, key).await.unwrap_or_else(|said| panic!("{name} ended: {said}"))
    }

    /// The same; `Err`: it ended before it listened, and said this.
    pub async fn try_start(
        name: &str,
        program: &str,
        environment: &[(String, String)],
        key: &str,
    ) -> Result<Self, String> {
        let mut child = command_of(program, environment)
            .arg("serve")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let log = Log::default();
        tokio::spawn(log.clone().keep(child.stderr.take().expect("it was asked for")));
        let mut replica =
            Self { name: name.to_owned(), url: String::new(), key: key.to_owned(), child, log, http: client() };
        let url: Result<String, String> = within("the replica listens", START_BOUND, || {
            let found = replica.log.find(|line| {
                let rest = line.split_once("listening on ")?.1;
                Some(rest.split([',', ' ', '"']).next()?.to_owned())
            });
            let ended = replica.child.try_wait().expect("it is our child");
            let last = replica.log.last();
            async move {
                match (found, ended) {
                    (Some(url), _) => Ok(Ok(url)),
                    (None, Some(ended)) => Ok(Err(format!("{ended}: {last}"))),
                    (None, None) => Err(last),
                }
            }
        })
        .await;
        replica.url = url?;
        Ok(replica)
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// A request with the API key.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key)
    }

    /// A token for a caller, as the API gives it.
    pub async fn token(&self, connector: &str) -> Answer {
        answer(self.request(Method::GET, &format!("/api/v1/connectors/{connector}/token"))).await
    }

    /// A call for a token that its caller may drop, which hangs up. Not bound to this value's life.
    pub fn token_call(&self, connector: &str) -> impl Future<Output = Answer> + Send + use<> {
        answer(self.request(Method::GET, &format!("/api/v1/connectors/{connector}/token")))
    }

    /// Calls for tokens until there is another answer than 503, as a well-behaved caller: not before Retry-After is
    /// over. All answers, the last one first; fails past `bound`.
    pub async fn token_in_the_end(&self, connector: &str, bound: Duration) -> (Answer, Vec<Answer>) {
        let end = uptime() + bound;
        let mut refused = Vec::new();
        loop {
            let answer = self.token(connector).await;
            if answer.status != StatusCode::SERVICE_UNAVAILABLE {
                return (answer, refused);
            }
            assert!(uptime() < end, "no token and no verdict within {bound:?}; last: {answer:?}");
            let wait = answer.retry_after.unwrap_or_else(|| panic!("a 503 without Retry-After: {answer:?}"));
            refused.push(answer);
            crate::wait::pause(Duration::from_secs(wait)).await;
        }
    }

    /// A connector as the API shows it.
    pub async fn show(&self, connector: &str) -> Value {
        let shown = answer(self.request(Method::GET, &format!("/api/v1/connectors/{connector}"))).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        shown.body
    }

    /// The words of its log so far that hold `words`, newest last.
    pub fn said(&self, words: &str) -> Vec<String> {
        self.log.lines().into_iter().filter(|line| line.contains(words)).collect()
    }

    /// Waits until it says so.
    pub async fn says(&self, words: &str, bound: Duration) {
        within(&format!("{} says {words:?}", self.name), bound, || {
            let said = !self.said(words).is_empty();
            let last = self.log.last();
            async move { if said { Ok(()) } else { Err(last) } }
        })
        .await;
    }

    /// SIGKILL: it ends here and now, whatever it was doing.
    pub async fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().await.expect("it is our child");
    }

    /// SIGSTOP: it does nothing any more, and nobody is told.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// It goes on as if no time had passed.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM.
    pub fn ask_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// Waits for its end.
    pub async fn end(&mut self) -> ExitStatus {
        within(&format!("{} ends", self.name), END_BOUND, || {
            let ended = self.child.try_wait().expect("it is our child");
            let last = self.log.last();
            async move { ended.ok_or(last) }
        })
        .await
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        kill_process(id.expect("it runs"), signal).expect("it is our child");
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("-- the log of {} ends:\n{}", self.name, self.log.last());
        }
    }
}

impl Log {
    async fn keep(self, stderr: ChildStderr) {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            self.0.lock().expect("no panic happens while it is held").push(line);
        }
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no panic happens while it is held").clone()
    }

    fn find<T>(&self, look: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.lines().iter().find_map(|line| look(line))
    }

    fn last(&self) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

/// A client for callers: nothing is repeated, nothing is followed.
pub fn client() -> reqwest::Client {
    holdfast_app::seams::install_tls();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .timeout(ANSWER_BOUND)
        .build()
        .expect("plain settings")
}

/// Sends it and reads the whole answer.
pub async fn answer(request: RequestBuilder) -> Answer {
    let started = uptime();
    let response = request.send().await.expect("the replica answers");
    let status = response.status();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = response.text().await.expect("the answer has an end");
    Answer { status, retry_after, body: serde_json::from_str(&body).unwrap_or_default(), took: uptime() - started }
}
