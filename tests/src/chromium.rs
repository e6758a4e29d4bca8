//! A real browser: Chromium without a window, driven over WebDriver, each test with a profile of its own.
//!
//! ```no_run
//! # use holdfast_tests::{chromium::Chromium, service::TestApp};
//! # async fn sketch(app: &TestApp, link: &str) {
//! Chromium::visitor_of(app).run(async |chromium| {
//!     chromium.open(link).await;
//!     chromium.inspect("connect").await;
//!     chromium.press("Continue to Zendesk").await;
//!     chromium.heading("Allow Holdfast to access Acme?").await;
//! }).await;
//! # }
//! ```
//!
//! A test fails also for what happened beside it: an error in the console, a violation of the content security policy, a
//! request to anyone but the service and the sandbox, a page over its weight. When it fails, the last page is kept as a
//! picture.
//!
//! - `driver`: the one chromedriver of a test program.
//! - `page`: opens, reads, fills and presses, by the names that people and screen readers see.
//! - `keyboard`: the same without a mouse.
//! - `look`: widths, colour schemes, pictures.
//! - `axe`: accessibility.
//! - `record`: the console and the network.

mod axe;
mod driver;
mod keyboard;
mod look;
mod page;
mod record;

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use thirtyfour::{
    BrowserCapabilitiesHelper as _, CapabilitiesHelper as _, ChromiumLikeCapabilities as _, DesiredCapabilities,
    LoggingPrefsLogLevel, TimeoutConfiguration, WebDriver,
};
use tokio::sync::Mutex;
use url::{Origin, Url};

pub use self::{
    axe::Violation,
    keyboard::Focus,
    look::{Scheme, Width, pictures},
};
use crate::{browser::http, service::TestApp};

/// No page takes this long to load, no script of ours to run.
const LONGEST_LOAD: Duration = Duration::from_mins(1);
/// Longer than a page takes to become what it should, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const SWITCHES: [&str; 14] = [
    "--headless",
    // Tests run as root; what they visit is ours.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-crash-reporter",
    "--no-first-run",
    "--no-proxy-server",
    "--lang=en-US",
    // Straight scroll bars and letters, whatever the machine has.
    "--hide-scrollbars",
    "--font-render-hinting=none",
];

/// What kind of visitor a test is.
#[derive(Debug)]
pub struct Visitor {
    origins: Vec<Origin>,
    scripts: bool,
}

/// A browser with a profile of its own.
#[derive(Debug)]
pub struct Chromium {
    driver: WebDriver,
    record: Mutex<record::Record>,
    look: Mutex<(Width, Scheme)>,
}

impl Visitor {
    /// Its pages have no JavaScript.
    #[must_use]
    pub fn without_scripts(mut self) -> Self {
        self.scripts = false;
        self
    }

    /// Runs a test in a new browser, and ends that, also after a failure.
    ///
    /// # Panics
    /// When the test does, or when something happened beside it that must not.
    pub async fn run(self, test: impl AsyncFnOnce(&Chromium)) {
        let name = format!("failed-{}", std::thread::current().name().unwrap_or("test").replace("::", "-"));
        // What an earlier run left.
        std::fs::remove_file(pictures().join(format!("{name}.png"))).ok();
        let chromium = Chromium::start(self).await;
        let mut outcome = AssertUnwindSafe(test(&chromium)).catch_unwind().await;
        if outcome.is_ok() {
            outcome = AssertUnwindSafe(chromium.check()).catch_unwind().await;
        }
        if outcome.is_err() {
            chromium.keep_failure(&name).await;
        }
        // What is wrong with the browser itself is told by the test's own failure.
        let quit = chromium.driver.quit().await;
        if let Err(failure) = outcome {
            std::panic::resume_unwind(failure);
        }
        quit.expect("Chromium ends");
    }
}

impl Chromium {
    /// Somebody who visits this service and its sandbox.
    pub fn visitor_of(app: &TestApp) -> Visitor {
        Self::visitor(&[&app.base, app.sandbox.url()])
    }

    /// Somebody who visits these sites, and no other.
    ///
    /// # Panics
    /// When one of them is no URL.
    pub fn visitor(sites: &[&str]) -> Visitor {
        let origin = |site: &&str| Url::parse(site).expect("a site is a URL").origin();
        Visitor { origins: sites.iter().map(origin).collect(), scripts: true }
    }

    async fn start(visitor: Visitor) -> Self {
        let mut wishes = DesiredCapabilities::chrome();
        let set = (|| {
            for switch in SWITCHES {
                wishes.add_arg(switch)?;
            }
            if let Some(browser) = driver::browser() {
                wishes.set_binary(&browser)?;
            }
            if !visitor.scripts {
                let off = serde_json::json!({ "profile.managed_default_content_settings.javascript": 2 });
                wishes.set_browser_option("prefs", off)?;
            }
            wishes.set_logging_prefs("browser", LoggingPrefsLogLevel::All)?;
            wishes.set_logging_prefs("performance", LoggingPrefsLogLevel::All)?;
            wishes.set_page_load_strategy(thirtyfour::PageLoadStrategy::Normal)
        })();
        set.expect("plain settings");
        let url = driver::url().await;
        let started = WebDriver::builder(url, wishes).client(http()).await;
        let driver = started.expect("chromedriver starts Chromium");
        let chromium =
            Self { driver, record: Mutex::new(record::Record::new(visitor.origins)), look: Mutex::default() };
        let bounds = TimeoutConfiguration::new(Some(LONGEST_LOAD), Some(LONGEST_LOAD), Some(Duration::ZERO));
        chromium.driver.update_timeouts(bounds).await.expect("chromedriver takes bounds");
        chromium.look(Width::Desk, Scheme::Light).await;
        chromium
    }

    /// The driver, for what has no word here yet.
    pub fn driver(&self) -> &WebDriver {
        &self.driver
    }
}
