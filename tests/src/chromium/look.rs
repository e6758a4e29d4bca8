//! How pages look: at the width of a desk and of a phone, light and dark, kept as pictures.

use std::path::PathBuf;

use base64::Engine as _;
use serde_json::{Value, json};

use super::Chromium;

/// How wide the page is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// 1280 pixels.
    #[default]
    Desk,
    /// 390 pixels, with a phone's viewport.
    Phone,
}

/// What the system prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    #[default]
    Light,
    /// Light on dark.
    Dark,
}

impl Width {
    /// In CSS pixels.
    pub fn pixels(self) -> u32 {
        match self {
            Self::Desk => 1280,
            Self::Phone => 390,
        }
    }
}

impl Scheme {
    /// As CSS and the names of pictures have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// What sticks out on the right, and by how much the page is too wide.
const SIDEWAYS: &str = "
    const width = arguments[0], page = document.documentElement.scrollWidth;
    if (page <= width) return null;
    const out = [...document.body.querySelectorAll('*')].filter((one) => one.getBoundingClientRect().right > width + 0.5);
    const word = (one) => one.tagName.toLowerCase() + (one.className ? '.' + one.className : '');
    return `it is ${page} pixels wide; over the edge: ${out.slice(0, 5).map(word).join(', ')}`;
";

impl Chromium {
    /// Sets width and scheme, for this page and those that follow.
    pub async fn look(&self, width: Width, scheme: Scheme) {
        *self.look.lock().await = (width, scheme);
        self.look_again().await;
    }

    /// The same in another tab.
    pub(super) async fn look_again(&self) {
        let (width, scheme) = *self.look.lock().await;
        let (height, phone) = match width {
            Width::Desk => (900, false),
            Width::Phone => (844, true),
        };
        let metrics = json!({
            "width": width.pixels(),
            "height": height,
            "deviceScaleFactor": if phone { 2 } else { 1 },
            "mobile": phone,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme.word() },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// Looks at the page as it is now in both widths and both schemes: keeps pictures of it under this name, asks axe,
    /// and makes sure that nothing sticks out sideways.
    ///
    /// # Panics
    /// With everything that is wrong.
    pub async fn inspect(&self, name: &str) {
        let before = *self.look.lock().await;
        let mut wrong = Vec::new();
        for width in [Width::Desk, Width::Phone] {
            for scheme in [Scheme::Light, Scheme::Dark] {
                self.look(width, scheme).await;
                self.picture(name).await;
                let place = format!("{name} at {} pixels, {}", width.pixels(), scheme.word());
                if let Some(sideways) = self.sideways(width).await {
                    wrong.push(format!("{place}: {sideways}"));
                }
                wrong.extend(self.axe().await.iter().map(|violation| format!("{place}: {violation}")));
            }
        }
        self.look(before.0, before.1).await;
        assert!(wrong.is_empty(), "{} on {}:\n{}", wrong.len(), self.url().await, wrong.join("\n"));
    }

    /// Keeps a picture of the whole page as it looks now, as `target/screenshots/NAME-WIDTH-SCHEME.png`.
    pub async fn picture(&self, name: &str) {
        let (width, scheme) = *self.look.lock().await;
        self.keep(&format!("{name}-{}-{}", width.pixels(), scheme.word())).await;
    }

    /// A picture of where a test failed.
    pub(super) async fn keep_failure(&self, name: &str) {
        if let Some(shot) = self.shot().await {
            let file = write(name, &shot);
            eprintln!("the page at the failure: {}", file.display());
        }
    }

    async fn keep(&self, name: &str) {
        let shot = self.shot().await.expect("Chromium takes pictures");
        write(name, &shot);
    }

    async fn shot(&self) -> Option<Vec<u8>> {
        let cdp = self.driver.cdp();
        let size = cdp.send_raw("Page.getLayoutMetrics", json!({})).await.ok()?["cssContentSize"].clone();
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let wish = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let shot = cdp.send_raw("Page.captureScreenshot", wish).await.ok()?;
        base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str()?).ok()
    }

    async fn sideways(&self, width: Width) -> Option<String> {
        let seen = self.driver.execute(SIDEWAYS, vec![json!(width.pixels())]).await.expect("a script can measure");
        seen.json().as_str().map(str::to_owned)
    }

    /// A command of the DevTools protocol.
    pub(super) async fn devtools(&self, method: &str, params: Value) -> Value {
        let done = self.driver.cdp().send_raw(method, params).await;
        done.unwrap_or_else(|error| panic!("{method}: {error}"))
    }
}

/// Where pictures are kept.
///
/// # Panics
/// When the folder cannot be made.
pub fn pictures() -> PathBuf {
    // target/PROFILE/deps/PROGRAM
    let program = std::env::current_exe().expect("this program has a path");
    let folder = program.ancestors().nth(3).expect("it lies in target/PROFILE/deps").join("screenshots");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

fn write(name: &str, png: &[u8]) -> PathBuf {
    let file = pictures().join(format!("{name}.png"));
    std::fs::write(&file, png).expect("a picture can be written");
    file
}
