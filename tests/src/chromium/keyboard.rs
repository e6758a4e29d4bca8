//! Without a mouse: where the focus is, whether it can be seen, and the way to something.

use std::fmt;

use serde_json::Value;
use thirtyfour::Key;

use super::Chromium;
use crate::wait::within;

/// No page of ours has as many stops.
const STOPS: usize = 100;

/// Whether the focused element differs from how it looks without the focus, in what a focus ring is made of.
const VISIBLE: &str = "
    const ring = (style) => [style.outlineStyle !== 'none' && style.outlineWidth !== '0px' ? style.outline : '',
                             style.boxShadow, style.borderColor, style.backgroundColor].join('|');
    const element = document.activeElement;
    const focused = ring(getComputedStyle(element));
    element.blur();
    const plain = ring(getComputedStyle(element));
    element.focus({ focusVisible: true, preventScroll: true });
    return focused !== plain;
";

/// What has the focus, in the words of the accessibility tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Focus {
    /// `button`, `link`, `textbox`.
    pub role: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Focus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.role, self.name)
    }
}

impl Chromium {
    /// What has the focus; the page itself is a `generic` or a `document`.
    ///
    /// # Panics
    /// When the browser is gone.
    pub async fn focused(&self) -> Focus {
        let look = async || {
            let element = self.driver.active_element().await?;
            let role = self.computed(&element, "computedrole").await?;
            Ok::<_, thirtyfour::error::WebDriverError>(Focus {
                role,
                name: self.computed(&element, "computedlabel").await?,
            })
        };
        within("something has the focus", super::PATIENCE, look).await
    }

    /// Waits until the focus is on what has this name.
    pub async fn focus_is_on(&self, name: &str) {
        within(&format!("the focus is on {name:?}"), super::PATIENCE, async || {
            let focused = self.focused().await;
            if focused.name == name { Ok(()) } else { Err(focused) }
        })
        .await;
    }

    /// Presses Tab until the focus is on what has this name. Answers the stops on the way, it included.
    ///
    /// # Panics
    /// When it is not reached, or when the focus cannot be seen at a stop.
    pub async fn tab_to(&self, name: &str) -> Vec<Focus> {
        let mut stops = Vec::new();
        for _ in 0..STOPS {
            self.key(Key::Tab).await;
            let focused = self.focused().await;
            assert!(self.focus_shows().await, "the focus cannot be seen on {focused}");
            let reached = focused.name == name;
            stops.push(focused);
            if reached {
                return stops;
            }
        }
        panic!("Tab does not lead to {name:?}; it led over {}", in_words(&stops));
    }

    async fn focus_shows(&self) -> bool {
        let seen = self.driver.execute(VISIBLE, Vec::new()).await.expect("a script can look");
        *seen.json() == Value::Bool(true)
    }
}

fn in_words(stops: &[Focus]) -> String {
    let mut words: Vec<_> = stops.iter().map(ToString::to_string).collect();
    words.dedup();
    words.truncate(20);
    words.join(", ")
}
