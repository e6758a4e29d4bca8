//! What an org shows of itself to its customers, on the pages behind connect links: its name and its colour.

use std::fmt;

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::ui::routes::{Needs, Routes};

/// A colour on the screen, `#0b6b4f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colour([u8; 3]);

impl Colour {
    /// Reads six hex digits, with or without their `#`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').unwrap_or(text);
        if digits.len() != 6 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
        Some(Self([byte(0)?, byte(2)?, byte(4)?]))
    }

    /// Black or white, whichever can be read better on it. One of them always has a contrast of 4.5 or more (WCAG 2.2, 1.4.3).
    fn on(self) -> &'static str {
        if self.luminance() > 0.179 { "#000000" } else { "#ffffff" }
    }

    /// Relative luminance as WCAG 2.2 defines it, 0 to 1.
    fn luminance(self) -> f64 {
        let linear = |byte: u8| {
            let share = f64::from(byte) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = self.0.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// What it changes on a page: buttons that matter, and a line on top. Words keep the colours that are known to be legible.
    fn css(self) -> String {
        let on = self.on();
        format!(
            "body {{ border-top: 0.3rem solid {self}; }}\n\
             button.primary, .button.primary, button.primary:hover, .button.primary:hover {{ background: {self}; \
             border-color: {self}; color: {on}; }}\n"
        )
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Where the stylesheet of a colour is.
pub(crate) fn stylesheet(colour: Colour) -> String {
    format!("/brand/{}", &colour.to_string()[1..])
}

pub(crate) fn routes() -> Routes {
    Routes::new().get("/brand/{colour}", Needs::Nothing, style)
}

/// GET /brand/{colour}: the same for everybody, for ever.
async fn style(Path(colour): Path<String>) -> Response {
    let Some(colour) = Colour::parse(&colour) else { return StatusCode::NOT_FOUND.into_response() };
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, colour.css()).into_response()
}

#[cfg(test)]
mod tests {
    use super::Colour;

    #[test]
    fn colours_are_six_hex_digits() {
        for good in ["#0b6b4f", "0B6B4F"] {
            assert_eq!(Colour::parse(good).map(|colour| colour.to_string()).as_deref(), Some("#0b6b4f"));
        }
        for bad in ["", "#", "#fff", "green", "#0b6b4g", "#0b6b4f;}", "#ébbbb", "##0b6b4f"] {
            assert_eq!(Colour::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_stands_on_a_colour_can_be_read() {
        for red in (0..=255).step_by(15) {
            for green in (0..=255).step_by(15) {
                for blue in (0..=255).step_by(15) {
                    let colour = Colour([red, green, blue]);
                    let on = Colour::parse(colour.on()).unwrap();
                    let (a, b) = (colour.luminance() + 0.05, on.luminance() + 0.05);
                    assert!(a.max(b) / a.min(b) >= 4.5, "{colour}");
                }
            }
        }
    }
}
