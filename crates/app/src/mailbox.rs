//! E-mail addresses, as far as they have to be understood here.

/// Whether a text can be an address that mail is sent to: one `@` between a name and a host with a dot, no white space
/// and nothing that could end a header.
pub(crate) fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once('@').filter(|(name, host)| {
        !name.is_empty() && !name.contains('@') && host.contains('.') && !host.starts_with('.') && !host.ends_with('.')
    });
    parts.is_some()
        && text.len() <= 254
        && !text.contains(|c: char| c.is_whitespace() || c.is_control() || "<>,;\"()".contains(c))
}

#[cfg(test)]
mod tests {
    use super::is_address;

    #[test]
    fn addresses_are_told_from_other_texts() {
        for good in ["ada@example.com", "a.b+c@mail.example.co.uk", "zoë@exämple.de"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "ada",
            "ada@",
            "@example.com",
            "ada@example",
            "a@b@example.com",
            "a b@example.com",
            "a@example.com\r\nBcc: x@y.z",
            "<a@example.com>",
            "a@.com",
        ] {
            assert!(!is_address(bad), "{bad:?}");
        }
    }
}
