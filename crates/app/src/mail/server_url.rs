//! `smtp.url`: which server, how private, and as whom.

use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::config::is_loopback;

/// How the line to the server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// Not at all.
    Clear,
    /// By STARTTLS, where the server offers it.
    Opportunistic,
    /// By STARTTLS, or not spoken to.
    StartTls,
    /// TLS from the start.
    Tls,
}

/// A mail server.
#[derive(Clone, Debug)]
pub(crate) struct ServerUrl {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) security: Security,
    pub(crate) credentials: Option<(String, SecretString)>,
}

impl ServerUrl {
    /// What is wrong is said without repeating any of it: it may hold a password.
    pub(crate) fn parse(url: &SecretString) -> Result<Self, &'static str> {
        let url = Url::parse(url.expose_secret())
            .map_err(|_| "allowed is smtps://USER:PASSWORD@HOST or smtp://..., user and password percent-encoded")?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or("the host is missing")?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err("allowed is scheme, user, password, host, port and ?tls=, and nothing else");
        }
        let mut tls = None;
        for (key, value) in url.query_pairs() {
            if key != "tls" || tls.is_some() {
                return Err("its query may hold tls, once, and nothing else");
            }
            tls = Some(value.into_owned());
        }
        let (security, port) = match (url.scheme(), tls.as_deref()) {
            ("smtps", None) => (Security::Tls, 465),
            ("smtp", None | Some("none")) => (Security::Clear, 25),
            ("smtp", Some("required")) => (Security::StartTls, 587),
            ("smtp", Some("opportunistic")) => (Security::Opportunistic, 587),
            ("smtp", Some(_)) => return Err("tls may be required, opportunistic or none"),
            ("smtps", Some(_)) => return Err("smtps:// is TLS already; leave tls out"),
            _ => return Err("allowed is smtp:// or smtps://"),
        };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned);
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            ("", Some(_)) => return Err("there is a password, but no user"),
            (_, None) => return Err("there is a user, but no password"),
            (user, Some(password)) => {
                let pair = decoded(user).zip(decoded(password));
                Some(pair.ok_or("user and password have to be percent-encoded UTF-8")?)
            }
        };
        let exposed = matches!(security, Security::Clear | Security::Opportunistic);
        if credentials.is_some() && exposed && tls.as_deref() != Some("none") && !is_loopback(&with_scheme(&url)) {
            return Err(
                "the password would go over the line in the clear; use smtps:// or ?tls=required, or ?tls=none if that \
                 is meant",
            );
        }
        let port = url.port().unwrap_or(port);
        Ok(Self { host, port, security, credentials: credentials.map(|(user, word)| (user, word.into())) })
    }

    /// Host and port, for people.
    pub(crate) fn shown(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The host as a URL of a scheme whose hosts the parser understands.
fn with_scheme(url: &Url) -> Url {
    let host = url.host_str().unwrap_or_default();
    Url::parse(&format!("http://{host}/")).unwrap_or_else(|_| url.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<ServerUrl, &'static str> {
        ServerUrl::parse(&url.into())
    }

    #[test]
    fn every_kind_of_server_is_understood() {
        for (url, shown, security, user) in [
            ("smtp://mail.example.com", "mail.example.com:25", Security::Clear, None),
            ("smtps://mail.example.com", "mail.example.com:465", Security::Tls, None),
            ("smtp://mail.example.com?tls=required", "mail.example.com:587", Security::StartTls, None),
            ("smtp://mail.example.com:2525/?tls=opportunistic", "mail.example.com:2525", Security::Opportunistic, None),
            (
                "smtps://ada%40acme.example:p%2Fw@mail.example.com",
                "mail.example.com:465",
                Security::Tls,
                Some("ada@acme.example"),
            ),
            ("smtp://u:p@[::1]:1025", "[::1]:1025", Security::Clear, Some("u")),
            ("smtp://u:p@127.0.0.1:1025", "127.0.0.1:1025", Security::Clear, Some("u")),
            ("smtp://u:p@relay?tls=none", "relay:25", Security::Clear, Some("u")),
        ] {
            let server = parse(url).unwrap();

            assert_eq!((server.shown().as_str(), server.security), (shown, security), "{url}");
            assert_eq!(server.credentials.map(|(user, _)| user).as_deref(), user, "{url}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, says) in [
            ("mail.example.com", "allowed is"),
            ("http://mail.example.com", "smtp:// or smtps://"),
            ("smtp://u:hunter2@mail.example.com", "in the clear"),
            ("smtp://u:hunter2@mail.example.com?tls=opportunistic", "in the clear"),
            ("smtps://u:hunter2@mail.example.com?tls=required", "TLS already"),
            ("smtp://mail.example.com?tls=maybe", "may be required"),
            ("smtp://mail.example.com?starttls=1", "tls, once"),
            ("smtp://mail.example.com/ehlo", "nothing else"),
            ("smtps://u@mail.example.com", "no password"),
            ("smtps://:hunter2@mail.example.com", "no user"),
        ] {
            let problem = parse(url).unwrap_err();

            assert!(problem.contains(says), "{url}: {problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
