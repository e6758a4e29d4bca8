//! Accessibility: axe-core, run inside of the page.

use std::fmt;

use serde::Deserialize;
use serde_json::json;

use super::Chromium;

/// See `tests/vendor/axe-core/README.md`.
const AXE: &str = include_str!("../../vendor/axe-core/axe.min.js");
const VERSION: &str = "4.14.1";

/// WCAG 2.0 to 2.2, A and AA, and what axe calls good practice: landmarks, headings in order.
const TAGS: [&str; 6] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

const RUN: &str = "
    const done = arguments[1];
    axe.run(document, { runOnly: arguments[0], resultTypes: ['violations'] }).then(
        (found) => done({
            version: axe.version,
            passes: found.passes.length,
            violations: found.violations.map(({ id, impact, help, nodes }) => ({
                rule: id,
                impact,
                help,
                elements: nodes.map(({ target, html, failureSummary }) => ({
                    path: target.flat().join(' '), html, why: failureSummary || '',
                })),
            })),
        }),
        (error) => done({ error: String(error) }),
    );
";

/// A rule of accessibility that a page breaks.
#[derive(Clone, Debug, Deserialize)]
pub struct Violation {
    /// axe's word for it, `color-contrast` for instance.
    pub rule: String,
    /// `minor` to `critical`.
    pub impact: Option<String>,
    /// The rule as a sentence.
    pub help: String,
    /// Where.
    pub elements: Vec<Element>,
}

/// An element that breaks a rule.
#[derive(Clone, Debug, Deserialize)]
pub struct Element {
    /// A CSS selector for it.
    pub path: String,
    /// Its beginning.
    pub html: String,
    /// What is wrong, and what would mend it.
    pub why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let impact = self.impact.as_deref().unwrap_or("unrated");
        write!(f, "{} ({impact}): {}", self.rule, self.help)?;
        for Element { path, html, why } in &self.elements {
            let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
            write!(f, "\n  {path}: {why}\n    {html}")?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Answer {
    error: Option<String>,
    #[serde(default)]
    version: String,
    #[serde(default)]
    passes: usize,
    #[serde(default)]
    violations: Vec<Violation>,
}

impl Chromium {
    /// What is not accessible on the page as it is now.
    ///
    /// # Panics
    /// When axe cannot run there, or finds nothing to look at.
    pub async fn axe(&self) -> Vec<Violation> {
        let there = self.driver.execute("return typeof axe === 'object'", Vec::new()).await;
        if *there.expect("a script can look").json() == json!(false) {
            self.driver.execute(AXE, Vec::new()).await.expect("axe loads");
        }
        let answer = self.driver.execute_async(RUN, vec![json!(TAGS)]).await.expect("axe runs");
        let answer: Answer = answer.convert().expect("it answers as it is asked to");
        assert_eq!(answer.error, None, "axe failed");
        assert_eq!(answer.version, VERSION);
        assert!(answer.passes > 0, "axe looked at nothing");
        answer.violations
    }
}
