//! What a file may say, and what stops the start.

use holdfast_core::provider::{Auth, AuthKind};

use super::*;

/// A file that is right, to be spoiled.
pub(crate) const GOOD: &str = r#"id = "acme"
name = "Acme"
line = "Made up"
auth = "oauth2"
base_url = "https://{account}.acme.test/api"
authorize_url = "https://{account}.acme.test/authorize"
token_url = "https://{account}.acme.test/token"

[account]
label = "Acme name"
example = "tidewater"
rule = "the first part of your address"
pattern = '^(?<account>[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)$'

[scopes]
"read" = "Read"

[test]
path = "me"
user_id = "id"
"#;

fn fault(text: &str) -> Fault {
    Declared::read("acme.toml", text).expect_err(text)
}

#[test]
fn every_shipped_file_is_right_and_is_named_by_its_id() {
    for (name, text) in SHIPPED {
        let provider = Declared::read(name, text).unwrap_or_else(|fault| panic!("{fault}"));
        let about = provider.about();
        assert_eq!(*name, format!("config/providers/{}.toml", about.id));
        let account = provider.account(about.account_example).unwrap_or_else(|invalid| panic!("{name}: {invalid}"));
        assert_eq!(provider.account(&account.id).as_ref(), Ok(&account), "{name}: its own id");
        match provider.auth(&account) {
            Auth::OAuth2(facts) => {
                assert_eq!(about.auth_kind, AuthKind::OAuth2);
                assert!([&facts.authorize_url, &facts.token_url].iter().all(|url| url.scheme() == "https"), "{name}");
            }
            Auth::ApiKey(_) => assert_eq!(about.auth_kind, AuthKind::ApiKey),
        }
    }
    assert_eq!(SHIPPED.len(), 17);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_line_key_reason_and_remedy() {
    let line = |needle: &str| 1 + GOOD[..GOOD.find(needle).unwrap()].matches('\n').count();
    for (from, to, key, said) in [
        ("line = ", "lime = ", "lime", "unknown field"),
        ("[test]", "[test]\nuser = \"x\"", "user", "unknown field"),
        ("id = \"acme\"", "id = \"Acme\"", "id", "no plain word"),
        ("id = \"acme\"", "id = 7", "id", "expected a string"),
        ("auth = \"oauth2\"", "auth = \"saml\"", "auth", "expected one of"),
        ("'^(?<account>", "'(?<account>", "account.pattern", "not anchored"),
        ("?)$'", "?)'", "account.pattern", "not anchored"),
        ("'^(?<account>[a-z0-9]", "'^(?<account>[a-z0-9", "account.pattern", "cannot be read"),
        ("\"tidewater\"", "\"tide water\"", "account.example", "does not match"),
        ("https://{account}.acme.test/token", "http://{account}.acme.test/token", "token_url", "https://"),
        (
            "https://{account}.acme.test/token",
            "https://{tenant}.acme.test/token",
            "token_url",
            "{tenant} is not declared",
        ),
        ("https://{account}.acme.test/token", "https://{account}.test/token", "token_url", "no host_suffixes"),
        ("https://{account}.acme.test/token", "https://acme.test:8443/token", "token_url", "no plain name"),
        ("https://{account}.acme.test/api", "https://{account}.acme.test/api?x", "base_url", "more than host and path"),
        ("auth = \"oauth2\"", "auth = \"oauth2\"\nbase_url_field = \"api\"", "base_url_field", "no host_suffixes"),
        ("auth = \"oauth2\"", "auth = \"oauth2\"\nhost_suffixes = [\".com\"]", "host_suffixes", "top-level"),
        ("auth = \"oauth2\"", "auth = \"oauth2\"\nclient_secret = \"x\"", "client_secret", "a secret"),
        ("\"Made up\"", "\"sk_live_abcdefghijkl\"", "line", "looks like a secret"),
        ("auth = \"oauth2\"", "auth = \"api_key\"", "authorize_url", "for OAuth"),
        ("auth = \"oauth2\"", "auth = \"oauth2\"\nrefresh_idle_days = 0", "refresh_idle_days", "3660"),
        ("auth = \"oauth2\"", "auth = \"oauth2\"\nscope_separator = \";\"", "scope_separator", "neither"),
        ("auth = \"oauth2\"", "auth = \"oauth2\"\nsilent_scopes = [\"x\"]", "silent_scopes", "not among"),
        ("[test]", "[authorize_params]\nstate = \"x\"\n[test]", "authorize_params.state", "itself"),
        ("[test]", "[headers]\nHost = \"x\"\n[test]", "headers.Host", "no header"),
        ("path = \"me\"", "path = \"../me\"", "test.path", "no plain path"),
        ("path = \"me\"", "", "test", "where it goes"),
        ("user_id = \"id\"", "user_id = \"a..b\"", "test.user_id", "no place"),
        ("user_id = \"id\"", "user_id = \"id\"\nfind = {x = \"y\"}", "test.find.x", "nothing uses it"),
        (
            "user_id = \"id\"",
            "user_id = \"id\"\n[webhook]\nsignature_header = \"x\"\nencoding = \"hex\"\nsigned = \"{timestamp}{body}\"",
            "webhook.signed",
            "timestamp",
        ),
        ("[scopes]", "[scopes", "the file", ""),
        ("\"Acme\"", "\"Acme \"", "name", "begins or ends with a space"),
        ("\"Acme\"", "\"\u{a0}Acme\"", "name", "begins or ends with a space"),
        ("\"Acme\"", "\"Ac\u{200b}me\"", "name", "nobody sees"),
        ("\"Acme\"", "\"\u{202e}emcA\"", "name", "nobody sees"),
        ("\"Acme\"", "\"\u{3164}\"", "name", "nobody sees"),
        ("\"Acme\"", "\"Ac\\nme\"", "name", "no single line"),
        ("\"Acme name\"", "\"Acme\u{ad} name\"", "account.label", "nobody sees"),
        ("\"Read\"", "\"Read \"", "scopes.read", "begins or ends with a space"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let fault = fault(&text);
        assert_eq!(fault.key, key, "{fault}");
        assert!(fault.reason.contains(said), "{fault}");
        assert!(!fault.remedy.is_empty() && !fault.to_string().contains('\n'), "{fault}");
        assert!(!fault.to_string().contains("sk_live"), "{fault}");
        let near = text.lines().nth(fault.line - 1).unwrap_or_default();
        let last = key.rsplit('.').next().unwrap();
        let whole = matches!(key, "the file" | "test");
        assert!(whole || near.contains(last), "{fault}: line {} is {near}", fault.line);
    }
    assert_eq!(fault(&GOOD.replace("lime", "line").replace("line = ", "lime = ")).line, line("line = "));
}

#[test]
fn an_account_that_nothing_proves_is_refused_unless_the_file_says_so() {
    let fixed = GOOD.replace("{account}.acme.test", "api.acme.test");
    assert_eq!(fault(&fixed).key, "test.account");
    let own = fixed.replace("[scopes]", "own_name = true\n[scopes]");
    assert!(Declared::read("acme.toml", &own).is_ok());
    let named = fixed.replace("user_id", "account = [\"id\"]\nuser_id");
    assert!(Declared::read("acme.toml", &named).is_ok());
    assert_eq!(fault(&GOOD.replace("[scopes]", "own_name = true\n[scopes]")).key, "account.own_name");
}

#[test]
fn a_host_never_comes_out_of_an_answer_or_an_account_without_a_list() {
    let found = GOOD
        .replace("https://{account}.acme.test/api", "https://{shard}.acme.test/api")
        .replace("path = \"me\"", "url = \"https://{account}.acme.test/me\"\nfind = {shard = \"shard\"}");
    let refused = fault(&found);
    assert_eq!((refused.key.as_str(), refused.reason.contains("out of an answer")), ("base_url", true), "{refused}");
}

#[test]
fn the_operators_substitute_takes_every_host() {
    let here = Declared::read("acme.toml", GOOD).unwrap().with_base("http://127.0.0.1:9000/generic/").unwrap();
    let account = here.account("tidewater").unwrap();
    let there = "http://127.0.0.1:9000/generic/tidewater.acme.test";
    assert_eq!(account.base_url.as_str(), format!("{there}/api"));
    let Auth::OAuth2(facts) = here.auth(&account) else { panic!("it is OAuth") };
    assert_eq!(facts.authorize_url.as_str(), format!("{there}/authorize"));
    assert_eq!(facts.token_url.as_str(), format!("{there}/token"));
    for bad in ["", "x", "ftp://x.test", "http://u:secret@x.test/", "http://x.test/?a", "http://x.test/{account}"] {
        let refused = Declared::read("acme.toml", GOOD).unwrap().with_base(bad).unwrap_err();
        assert!(refused.message.contains("http://127.0.0.1:9000/generic") && !refused.message.contains("secret"));
    }
}

#[test]
fn a_callback_about_another_account_is_refused_before_its_code_is_spent() {
    let text = SHIPPED.iter().find(|(name, _)| name.ends_with("/zoho.toml")).unwrap();
    let zoho = Declared::read(text.0, text.1).unwrap();
    let account = zoho.account("crm.zoho.eu/crm/org20071234567").unwrap();
    let check = |pairs: &[(&str, &str)]| {
        let query: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        zoho.check_callback(&account, &query, &[])
    };
    let name = "accounts-server";
    assert_eq!(check(&[("code", "c"), (name, "https://accounts.zoho.eu")]), Ok(()));
    assert_eq!(check(&[(name, "https://accounts.zoho.eu/")]), Ok(()));
    for other in ["https://accounts.zoho.com", "https://evil.test", "https://accounts.zoho.eu.evil.test", ""] {
        let Err(CallbackRefused::OtherAccount(got)) = check(&[(name, other)]) else { panic!("{other} is let in") };
        assert_eq!(got.display, "another account");
    }
    for unproven in [&[][..], &[(name, "https://accounts.zoho.eu"), (name, "https://evil.test")]] {
        assert!(matches!(check(unproven), Err(CallbackRefused::NotProven(_))));
    }
}

#[test]
fn the_example_of_the_documents_is_right_and_every_key_is_explained_there() {
    let documents = include_str!("../../../docs/providers.md");
    let (_, rest) = documents.split_once("<!-- example -->\n```toml\n").expect("there is an example");
    let example = rest.split_once("```\n<!-- /example -->").expect("it has an end").0;
    let acme = Declared::read("docs/providers.md", example).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(acme.account("https://tidewater.acmedesk.com/").unwrap().id, "tidewater");
    assert!(!acme.webhooks().is_empty());

    // What serde says of an unknown key lists all others.
    for (text, table) in [
        (format!("{GOOD}\n").replace("id = \"acme\"", "id = \"acme\"\nno_such_key = 1"), ""),
        (GOOD.replace("[test]", "[test]\nno_such_key = 1"), "test"),
        (GOOD.replace("[account]", "[account]\nno_such_key = 1"), "account"),
        (format!("{GOOD}[webhook]\nno_such_key = 1\n"), "webhook"),
    ] {
        let reason = fault(&text).reason;
        let known: Vec<_> = reason.split('`').skip(3).step_by(2).collect();
        assert!(known.len() > 4, "{reason}");
        for key in known {
            let said = [format!("`{key}`"), format!("`{table}.{key}`"), format!("`.{key}`"), format!("`{key}.")];
            assert!(said.iter().any(|said| documents.contains(said.as_str())), "{table}.{key} is not explained");
        }
    }
}
