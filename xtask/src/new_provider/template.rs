//! The templates, in `xtask/templates/new-provider`: files with the marks of [`Name::fill`], and with lines that are there for
//! one way to authenticate alone, between `@if oauth@` or `@if key@` and `@end@`.

use super::{Name, Way};

pub(super) struct Template {
    /// Where it goes, with marks.
    pub(super) path: &'static str,
    /// For this way alone.
    pub(super) only: Option<Way>,
    text: &'static str,
}

macro_rules! template {
    ($to:literal, $from:literal, $only:expr) => {
        Template { path: $to, only: $only, text: include_str!(concat!("../../templates/new-provider/", $from)) }
    };
}

pub(super) const TEMPLATES: &[Template] = &[
    template!("crates/@id@/Cargo.toml", "crate/Cargo.toml", None),
    template!("crates/@id@/README.md", "crate/README.md", None),
    template!("crates/@id@/src/lib.rs", "crate/src/lib.rs", None),
    template!("crates/@id@/src/account.rs", "crate/src/account.rs", None),
    template!("crates/@id@/src/error.rs", "crate/src/error.rs", None),
    template!("crates/@id@/src/identity.rs", "crate/src/identity.rs", None),
    template!("crates/@id@/src/tools.rs", "crate/src/tools.rs", None),
    template!("crates/@id@/tests/conformance/main.rs", "crate/tests/conformance/main.rs", None),
    template!("crates/@id@/tests/conformance/connection.rs", "crate/tests/conformance/connection.rs", None),
    template!("crates/@id@/tests/conformance/reading.rs", "crate/tests/conformance/reading.rs", None),
    template!("crates/@id@/tests/conformance/rig.rs", "crate/tests/conformance/rig.rs", None),
    template!("crates/sandbox/src/@mod@/mod.rs", "sandbox/mod.rs", None),
    template!("crates/sandbox/src/@mod@/api.rs", "sandbox/api.rs", None),
    template!("crates/sandbox/src/@mod@/state.rs", "sandbox/state.rs", None),
    template!("crates/sandbox/src/@mod@/rig.rs", "sandbox/rig.rs", None),
    template!("crates/sandbox/src/@mod@/consent.rs", "sandbox/consent.rs", Some(Way::OAuth)),
    template!("crates/sandbox/src/@mod@/token_endpoint.rs", "sandbox/token_endpoint.rs", Some(Way::OAuth)),
];

impl Template {
    pub(super) fn text(&self, name: &Name, way: Way) -> String {
        let mut only = None;
        let mut text = String::new();
        for line in self.text.lines() {
            match line {
                "@if oauth@" => only = Some(Way::OAuth),
                "@if key@" => only = Some(Way::Key),
                "@end@" => only = None,
                // Between two parts that both went there would be two empty lines.
                "" if text.ends_with("\n\n") => {}
                _ if only.is_none_or(|only| only == way) => {
                    text.push_str(line);
                    text.push('\n');
                }
                _ => {}
            }
        }
        name.fill(&text)
    }
}
