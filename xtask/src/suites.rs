//! Which suite a test binary belongs to. It follows from what the workspace holds: a new crate, or a new folder in
//! `tests/`, needs no word here.

use crate::{
    tools::Need,
    workspace::{Kind, Package, Target, Workspace},
};

/// One suite.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) about: &'static str,
    /// What its tests need to run.
    pub(crate) needs: &'static [Need],
}

const TESTS: &str = "holdfast-tests";

const NOTHING: &[Need] = &[];
const DATABASE: &[Need] = &[Need::Postgres];
const SERVERS: &[Need] = &[Need::Postgres, Need::Redis, Need::MailServer];

/// The suite that needs libraries from PyPI and npm.
pub(crate) const CLIENTS: &str = "clients";
/// The suite that needs servers from npm and PyPI.
pub(crate) const PEERS: &str = "peers";
/// The suite that needs Lighthouse from npm.
pub(crate) const LIGHTHOUSE: &str = "lighthouse";
/// What these need is installed by `foreign.rs`; they run only when they are asked for.
pub(crate) const FOREIGN: [&str; 3] = [CLIENTS, PEERS, LIGHTHOUSE];
/// The suite that tries out what `cargo xtask new-provider` writes.
pub(crate) const NEW_PROVIDER: &str = "new-provider";
/// The suite of documentation examples: cargo alone can run those.
pub(crate) const DOC: &str = "doc";

/// The suite of a test target; `None`: it holds no tests.
pub(crate) fn suite_of(package: &str, target: &Target) -> Option<Suite> {
    let suite = |name: &str, about, needs| Some(Suite { name: name.to_owned(), about, needs });
    match (package, target.kind, target.name.as_str()) {
        (_, Kind::Other, _) => None,
        ("holdfast-store" | "holdfast-migrations", _, _) => suite("store", "the store on both databases", DATABASE),
        (TESTS, Kind::Lib | Kind::Bin, _) | (TESTS, Kind::Test, "it") => {
            suite("integration", "the whole service on both databases", SERVERS)
        }
        (TESTS, Kind::Test, "browser") => suite("browser", "the pages in Chromium", &[Need::Browser]),
        (TESTS, Kind::Test, CLIENTS) => {
            suite(CLIENTS, "the sandboxes against clients of others; only when asked for", NOTHING)
        }
        (TESTS, Kind::Test, PEERS) => {
            let needs = &[Need::Postgres, Need::Browser];
            suite(PEERS, "the whole service against OAuth servers of others; only when asked for", needs)
        }
        (TESTS, Kind::Test, LIGHTHOUSE) => {
            suite(LIGHTHOUSE, "the main pages, measured with Lighthouse; only when asked for", &[Need::Browser])
        }
        (TESTS, Kind::Test, own) => suite(own, "the whole service", SERVERS),
        (_, Kind::Lib | Kind::Bin, _) => suite("unit", "each crate by itself, no socket, no file", NOTHING),
        ("holdfast-core", Kind::Test, _) => suite("engine", "the refresh engine against its cases", NOTHING),
        ("holdfast-model", Kind::Test, _) => suite("model", "the refresh protocol, explored exhaustively", NOTHING),
        ("holdfast-app", Kind::Test, _) => suite("app", "the app's own surfaces", DATABASE),
        (_, Kind::Test, _) => suite("conformance", "adapters and sandboxes over HTTP", NOTHING),
    }
}

/// All suites that have something in this workspace, in the order in which they run: quick ones first.
pub(crate) fn all(workspace: &Workspace) -> Vec<Suite> {
    let of = |package: &Package| {
        package.targets.iter().filter_map(|target| suite_of(&package.name, target)).collect::<Vec<_>>()
    };
    let mut suites: Vec<_> = workspace.packages.iter().flat_map(of).collect();
    let examples = workspace.packages.iter().any(|package| package.targets.iter().any(|t| t.kind == Kind::Lib));
    if examples {
        suites.push(Suite { name: DOC.to_owned(), about: "examples in the documentation", needs: NOTHING });
    }
    let about = "what `cargo xtask new-provider` writes, in a copy of the workspace";
    suites.push(Suite { name: NEW_PROVIDER.to_owned(), about, needs: NOTHING });
    let rank = |name: &str| {
        ["unit", DOC, "engine", "model", "conformance", "app", "store", "integration"]
            .iter()
            .position(|known| *known == name)
    };
    suites.sort_by(|a, b| {
        let key = |suite: &Suite| (rank(&suite.name).unwrap_or(usize::MAX), suite.name.clone());
        key(a).cmp(&key(b))
    });
    suites.dedup_by(|a, b| a.name == b.name);
    suites
}

#[cfg(test)]
mod tests {
    use super::suite_of;
    use crate::workspace::{Kind, Target};

    #[test]
    fn every_kind_of_target_has_its_suite() {
        let table = [
            ("holdfast-core", Kind::Lib, "holdfast_core", Some("unit")),
            ("holdfast-core", Kind::Test, "engine", Some("engine")),
            ("holdfast-model", Kind::Test, "explore", Some("model")),
            ("holdfast-store", Kind::Lib, "holdfast_store", Some("store")),
            ("holdfast-store", Kind::Test, "it", Some("store")),
            ("holdfast-zendesk", Kind::Test, "conformance", Some("conformance")),
            ("holdfast-freshdesk", Kind::Test, "conformance", Some("conformance")),
            ("holdfast-front", Kind::Test, "conformance", Some("conformance")),
            ("holdfast-sandbox", Kind::Bin, "holdfast-sandbox", Some("unit")),
            ("holdfast-app", Kind::Test, "cli", Some("app")),
            ("holdfast-tests", Kind::Lib, "holdfast_tests", Some("integration")),
            ("holdfast-tests", Kind::Test, "it", Some("integration")),
            ("holdfast-tests", Kind::Test, "browser", Some("browser")),
            ("holdfast-tests", Kind::Test, "torture", Some("torture")),
            ("holdfast-tests", Kind::Test, "clients", Some("clients")),
            ("holdfast-tests", Kind::Test, "peers", Some("peers")),
            ("holdfast-tests", Kind::Test, "lighthouse", Some("lighthouse")),
            ("holdfast-tests", Kind::Other, "story", None),
        ];
        for (package, kind, name, suite) in table {
            let found = suite_of(package, &Target { name: name.to_owned(), kind });
            assert_eq!(found.map(|suite| suite.name).as_deref(), suite, "{package} {name}");
        }
    }
}
