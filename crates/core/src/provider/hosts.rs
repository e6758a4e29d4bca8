//! A provider whose hosts are the same for all accounts.

use url::Url;

use super::{Invalid, below};

/// Where a provider's fixed hosts are: each below https, or each a folder of the operator's substitute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(Option<Url>);

impl Hosts {
    /// The real ones.
    pub fn production() -> Self {
        Self(None)
    }

    /// Folders of another address, for a sandbox of this provider: with `http://127.0.0.1:9000/google`, Gmail is at
    /// `http://127.0.0.1:9000/google/gmail.googleapis.com`.
    pub fn substitute(provider: &str, base: &str) -> Result<Self, Invalid> {
        let refused = |why: &str| {
            Invalid::new(format!(
                "{why}; expected an http or https address, for example http://127.0.0.1:9000/{provider}"
            ))
        };
        let url = Url::parse(base.trim()).map_err(|_| refused("there is no address"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("there is another scheme"));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(refused("there is more than scheme, host and path"));
        }
        if url.path().contains(['{', '}', '%']) {
            return Err(refused("there is no {account} in the addresses of this provider"));
        }
        Ok(Self(Some(url)))
    }

    /// One of the hosts; `host` is a constant.
    pub fn at(&self, host: &'static str) -> Url {
        match &self.0 {
            Some(base) => below(base, host),
            None => Url::parse(&format!("https://{host}/")).expect("the hosts are constants"),
        }
    }

    /// Where a URL at one of the provider's hosts leads: itself, or a folder of the substitute.
    pub fn place(&self, url: Url) -> Url {
        let Some(base) = &self.0 else { return url };
        let path = url.path().trim_start_matches('/');
        let mut place = below(base, &format!("{}/{path}", url.host_str().unwrap_or_default()));
        place.set_query(url.query());
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_may_put_another_address_in_place_of_all_hosts() {
        assert_eq!(Hosts::production().at("gmail.googleapis.com").as_str(), "https://gmail.googleapis.com/");
        for base in ["http://127.0.0.1:9000/google", " https://sandbox.test/google/ "] {
            let url = Hosts::substitute("google", base).unwrap().at("gmail.googleapis.com");
            assert_eq!(url.as_str(), format!("{}/gmail.googleapis.com", base.trim().trim_end_matches('/')));
        }
        let url: Url = "https://eu7.example.com/x/y?z=1".parse().unwrap();
        assert_eq!(Hosts::production().place(url.clone()), url);
        let there = Hosts::substitute("google", "http://127.0.0.1:9000/google/").unwrap();
        assert_eq!(there.place(url).as_str(), "http://127.0.0.1:9000/google/eu7.example.com/x/y?z=1");
        for base in [
            "",
            "127.0.0.1",
            "ftp://x.test/",
            "http://user:secret@x.test/",
            "http://x.test/?a",
            "http://x.test/{account}",
        ] {
            let refused = Hosts::substitute("google", base).expect_err(base);
            assert!(refused.message.contains("http://127.0.0.1:9000/google"), "{refused}");
            assert!(!refused.message.contains("secret"), "it may hold a password");
        }
    }
}
