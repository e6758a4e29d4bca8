//! From a file's text to a [`Service`], or to the first thing that is wrong with it.

mod oauth;

use std::{collections::BTreeSet, time::Duration};

use holdfast_core::{
    provider::{About, AuthKind, Scope},
    visible,
    webhook::{Encoding, Signature, Stamp, StampUnit},
};
use http::{HeaderName, HeaderValue, Method};
use toml_edit::ImDocument;

use crate::{
    account::Accounts,
    answer::{Place, Target, Test},
    fault::{Fault, Written, fault},
    file::{AuthWord, EncodingWord, File, MethodWord, TestFile, WebhookFile},
    secrets,
    service::{Service, Sign},
    template::{Template, UrlTemplate, Values, Wrong, is_name},
    webhook::Hook,
};

/// Headers that are the credential's, the connection's or the body's.
const RESERVED_HEADERS: &[&str] = &[
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "proxy-authorization",
    "transfer-encoding",
];

/// Characters of what people read.
const LONGEST_WORDS: usize = 300;

const KEYS: &str = "docs/providers.md lists the keys";

/// Reads the file of this name.
pub(crate) fn read(name: &str, text: &str) -> Result<Service, Fault> {
    let document = ImDocument::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        fault(name, text, at, "the file", one_line(error.message()), "correct the TOML of that line")
    })?;
    let written = Written { file: name, text, document };
    // First of all: what serde says may repeat a value.
    if let Some(fault) = secrets::find(&written) {
        return Err(fault);
    }
    let file: File = toml_edit::de::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let said = one_line(error.message());
        let quoted = || said.split('`').nth(1).unwrap_or("the file").to_owned();
        let (key, reason, remedy) = match said.split_once(", expected ") {
            Some((start, expected)) if !start.starts_with("unknown field") => {
                // What stands before is the value.
                (written.key_at(at).unwrap_or_else(quoted), format!("expected {expected}"), "correct it")
            }
            Some(_) => (quoted(), said.clone(), "remove it or correct its name"),
            None => (quoted(), said.clone(), "set it"),
        };
        written.fault_at(at, &key, reason, format!("{remedy}; {KEYS}"))
    })?;
    Checker { written: &written, file: &file }.service()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lives as long as the process: a provider is read once, at start.
pub(crate) fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn leak_all(texts: &[String]) -> &'static [&'static str] {
    Box::leak(texts.iter().map(|text| leak(text)).collect())
}

struct Checker<'a> {
    written: &'a Written<'a>,
    file: &'a File,
}

