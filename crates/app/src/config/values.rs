//! How single values are read. The environment knows only text, so every number, switch and list is read from text too.

use std::{fmt, marker::PhantomData, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IntoDeserializer as _, SeqAccess, Unexpected, Visitor},
};

/// What a file or the environment may hold.
pub(super) enum Scalar<'a> {
    Text(&'a str),
    Number(f64),
    Switch(bool),
}

struct Expect<T, F> {
    expected: &'static str,
    read: F,
    result: PhantomData<T>,
}

impl<T, F: FnOnce(Scalar<'_>) -> Option<T>> Expect<T, F> {
    fn run<E: Error>(self, scalar: Scalar<'_>, shown: Unexpected<'_>) -> Result<T, E> {
        (self.read)(scalar).ok_or_else(|| E::invalid_value(shown, &self.expected))
    }
}

#[expect(clippy::cast_precision_loss, reason = "no setting comes near 2^53")]
impl<T, F: FnOnce(Scalar<'_>) -> Option<T>> Visitor<'_> for Expect<T, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        self.run(Scalar::Switch(value), Unexpected::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        self.run(Scalar::Number(value as f64), Unexpected::Signed(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        self.run(Scalar::Number(value as f64), Unexpected::Unsigned(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        self.run(Scalar::Number(value), Unexpected::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        self.run(Scalar::Text(value.trim()), Unexpected::Str(value))
    }
}

/// Reads one value; `expected` says in words what is allowed.
pub(super) fn scalar<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &'static str,
    read: impl FnOnce(Scalar<'_>) -> Option<T>,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(Expect { expected, read, result: PhantomData })
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        let inner = value.trim();
        let inner = inner.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(inner);
        let items = inner.split(',').map(|item| item.trim().trim_matches(['"', '\'']));
        Ok(items.filter(|item| !item.is_empty()).map(str::to_owned).collect())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(all)
    }
}

/// Reads a list of texts.
pub(super) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(List)
}

/// Reads a list of durations in seconds.
pub(super) fn list_of_secs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
    deserializer.deserialize_any(Durations)
}

struct Durations;

#[derive(Deserialize)]
#[serde(transparent)]
struct Secs(#[serde(deserialize_with = "parsed::secs")] Duration);

impl<'de> Visitor<'de> for Durations {
    type Value = Vec<Duration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers of seconds, such as [5, 300]")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        let secs = |text: String| {
            parsed::secs(text.as_str().into_deserializer())
                .map_err(|_: E| E::invalid_value(Unexpected::Str(value), &self))
        };
        List.visit_str(value)?.into_iter().map(secs).collect()
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Secs(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all)
    }
}

/// Required values.
pub(super) mod parsed {
    use std::{net::SocketAddr, time::Duration};

    use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
    use secrecy::SecretString;
    use serde::Deserializer;
    use url::Url;

    use super::{Scalar, scalar};

    /// A year: nothing here lasts longer, and sums stay far from any overflow.
    const MOST_SECS: f64 = 366.0 * 86_400.0;

    pub(in crate::config) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        scalar(deserializer, "a number", |value| match value {
            Scalar::Number(number) => Some(number),
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Switch(_) => None,
        })
    }

    pub(in crate::config) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        scalar(deserializer, "a whole number", |value| match value {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the guard keeps it in range")]
            Scalar::Number(number) if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) => {
                Some(number as u32)
            }
            Scalar::Text(text) => text.parse().ok(),
            _ => None,
        })
    }

    pub(in crate::config) fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
        scalar(deserializer, "true or false", |value| match value {
            Scalar::Switch(switch) => Some(switch),
            Scalar::Text("true" | "1" | "yes" | "on") => Some(true),
            Scalar::Text("false" | "0" | "no" | "off") => Some(false),
            _ => None,
        })
    }

    pub(in crate::config) fn secs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        scalar(deserializer, "a number of seconds, such as 30 or 0.5", |value| {
            let secs: f64 = match value {
                Scalar::Number(number) => number,
                Scalar::Text(text) => text.parse().ok()?,
                Scalar::Switch(_) => return None,
            };
            (0.0..=MOST_SECS).contains(&secs).then(|| Duration::from_secs_f64(secs))
        })
    }

    pub(in crate::config) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
        scalar(deserializer, "an IP address and port, such as 127.0.0.1:8080", |value| match value {
            Scalar::Text(text) => text.parse().ok(),
            _ => None,
        })
    }

    pub(in crate::config) fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
        scalar(deserializer, "an http(s) URL", |value| match value {
            Scalar::Text(text) => Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https")),
            _ => None,
        })
    }

    /// A URL that may hold `{account}`.
    pub(in crate::config) fn url_template<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        scalar(deserializer, "an http(s) URL, with {account} where the account goes", |value| {
            let Scalar::Text(text) = value else { return None };
            let filled = Url::parse(&text.replace("{account}", "account")).ok()?;
            matches!(filled.scheme(), "http" | "https").then(|| text.to_owned())
        })
    }

    pub(in crate::config) fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
        scalar(deserializer, "a moment in quotes, such as \"2027-01-31T00:00:00Z\" or \"2027-01-31\"", |value| {
            let Scalar::Text(text) = value else { return None };
            let exact = DateTime::parse_from_rfc3339(text).ok().map(|moment| moment.to_utc());
            exact.or_else(|| Some(text.parse::<NaiveDate>().ok()?.and_time(NaiveTime::MIN).and_utc()))
        })
    }

    pub(in crate::config) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        scalar(deserializer, "a text", |value| match value {
            Scalar::Text(text) if !text.is_empty() => Some(text.to_owned()),
            _ => None,
        })
    }

    pub(in crate::config) fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
        text(deserializer).map(SecretString::from)
    }
}

/// The same where the key may be absent.
pub(super) mod optional {
    use super::parsed;

    macro_rules! optional {
        ($($name:ident: $type:ty),* $(,)?) => {$(
            pub(in crate::config) fn $name<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<$type>, D::Error> {
                parsed::$name(d).map(Some)
            }
        )*};
    }

    optional! {
        number: f64,
        whole: u32,
        secs: std::time::Duration,
        url: url::Url,
        url_template: String,
        moment: chrono::DateTime<chrono::Utc>,
        text: String,
        secret: secrecy::SecretString,
    }
}
