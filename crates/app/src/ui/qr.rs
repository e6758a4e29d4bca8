//! A QR code as the path of an SVG: drawn here, so that what is in it goes to nobody.

use std::fmt::Write as _;

use qrcode::{Color, EcLevel, QrCode};
use serde::Serialize;

/// Light modules around it, without which readers do not find it (ISO/IEC 18004).
const QUIET: usize = 4;

/// For a template: `<svg viewBox="0 0 SIDE SIDE"><path d="PATH"/></svg>`.
#[derive(Serialize)]
pub(super) struct Qr {
    side: usize,
    path: String,
}

impl Qr {
    /// Of this text; `None`: it is too long for one.
    pub(super) fn of(text: &str) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let width = code.width();
        let mut path = String::new();
        for (y, row) in code.to_colors().chunks(width).enumerate() {
            let mut x = 0;
            for run in row.chunk_by(|a, b| a == b) {
                if run[0] == Color::Dark {
                    write!(path, "M{} {}h{}v1h-{}z", x + QUIET, y + QUIET, run.len(), run.len())
                        .expect("a text takes whatever is written");
                }
                x += run.len();
            }
        }
        Some(Self { side: width + 2 * QUIET, path })
    }
}

#[cfg(test)]
mod tests {
    use super::Qr;

    #[test]
    fn a_code_has_its_three_finders_and_nothing_in_the_quiet_zone() {
        let qr = Qr::of("otpauth://totp/Holdfast:ada%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").unwrap();
        // The uppermost row of the two upper finders, and of the lower one.
        let last = qr.side - 4 - 7;
        for finder in ["M4 4h7v1h-7z".to_owned(), format!("M{last} 4h7v1h-7z"), format!("M4 {last}h7v1h-7z")] {
            assert!(qr.path.contains(&finder), "{finder} in {}", qr.path);
        }
        assert!(!qr.path.contains("M3 ") && !qr.path.contains(" 3h"));
        assert!(Qr::of(&"x".repeat(5000)).is_none());
    }
}