impl Checker<'_> {
    fn wrong<T>(&self, key: &str, reason: &str, remedy: &str) -> Result<T, Fault> {
        Err(self.written.fault(key, reason, remedy))
    }

    fn at<T>(&self, key: &str, result: Result<T, Wrong>) -> Result<T, Fault> {
        result.map_err(|(reason, remedy)| self.written.fault(key, reason, remedy))
    }

    fn service(&self) -> Result<Service, Fault> {
        let file = self.file;
        self.words()?;
        let account = &file.account;
        let accounts = self.at("account.pattern", Accounts::new(&account.pattern, &account.rule, &account.example))?;
        let example = accounts
            .read(&account.example)
            .or_else(|_| self.wrong("account.example", "the pattern does not match it", "correct one of the two"))?;
        match accounts.read(&example[crate::account::ID]) {
            Ok(again) if again == example => {}
            _ => {
                let remedy = "let the pattern match the group (?<account>...) alone too, with the same groups";
                return self.wrong(
                    "account.pattern",
                    "it does not read an account's own id back as that account",
                    remedy,
                );
            }
        }
        let known: BTreeSet<&str> = accounts.names().collect();
        let test = self.test(&known)?;
        let (base_url, base_is_found) = self.base_url(&known, &test)?;
        let headers = self.headers(&known)?;
        self.all_found_is_used(&base_url, &headers)?;
        let sign = self.sign(&known)?;
        self.fills(&base_url, base_is_found, &sign, &test, &example)?;
        self.account_is_proven(&base_url, &sign, &test)?;
        Ok(Service {
            about: self.about(),
            accounts,
            base_url,
            base_is_found,
            base_url_field: file.base_url_field.clone(),
            host_suffixes: file.host_suffixes.clone(),
            closed_paths: leak_all(&file.closed_paths),
            headers,
            sign,
            test,
            webhook: file.webhook.as_ref().map(|webhook| self.webhook(webhook)).transpose()?,
        })
    }

    /// What people read, and names.
    fn words(&self) -> Result<(), Fault> {
        let file = self.file;
        let plain = file.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !plain || !(2..=40).contains(&file.id.len()) || !file.id.starts_with(|c: char| c.is_ascii_lowercase()) {
            return self.wrong("id", "it is no plain word", "write 2 to 40 small letters, digits and hyphens");
        }
        if file.id == "dir" {
            return self.wrong("id", "it is a key of [providers] in the configuration", "choose another");
        }
        let account = &file.account;
        for (key, text) in [
            ("name", &file.name),
            ("line", &file.line),
            ("account.label", &account.label),
            ("account.rule", &account.rule),
            ("account.example", &account.example),
        ] {
            self.is_for_people(key, text)?;
        }
        let others =
            [("key_help", &file.key_help), ("user_label", &file.user_label), ("user_example", &file.user_example)];
        for (key, text) in others {
            text.as_ref().map_or(Ok(()), |text| self.is_for_people(key, text))?;
        }
        for step in &file.app_steps {
            self.is_for_people("app_steps", step)?;
        }
        for (name, words) in &file.scopes {
            self.is_for_people(&format!("scopes.{name}"), words)?;
        }
        if file.closed_paths.iter().any(|path| path.trim_matches('/').is_empty()) {
            return self.wrong("closed_paths", "one is empty", "write a path below base_url, such as \"oauth\"");
        }
        Ok(())
    }

    /// One line, with nothing in it or around it that nobody sees: two names that look alike would be two things.
    fn is_for_people(&self, key: &str, text: &str) -> Result<(), Fault> {
        let remedy = "write what people read there";
        if text.trim().is_empty() || text.chars().any(char::is_control) || text.chars().count() > LONGEST_WORDS {
            return self.wrong(key, "it is empty, or no single line", remedy);
        }
        if text.trim() != text {
            return self.wrong(key, "it begins or ends with a space", "take that space out");
        }
        if !visible::is_line(text, LONGEST_WORDS) {
            return self.wrong(key, "it holds characters that nobody sees", "type it anew, without them");
        }
        Ok(())
    }

    fn about(&self) -> &'static About {
        let file = self.file;
        let silent = |name: &&String| !file.silent_scopes.contains(name);
        let scopes = file.scopes.keys().filter(silent);
        let scopes = scopes.map(|name| Scope { name: leak(name), words: leak(&file.scopes[name]) });
        Box::leak(Box::new(About {
            id: leak(&file.id),
            name: leak(&file.name),
            line: leak(&file.line),
            auth_kind: match file.auth {
                AuthWord::OAuth2 => AuthKind::OAuth2,
                AuthWord::ApiKey | AuthWord::Basic => AuthKind::ApiKey,
            },
            account_label: leak(&file.account.label),
            account_example: leak(&file.account.example),
            account_rule: leak(&file.account.rule),
            key_help: file.key_help.as_deref().map(leak),
            app_steps: Box::leak(file.app_steps.iter().map(|step| leak(step)).collect()),
            scopes: Box::leak(scopes.collect()),
            tools: &[],
            test_call: leak(&file.test.shown()),
        }))
    }

    /// A URL whose placeholders are known, and whose host is one that the file names.
    fn url(&self, key: &str, text: &str, known: &BTreeSet<&str>) -> Result<UrlTemplate, Fault> {
        let url = self.at(key, UrlTemplate::parse(text))?;
        self.known(key, url.names(), known)?;
        if !url.has_fixed_end() && self.file.host_suffixes.is_empty() {
            let remedy =
                "set host_suffixes to the endings that such a host may have, each with its dot: [\".okta.com\"]";
            return self.wrong(key, "the account chooses the end of its host, and no host_suffixes bound it", remedy);
        }
        Ok(url)
    }

    fn template(&self, key: &str, text: &str, known: &BTreeSet<&str>) -> Result<Template, Fault> {
        let template = self.at(key, Template::parse(text))?;
        self.known(key, template.names(), known)?;
        Ok(template)
    }

    fn known<'b>(
        &self,
        key: &str,
        mut names: impl Iterator<Item = &'b str>,
        known: &BTreeSet<&str>,
    ) -> Result<(), Fault> {
        let Some(unknown) = names.find(|name| !known.contains(name)) else { return Ok(()) };
        let reason = format!("the placeholder {{{unknown}}} is not declared");
        let known = known.iter().map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
        self.wrong(key, &reason, &format!("declared are {known}; more come from named groups of account.pattern"))
    }

    fn suffixes(&self) -> Result<(), Fault> {
        for suffix in &self.file.host_suffixes {
            let labels = suffix.strip_prefix('.').map(|rest| rest.split('.').collect::<Vec<_>>()).unwrap_or_default();
            let plain = |label: &str| {
                !label.is_empty()
                    && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            };
            if labels.len() < 2 || !labels.iter().all(|label| plain(label)) {
                let remedy = "write a dot and a domain of at least two labels: \".my.salesforce.com\"";
                return self.wrong(
                    "host_suffixes",
                    "one is no domain's ending, or of a whole top-level domain",
                    remedy,
                );
            }
        }
        Ok(())
    }

    /// With whether it is known only after the test call.
    fn base_url(&self, known: &BTreeSet<&str>, test: &Test) -> Result<(UrlTemplate, bool), Fault> {
        let file = self.file;
        self.suffixes()?;
        let with_found: BTreeSet<&str> = known.iter().copied().chain(test.find.keys().map(String::as_str)).collect();
        let url = self.url("base_url", &file.base_url, &with_found)?;
        if url.names_of_host().any(|name| test.find.contains_key(name)) {
            let remedy = "name the host in the file, or let a token answer's field name it: base_url_field";
            return self.wrong("base_url", "its host comes out of an answer of the test call", remedy);
        }
        if let Some(field) = &file.base_url_field {
            if file.host_suffixes.is_empty() {
                let remedy = "set host_suffixes to the endings that such a host may have, each with its dot";
                return self.wrong(
                    "base_url_field",
                    "an answer chooses the host, and no host_suffixes bound it",
                    remedy,
                );
            }
            if field.trim().is_empty() || file.auth != AuthWord::OAuth2 {
                return self.wrong("base_url_field", "there is no token answer with such a field", "take it out");
            }
        }
        let found = url.names().any(|name| test.find.contains_key(name));
        match (&test.target, found) {
            (Target::Path(_), true) => {
                let remedy = "write test.url in place of test.path";
                self.wrong("test.path", "base_url is known only after the test call", remedy)
            }
            (Target::Url(_), false) => {
                self.wrong("test.url", "base_url is known without it", "write test.path, below base_url")
            }
            _ => Ok((url, found)),
        }
    }

    fn test(&self, known: &BTreeSet<&str>) -> Result<Test, Fault> {
        let test = &self.file.test;
        let place = |key: &str, text: &String| {
            let wrong = || self.written.fault(&format!("test.{key}"), "it is no place in an answer", "write user.id");
            Place::parse(text).ok_or_else(wrong)
        };
        let maybe = |key: &str, text: &Option<String>| text.as_ref().map(|text| place(key, text)).transpose();
        let mut find = std::collections::BTreeMap::new();
        for (name, text) in &test.find {
            if !is_name(name) || known.contains(name.as_str()) {
                let remedy = "write small letters, digits and _, and no group of account.pattern";
                return self.wrong(&format!("test.find.{name}"), "it is no name for a placeholder", remedy);
            }
            find.insert(name.clone(), place(&format!("find.{name}"), text)?);
        }
        Ok(Test {
            method: match test.method {
                None | Some(MethodWord::Get) => Method::GET,
                Some(MethodWord::Post) => Method::POST,
            },
            target: self.target(test, known)?,
            ok: maybe("ok", &test.ok)?,
            list: maybe("list", &test.list)?,
            account: test.account.iter().map(|text| place("account", text)).collect::<Result<_, _>>()?,
            account_is: self.template("test.account_is", test.account_is.as_deref().unwrap_or("{account}"), known)?,
            account_name: maybe("account_name", &test.account_name)?,
            user_id: maybe("user_id", &test.user_id)?,
            name: maybe("name", &test.name)?,
            email: maybe("email", &test.email)?,
            role: maybe("role", &test.role)?,
            find,
        })
    }

    fn target(&self, test: &TestFile, known: &BTreeSet<&str>) -> Result<Target, Fault> {
        match (&test.path, &test.url) {
            (Some(path), None) => {
                let template = self.template("test.path", path, known)?;
                let sample = template.names().map(|name| (name.to_owned(), "a".to_owned())).collect();
                let path = template.fill(&sample).unwrap_or_default();
                if holdfast_core::api_client::checked_path(&path, None).is_err() || path.starts_with('/') {
                    let remedy = "write it without a slash at its start, without query and steps such as ..";
                    return self.wrong("test.path", "it is no plain path below base_url", remedy);
                }
                Ok(Target::Path(template))
            }
            (None, Some(url)) => Ok(Target::Url(self.url("test.url", url, known)?)),
            _ => self.wrong("test", "it has to say where it goes", "set test.path, or test.url"),
        }
    }

    fn headers(&self, known: &BTreeSet<&str>) -> Result<Vec<(HeaderName, Template)>, Fault> {
        let found = self.file.test.find.keys().map(String::as_str);
        let known: BTreeSet<&str> = known.iter().copied().chain(found).collect();
        let mut headers = Vec::new();
        for (name, text) in &self.file.headers {
            let key = format!("headers.{name}");
            let name = self.header(&key, name)?;
            let template = self.template(&key, text, &known)?;
            let sample: Values = template.names().map(|name| (name.to_owned(), "a".to_owned())).collect();
            if HeaderValue::try_from(template.fill(&sample).unwrap_or_default()).is_err() {
                return self.wrong(&key, "it holds characters that no header may hold", "correct it");
            }
            headers.push((name, template));
        }
        Ok(headers)
    }

    fn header(&self, key: &str, name: &str) -> Result<HeaderName, Fault> {
        match HeaderName::try_from(name) {
            Ok(name) if !RESERVED_HEADERS.contains(&name.as_str()) => Ok(name),
            _ => self.wrong(key, "it is no header that a file may set", "take it out"),
        }
    }

    fn all_found_is_used(&self, base_url: &UrlTemplate, headers: &[(HeaderName, Template)]) -> Result<(), Fault> {
        let used: BTreeSet<&str> =
            base_url.names().chain(headers.iter().flat_map(|(_, template)| template.names())).collect();
        match self.file.test.find.keys().find(|name| !used.contains(name.as_str())) {
            Some(name) => {
                let remedy = "use it in base_url or headers, or take it out";
                self.wrong(&format!("test.find.{name}"), "nothing uses it", remedy)
            }
            None => Ok(()),
        }
    }

    /// The example makes every URL of the file.
    fn fills(
        &self,
        base_url: &UrlTemplate,
        base_is_found: bool,
        sign: &Sign,
        test: &Test,
        example: &Values,
    ) -> Result<(), Fault> {
        let mut urls: Vec<(&str, &UrlTemplate)> = Vec::new();
        if !base_is_found {
            urls.push(("base_url", base_url));
        }
        if let Target::Url(url) = &test.target {
            urls.push(("test.url", url));
        }
        if let Sign::OAuth(oauth) = sign {
            urls.extend([("authorize_url", &oauth.authorize_url), ("token_url", &oauth.token_url)]);
            urls.extend(oauth.revoke.as_ref().map(|(_, url)| ("revoke_url", url)));
        }
        match urls.into_iter().find(|(_, url)| url.fill(example, &self.file.host_suffixes).is_none()) {
            Some((key, _)) => {
                let remedy =
                    "let its host be a name of small letters, digits and hyphens, with an ending of host_suffixes";
                self.wrong(key, "account.example makes no allowed URL of it", remedy)
            }
            None => Ok(()),
        }
    }

    /// Something ties an answer to the account that was meant.
    fn account_is_proven(&self, base_url: &UrlTemplate, sign: &Sign, test: &Test) -> Result<(), Fault> {
        let named = !self.file.test.account.is_empty();
        let in_test = match &test.target {
            Target::Path(path) => path.names().next().is_some(),
            Target::Url(_) => false,
        };
        let own_place = in_test
            || match sign {
                Sign::OAuth(oauth) => oauth.token_url.names().next().is_some(),
                Sign::Key(_) | Sign::Basic(..) => base_url.names().next().is_some(),
            };
        if self.file.account.own_name && (named || own_place) {
            return self.wrong("account.own_name", "the account is more than a name of one's own", "take it out");
        }
        if named || own_place || self.file.account.own_name {
            return Ok(());
        }
        let remedy =
            "set test.account to the fields that name the account; where there are none, say account.own_name = true";
        self.wrong("test.account", "nothing in the answer is compared with the account that is meant", remedy)
    }

    fn sign(&self, known: &BTreeSet<&str>) -> Result<Sign, Fault> {
        let file = self.file;
        if file.auth == AuthWord::OAuth2 {
            for (key, is_set) in [
                ("key_header", file.key_header.is_some()),
                ("key_help", file.key_help.is_some()),
                ("user_label", file.user_label.is_some()),
                ("user_example", file.user_example.is_some()),
            ] {
                if is_set {
                    return self.wrong(key, "it is for providers that give keys", "take it out, or correct auth");
                }
            }
            return oauth::check(self, known).map(|oauth| Sign::OAuth(Box::new(oauth)));
        }
        if let Some(key) = oauth::keys(file) {
            return self.wrong(key, "it is for OAuth", "take it out, or set auth = \"oauth2\"");
        }
        if file.key_help.as_deref().is_none_or(|help| help.trim().is_empty()) {
            return self.wrong("key_help", "it is missing", "say in words where a person finds the key");
        }
        match (file.auth, &file.key_header, &file.user_label, &file.user_example) {
            (AuthWord::ApiKey, None, None, None) => Ok(Sign::Key(None)),
            (AuthWord::ApiKey, Some(name), None, None) => Ok(Sign::Key(Some(self.header("key_header", name)?))),
            (AuthWord::Basic, None, Some(label), Some(example)) => Ok(Sign::Basic(label.clone(), example.clone())),
            (AuthWord::Basic, None, ..) => {
                let remedy = "set user_label and user_example: what the user name is called, and one";
                self.wrong("user_label", "it is missing, or user_example is", remedy)
            }
            (AuthWord::Basic, Some(_), ..) => self.wrong("key_header", "Basic has a header of its own", "take it out"),
            _ => self.wrong("user_label", "it is for auth = \"basic\", and so is user_example", "take it out"),
        }
    }

    fn webhook(&self, webhook: &WebhookFile) -> Result<Hook, Fault> {
        let header = |key: &str, name: &Option<String>| {
            name.as_ref().map(|name| self.header(&format!("webhook.{key}"), name)).transpose()
        };
        let place = |key: &str, text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            let found = Place::parse(text);
            let remedy = "write where it stands in the body, such as event.id";
            found.map(Some).map_or_else(|| self.wrong(&format!("webhook.{key}"), "it is no place", remedy), Ok)
        };
        let signed = webhook.signed.as_deref().unwrap_or("{body}");
        let Some(before) = signed.strip_suffix("{body}") else {
            let remedy = "write it as {timestamp}.{body}";
            return self.wrong("webhook.signed", "the body does not stand at its end", remedy);
        };
        self.template("webhook.signed", before, &BTreeSet::from(["delivery_id", "timestamp"]))?;
        let stamped = before.contains("{timestamp}");
        if stamped != webhook.timestamp_header.is_some() {
            let remedy = "set webhook.timestamp_header and use {timestamp} in webhook.signed, or neither";
            return self.wrong("webhook.signed", "a timestamp that is not signed proves nothing", remedy);
        }
        if !stamped && webhook.tolerance_seconds.is_some() {
            return self.wrong("webhook.tolerance_seconds", "there is no timestamp", "take it out");
        }
        let named = before.contains("{delivery_id}");
        if named && webhook.delivery_id_header.is_none() {
            let remedy = "set webhook.delivery_id_header to the header that {delivery_id} stands for";
            return self.wrong("webhook.signed", "no header has the id that is signed", remedy);
        }
        let signature_header = self.header("webhook.signature_header", &webhook.signature_header)?;
        let encoding = match webhook.encoding {
            EncodingWord::Hex => Encoding::Hex,
            EncodingWord::Base64 => Encoding::Base64,
        };
        let tolerance = Duration::from_secs(webhook.tolerance_seconds.unwrap_or(300).into());
        let stamp = header("timestamp_header", &webhook.timestamp_header)?;
        let id = header("delivery_id_header", &webhook.delivery_id_header)?.filter(|_| named);
        Ok(Hook {
            facts: Hook::facts(&self.file.name, &webhook.steps),
            signature: Signature {
                prefix: webhook.prefix.clone().into(),
                before: before.replace("{delivery_id}", "{id}").into(),
                stamp: stamp.map(|header| Stamp { header, unit: StampUnit::Seconds, tolerance }),
                id,
                ..Signature::of_body(signature_header, encoding)
            },
            event_id: place("event_id", &webhook.event_id)?,
            event_type: place("event_type", &webhook.event_type)?,
            event_type_header: header("event_type_header", &webhook.event_type_header)?,
            subject: place("subject", &webhook.subject)?,
            repeats_after: webhook.repeats_after_seconds.map(|secs| Duration::from_secs(secs.into())),
            challenge_query: webhook.challenge_query.clone(),
            challenge_field: place("challenge_field", &webhook.challenge_field)?,
        })
    }
}
