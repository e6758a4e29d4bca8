//! What happens beside a test: what the console says, what the network carries.

use std::collections::HashMap;

use serde_json::Value;
use url::{Origin, Url};

use super::Chromium;

/// What a page may weigh on the wire, with all that it loads, from an empty cache.
const HEAVIEST: u64 = 60_000;

/// Everything so far.
#[derive(Debug)]
pub(super) struct Record {
    origins: Vec<Origin>,
    pages: Vec<Page>,
    /// Bytes of the last transfer that was none from a cache, by address.
    sizes: HashMap<String, u64>,
    problems: Vec<String>,
}

/// One load of a document.
#[derive(Debug)]
struct Page {
    loader: String,
    url: String,
    requests: HashMap<String, Request>,
    /// Its weight has been judged.
    told: bool,
}

#[derive(Debug, Default)]
struct Request {
    url: String,
    bytes: u64,
}

impl Record {
    pub(super) fn new(origins: Vec<Origin>) -> Self {
        Self { origins, pages: Vec::new(), sizes: HashMap::new(), problems: Vec::new() }
    }

    /// An event of the DevTools protocol.
    fn event(&mut self, method: &str, params: &Value) {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (request, loader) = (word(&params["requestId"]), word(&params["loaderId"]));
        match method {
            "Network.requestWillBeSent" => {
                let url = word(&params["request"]["url"]);
                let Some(parsed) = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https")) else {
                    return;
                };
                if !self.origins.contains(&parsed.origin()) {
                    self.problems.push(format!(
                        "{} asks {}",
                        word(&params["documentURL"]),
                        parsed.origin().ascii_serialization()
                    ));
                }
                // The request for the document itself has its loader's name, and keeps it over redirects.
                if request == loader {
                    self.pages.retain(|page| page.loader != loader);
                    self.pages.push(Page {
                        loader: loader.clone(),
                        url: url.clone(),
                        requests: HashMap::new(),
                        told: false,
                    });
                }
                let page = self.pages.iter_mut().find(|page| page.loader == loader);
                // A page that is fetched again because something has happened was loaded before.
                let again =
                    |page: &Page| params["type"] == "Fetch" && url.split('#').next() == page.url.split('#').next();
                if let Some(page) = page.filter(|page| !again(page)) {
                    page.requests.insert(request, Request { url, bytes: 0 });
                }
            }
            "Network.webSocketCreated" => self.problems.push(format!("a web socket to {}", word(&params["url"]))),
            "Network.dataReceived" => {
                let more = params["encodedDataLength"].as_u64().unwrap_or_default();
                if let Some(found) = self.request(&request) {
                    found.bytes += more;
                }
            }
            "Network.loadingFinished" => {
                // A float in the protocol.
                let all = params["encodedDataLength"].as_f64().unwrap_or_default();
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bytes")]
                let all = all as u64;
                if let Some(found) = self.request(&request) {
                    found.bytes = all;
                    let url = found.url.clone();
                    if all > 0 {
                        self.sizes.insert(url, all);
                    }
                }
            }
            _ => {}
        }
    }

    fn request(&mut self, id: &str) -> Option<&mut Request> {
        self.pages.iter_mut().rev().find_map(|page| page.requests.get_mut(id))
    }

    /// A line of the console.
    fn line(&mut self, level: &str, source: &str, message: &str) {
        let policy = message.contains("Content Security Policy");
        if level != "SEVERE" && !policy {
            return;
        }
        // A document with a status of its own, 404 for instance, is what its test is about.
        let of = message.split(' ').next().unwrap_or_default();
        if source == "network" && self.pages.iter().any(|page| page.url == of) {
            return;
        }
        self.problems.push(format!("the console says: {message}"));
    }

    /// What was wrong since the last time, weights included.
    fn take(&mut self) -> Vec<String> {
        let mut problems = std::mem::take(&mut self.problems);
        for page in &self.pages {
            let weight = self.weight(page);
            if weight > HEAVIEST && !page.told {
                problems.push(format!("{} weighs {weight} bytes, over {HEAVIEST}", page.url));
            }
        }
        self.pages.iter_mut().for_each(|page| page.told = true);
        problems
    }

    fn weight(&self, page: &Page) -> u64 {
        let of = |request: &Request| {
            if request.bytes > 0 { request.bytes } else { self.sizes.get(&request.url).copied().unwrap_or_default() }
        };
        page.requests.values().map(of).sum()
    }
}

impl Chromium {
    /// What has happened since the last call that must not: errors in the console, violations of the policy, requests to
    /// others, pages over their weight. Each test is asked at its end.
    ///
    /// # Panics
    /// When the browser is gone.
    pub async fn problems(&self) -> Vec<String> {
        self.collect().await.take()
    }

    /// What the page that is open weighs, with all that it loaded, in bytes on the wire.
    ///
    /// # Panics
    /// When nothing is open.
    pub async fn weight(&self) -> u64 {
        let record = self.collect().await;
        record.weight(record.pages.last().expect("a page is open"))
    }

    pub(super) async fn check(&self) {
        let problems = self.problems().await;
        assert!(problems.is_empty(), "it went well, but:\n{}", problems.join("\n"));
    }

    async fn collect(&self) -> tokio::sync::MutexGuard<'_, Record> {
        let mut record = self.record.lock().await;
        for entry in self.driver.get_log("performance").await.expect("chromedriver keeps a log") {
            let event: Value = serde_json::from_str(&entry.message).expect("its entries are JSON");
            let event = &event["message"];
            record.event(event["method"].as_str().unwrap_or_default(), &event["params"]);
        }
        for entry in self.driver.get_log("browser").await.expect("chromedriver keeps a log") {
            record.line(&entry.level, entry.source.as_deref().unwrap_or_default(), &entry.message);
        }
        record
    }
}
