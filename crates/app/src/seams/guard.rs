//! Which addresses may be reached: public ones, and what the operator has allowed.
//!
//! A host reaches us from outside (a tenant's account, a provider's answer), and must not lead into the operator's own
//! network. There are two checks, and both are needed: [`Guard::admit`] sees every URL before anything happens, hosts that
//! are IP literals among them, which no resolver ever sees; [`GuardedResolver`] sees what a name resolved to, and hands the
//! connector nothing else, so that a second answer of the DNS cannot slip in between check and use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tower::BoxError;
use url::{Host, Url};

use crate::config::{PrivateHost, is_loopback};

/// The rule, with the operator's exceptions.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    loopback: bool,
    exactly: Vec<(Host<String>, u16)>,
}

/// How a URL may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With what its name resolves to checked.
    Guarded,
    /// As the operator allowed this very host and port: wherever it resolves to.
    Open,
}

impl Guard {
    /// With these exceptions.
    pub fn new(exceptions: &[PrivateHost]) -> Self {
        let mut guard = Self::default();
        for exception in exceptions {
            match exception {
                PrivateHost::Loopback => guard.loopback = true,
                PrivateHost::Exactly(host, port) => guard.exactly.push((host.clone(), *port)),
            }
        }
        guard
    }

    /// Whether any host and port is excepted by name.
    pub(super) fn has_open_ways(&self) -> bool {
        !self.exactly.is_empty()
    }

    /// Judges a URL by what stands in it. The refusal names no more than the host.
    pub(crate) fn admit(&self, url: &Url) -> Result<Way, String> {
        let Some(host) = url.host() else { return Err("the URL has no host".to_owned()) };
        let port = url.port_or_known_default().unwrap_or_default();
        if self.exactly.iter().any(|(excepted, at)| *excepted == host && *at == port) {
            return Ok(Way::Open);
        }
        let address = match host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address)),
        };
        if let Some(address) = address
            && !self.allows(address)
        {
            return Err(format!("{address} is not a public address"));
        }
        if url.scheme() != "https" && !(self.loopback && is_loopback(url)) {
            return Err(format!("{host} is not reached without TLS"));
        }
        Ok(Way::Guarded)
    }

    fn allows(&self, address: IpAddr) -> bool {
        is_public(address) || self.loopback && address.to_canonical().is_loopback()
    }
}

/// Resolves names, and keeps to itself what must not be reached.
#[derive(Clone)]
pub(super) struct GuardedResolver(pub(super) Guard);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move { Ok(Box::new(resolve(name.as_str(), Some(&guard)).await?.into_iter()) as Addrs) })
    }
}

/// What a name resolves to, as far as the guard lets it be reached; `None`: all of it.
pub(super) async fn resolve(name: &str, guard: Option<&Guard>) -> Result<Vec<SocketAddr>, BoxError> {
    // Port 0 stands for the URL's own.
    let found: Vec<_> = tokio::net::lookup_host((name, 0)).await?.collect();
    let Some(first) = found.first().map(SocketAddr::ip) else {
        return Err(format!("{name} resolves to no address").into());
    };
    let allowed: Vec<_> =
        found.into_iter().filter(|found| guard.is_none_or(|guard| guard.allows(found.ip()))).collect();
    if allowed.is_empty() {
        return Err(format!("{name} resolves to {first}, which is not a public address").into());
    }
    Ok(allowed)
}

/// Whether an address is reached over the public Internet, by the special-purpose registries of IANA.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// <https://www.iana.org/assignments/iana-ipv4-special-registry/>, and multicast: network and length of its prefix.
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),           // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // shared by the customers of a carrier (CGNAT)
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local, with the metadata services of clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|(network, length)| (address.to_bits() ^ network.to_bits()) >> (32 - length) == 0)
}

/// <https://www.iana.org/assignments/iana-ipv6-special-registry/>
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // NAT64 (RFC 6052): an IPv6-only network sees the whole of IPv4 like this.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        // Protocol assignments with Teredo, documentation (twice), 6to4, which may embed anything.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast. All else is loopback, unique local, link-local, multicast, unspecified, mapped or unassigned.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for (public, addresses) in [
            (
                true,
                "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.0.1.1 223.255.255.255",
            ),
            (true, "2606:4700::1111 2a00:1450::1 64:ff9b::1.1.1.1 ::ffff:1.1.1.1 2001:4860::8888"),
            (
                false,
                "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.9.9.9 169.254.169.254 172.16.0.1 172.31.255.255",
            ),
            (
                false,
                "192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1",
            ),
            (false, "239.1.1.1 240.0.0.1 255.255.255.255"),
            (
                false,
                ":: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::7f00:1 64:ff9b::10.0.0.1 64:ff9b::127.0.0.1",
            ),
            (
                false,
                "64:ff9b:1::1 100::1 2001::1 2001:20::1 2001:db8::1 2002:7f00:1::1 3fff::1 5f00::1 fc00::1 fd12::1 fe80::1",
            ),
            (false, "fec0::1 ff02::1"),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
            }
        }
    }

    #[test]
    fn urls_are_judged_by_what_stands_in_them() {
        let strict = Guard::default();
        let loopback = Guard::new(&[PrivateHost::Loopback]);
        let exact = Guard::new(&["sandbox:9000", "10.0.0.1:80", "[::1]:81"].map(|text| text.parse().unwrap()));
        let judge = |guard: &Guard, url: &str| guard.admit(&Url::parse(url).unwrap());
        let refused = |guard: &Guard, url: &str| judge(guard, url).is_err();

        assert_eq!(judge(&strict, "https://acme.zendesk.com/x"), Ok(Way::Guarded));
        assert_eq!(judge(&strict, "https://1.1.1.1/"), Ok(Way::Guarded));
        assert!(refused(&strict, "http://acme.zendesk.com/"));
        assert!(
            refused(&strict, "https://127.0.0.1/")
                && refused(&strict, "https://0x7f.1/")
                && refused(&strict, "https://2130706433/")
        );
        assert!(refused(&strict, "https://[::ffff:10.0.0.1]/") && refused(&strict, "https://[::1]/"));

        assert_eq!(judge(&loopback, "http://127.0.0.1:9/"), Ok(Way::Guarded));
        assert_eq!(judge(&loopback, "http://zendesk.localhost:9/"), Ok(Way::Guarded));
        assert!(refused(&loopback, "http://10.0.0.1/") && refused(&loopback, "http://acme.zendesk.com/"));

        assert_eq!(judge(&exact, "http://sandbox:9000/a"), Ok(Way::Open));
        assert_eq!(judge(&exact, "http://10.0.0.1/"), Ok(Way::Open));
        assert_eq!(judge(&exact, "http://[::1]:81/"), Ok(Way::Open));
        assert!(refused(&exact, "http://sandbox:9001/") && refused(&exact, "http://10.0.0.1:81/"));
    }

    #[tokio::test]
    async fn names_are_judged_by_what_they_resolve_to() {
        let resolve = |guard| GuardedResolver(guard).resolve("localhost".parse().unwrap());

        let refused = resolve(Guard::default()).await.err().unwrap().to_string();
        let allowed = resolve(Guard::new(&[PrivateHost::Loopback])).await;

        assert!(
            refused.contains("localhost resolves to ") && refused.ends_with("is not a public address"),
            "{refused}"
        );
        assert!(allowed.is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback())));
    }
}
