use std::{fs, time::Duration};

use figment::{error::Kind, providers::Format as _};
use holdfast_core::refresh::{Settings, schedule::ScheduleSettings};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;

use super::*;

fn from_file(text: &str) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("holdfast.toml");
    fs::write(&path, text).unwrap();
    Config::load(&Sources::default().with_file(path))
}

fn refusal(text: &str) -> String {
    let error = from_file(text).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

fn from_variables(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::load(&variables.iter().fold(Sources::default(), |all, (name, value)| all.with_variable(*name, *value)))
}

#[test]
fn the_compiled_defaults_are_those_of_the_documents() {
    let config = Config::default();

    assert_eq!(config.engine(), Settings::default());
    assert_eq!(config.schedule(), ScheduleSettings::default());
    assert_eq!(config.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(config.public_url().as_str(), "http://127.0.0.1:8080/");
    assert_eq!(config.database.url.expose_secret(), "sqlite://holdfast.sqlite");
    assert_eq!((config.database.max_connections, config.database.migrate_on_start), (16, true));
    assert_eq!((config.log.format, config.log.filter.as_deref()), (LogFormat::Pretty, None));
    assert_eq!(config.shutdown.drain, Duration::from_secs(30));
    assert!(
        config.master_key.is_none() && config.oauth_apps.is_empty() && config.network.allow_private_hosts.is_empty()
    );
}

/// The keys that a struct accepts, from what it says when it meets an unknown one.
fn keys<T: DeserializeOwned>() -> &'static [&'static str] {
    let bogus = figment::Figment::from(("no_such_key", 1));
    match bogus.extract::<T>().err().expect("an unknown key is refused").kind {
        Kind::UnknownField(_, known) => known,
        other => panic!("{other}"),
    }
}

#[test]
fn every_key_stands_in_the_compiled_file() {
    let sections = [
        ("", keys::<Config>()),
        ("[database]", keys::<Database>()),
        ("[refresh]", keys::<RefreshConfig>()),
        ("[jobs.event]", keys::<KindConfig>()),
        ("[cache]", keys::<CacheConfig>()),
        ("[lock]", keys::<LockConfig>()),
        ("[webhooks]", keys::<WebhooksConfig>()),
        ("[oauth_apps.zendesk]", keys::<OAuthAppConfig>()),
        ("[providers.zendesk]", keys::<ProviderConfig>()),
        ("[network]", keys::<NetworkConfig>()),
        ("[smtp]", keys::<SmtpConfig>()),
        ("[mail]", keys::<MailConfig>()),
        ("[sign_in.oidc]", keys::<OidcConfig>()),
        ("[operator]", keys::<OperatorConfig>()),
        ("[log]", keys::<LogConfig>()),
        ("[shutdown]", keys::<ShutdownConfig>()),
    ];
    let lines: Vec<_> = DEFAULTS.lines().map(|line| line.trim_start_matches(['#', ' '])).collect();

    for (section, keys) in sections {
        let start = lines.iter().position(|line| *line == section || section.is_empty()).expect(section);
        let of_section: Vec<_> = lines[start..].iter().skip(1).take_while(|line| !line.starts_with('[')).collect();
        for key in keys {
            let stands = of_section.iter().any(|line| line.starts_with(&format!("{key} = ")));
            let is_section = lines.iter().any(|line| line.starts_with(&format!("[{key}")));
            assert!(stands || section.is_empty() && is_section, "{section} lacks {key}");
        }
    }
}

#[test]
fn the_examples_of_the_compiled_file_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let (secret, server) = (dir.path().join("secret"), dir.path().join("server"));
    fs::write(&secret, "postgres://from/file\n").unwrap();
    fs::write(&server, "smtps://from:file@mail.example.com\n").unwrap();
    let mut section = String::new();
    let is_key = |line: &str| {
        line.split_once(" = ").is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    let uncommented: Vec<String> = DEFAULTS
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if is_key(rest) || rest.starts_with('[') => rest.to_owned(),
            _ => line.to_owned(),
        })
        // Secrets in place or in files, not both.
        .filter(|line| {
            let key = line.split(' ').next().unwrap_or_default();
            !DEFAULTS.contains(&format!("{key}_file = ")) || key.is_empty() || key == "#"
        })
        .map(|line| {
            if line.starts_with('[') {
                section.clone_from(&line);
            }
            let Some((key, _)) = line.split_once("_file = ") else { return line };
            let file = if section == "[smtp]" { &server } else { &secret };
            format!("{key}_file = {:?}", file.display().to_string())
        })
        .collect();

    let config = from_file(&uncommented.join("\n")).unwrap();

    assert_eq!(config.database.url.expose_secret(), "postgres://from/file");
    assert_eq!(config.smtp.url.unwrap().expose_secret(), "smtps://from:file@mail.example.com");
    assert_eq!(config.oauth_apps["zendesk"].client_id, "holdfast");
    assert_eq!(config.providers.by_id["zendesk"].access_token_life, Some(Duration::from_hours(1)));
}

#[test]
fn an_identity_provider_is_told_whole_or_not_at_all() {
    let told = |more: &str| {
        let base = "[sign_in.oidc]\nissuer = 'https://id.example.com'\nclient_id = 'holdfast'\n";
        from_file(&format!("{base}{more}")).map(|config| config.oidc().is_some())
    };
    assert!(told("").unwrap() && Config::default().oidc().is_none());
    assert!(told("domains = ['acme.example']\nfirst_time_org = 'Acme'\nfirst_time_role = 'viewer'").unwrap());
    for (text, words) in [
        ("[sign_in.oidc]\nissuer = 'http://id.example.com'\nclient_id = 'x'", "is no issuer"),
        ("[sign_in.oidc]\nissuer = 'id.example.com'\nclient_id = 'x'", "is no issuer"),
        ("[sign_in.oidc]\nissuer = 'https://id.example.com'", "has to be set when sign_in.oidc.issuer is"),
    ] {
        let error = from_file(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    for (more, words) in [
        ("scopes = ['email']", "have to hold openid"),
        ("name = ''", "allowed is a text"),
        ("domains = ['@acme.example']", "is no domain"),
        ("first_time_role = 'viewer'", "both are set, or neither is"),
        ("first_time_org = 'Acme'\nfirst_time_role = 'owner'", "nobody becomes an owner"),
        ("second_factor = 'none'", "second_factor"),
    ] {
        let error = told(more).unwrap_err().to_string();
        assert!(error.contains(words), "{more}: {error}");
    }
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("holdfast.toml");
    fs::write(&path, "listen = '127.0.0.1:2'\n[database]\nmax_connections = 2\n[refresh]\nbatch = 2").unwrap();
    let sources = Sources::default()
        .with_file(path)
        .with_variable("HOLDFAST_DATABASE__MAX_CONNECTIONS", "3")
        .with_variable("HOLDFAST_LISTEN", "127.0.0.1:3")
        .with_variable("HOLDFAST_LOG__FILTER", "")
        .with_flag("--listen", "listen", "127.0.0.1:4");

    let config = Config::load(&sources).unwrap();

    assert_eq!((config.listen.port(), config.database.max_connections, config.refresh.batch), (4, 3, 2));
}

#[test]
fn the_environment_reaches_every_kind_of_value() {
    let config = from_variables(&[
        ("HOLDFAST_REFRESH__LEASE_SECS", "40.5"),
        ("HOLDFAST_REFRESH__MARGIN_SHARE", "0.2"),
        ("HOLDFAST_DATABASE__MIGRATE_ON_START", "false"),
        ("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_ID", "00123"),
        ("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_SECRET", "1e5"),
        ("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_SECRET_EXPIRES_AT", "2027-01-31"),
        ("HOLDFAST_PROVIDERS__ZENDESK__BASE_URL_OVERRIDE", "http://127.0.0.1:9400"),
        ("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS", "loopback, sandbox:9000"),
        ("HOLDFAST_OPERATOR__EMAILS", "[\"a@example.com\", \"b@example.com\"]"),
        ("HOLDFAST_LOG__FORMAT", "json"),
        ("HOLDFAST_CONFIG", "ignored here"),
    ])
    .unwrap();

    assert_eq!(config.refresh.lease, Duration::from_millis(40_500));
    assert!((config.refresh.margin_share - 0.2).abs() < f64::EPSILON);
    assert!(!config.database.migrate_on_start);
    let app = config.oauth_apps["zendesk"].app();
    assert_eq!((app.client_id.as_str(), app.client_secret.unwrap().expose_secret()), ("00123", "1e5"));
    assert_eq!(
        config.oauth_apps["zendesk"].client_secret_expires_at.unwrap().to_rfc3339(),
        "2027-01-31T00:00:00+00:00"
    );
    let hosts = [PrivateHost::Loopback, PrivateHost::Exactly(Host::Domain("sandbox".to_owned()), 9000)];
    assert_eq!(config.network.allow_private_hosts, hosts);
    assert_eq!(config.operator.emails, ["a@example.com", "b@example.com"]);
    assert_eq!(config.log.format, LogFormat::Json);
}

/// Each as a text, which is all that an environment has.
#[test]
fn every_value_of_the_compiled_file_can_be_said_in_the_environment() {
    fn flat(at: &str, value: &serde_json::Value, found: &mut Vec<(String, String)>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    let between = if at.is_empty() { "" } else { "__" };
                    flat(&format!("{at}{between}{}", name.to_uppercase()), value, found);
                }
            }
            serde_json::Value::String(text) => found.push((at.to_owned(), text.clone())),
            serde_json::Value::Array(items) if items.is_empty() => {}
            other => found.push((at.to_owned(), other.to_string())),
        }
    }
    let compiled =
        figment::Figment::from(figment::providers::Toml::string(include_str!("../../../../config/default.toml")));
    let mut found = Vec::new();
    flat("", &compiled.extract().unwrap(), &mut found);
    assert!(found.len() > 60, "{}", found.len());
    for (name, value) in found {
        let name = format!("HOLDFAST_{name}");
        if let Err(error) = from_variables(&[(&name, &value)]) {
            panic!("{name}={value}: {error}");
        }
    }
}

#[test]
fn an_unknown_key_is_named_with_its_source_and_what_is_allowed() {
    let file = refusal("[refresh]\nlease_sec = 3");
    let variable = from_variables(&[("HOLDFAST_REFRESH__LEASE_SEC", "3")]).unwrap_err().to_string();
    let top = from_variables(&[("HOLDFAST_LISTENN", "3")]).unwrap_err().to_string();
    let flag = Config::load(&Sources::default().with_flag("--listen", "listen", "8080")).unwrap_err().to_string();

    assert!(
        file.contains("holdfast.toml: refresh.lease_sec: there is no such key; the keys here are lease_secs, "),
        "{file}"
    );
    assert!(variable.starts_with("HOLDFAST_REFRESH__LEASE_SEC: refresh.lease_sec: there is no such key"), "{variable}");
    assert!(top.starts_with("HOLDFAST_LISTENN: listenn: there is no such key; the keys here are listen, "), "{top}");
    assert_eq!(
        flag,
        "--listen: listen: string \"8080\" is not usable; allowed is an IP address and port, such as 127.0.0.1:8080"
    );
}

#[test]
fn bad_values_are_named_with_what_is_allowed() {
    for (text, key, allowed) in [
        ("listen = 'localhost'", "listen", "IP address and port"),
        ("listen = '0.0.0.0:8080'", "public_url", "has to be set"),
        ("public_url = 'holdfast.example.com'", "public_url", "http(s) URL"),
        ("public_url = 'https://holdfast.example.com/app'", "public_url", "scheme, host and port"),
        ("public_url = 'https://holdfast.example.com/?a=1'", "public_url", "scheme, host and port"),
        ("public_url = 'http://holdfast.example.com'", "public_url", "https"),
        ("[jobs]\nlease_secs = 4", "jobs.lease_secs", "allowed is 5 s and more"),
        ("[jobs]\nbackoff_cap_secs = 1", "jobs.backoff_cap_secs, jobs.backoff_base_secs", "must be at least the first"),
        ("[jobs]\nat_once = 0", "jobs.at_once", "allowed is 1 to 1000"),
        ("[sync]\nevery_secs = 59", "sync.every_secs", "60 s to a day"),
        ("[sync]\nenabled = 'maybe'", "sync.enabled", "true or false"),
        ("[sync]\nfirst_days = 0", "sync.first_days", "allowed is 1 to 3650"),
        ("[sync]\nslice_secs = 0", "sync.slice_secs", "allowed is 1 s and more"),
        ("[sync]\nslice_secs = 500", "sync.slice_secs, jobs.longest_attempt_secs", "at most half"),
        ("[sync]\nsearch_within_secs = 60", "sync.search_within_secs, sync.every_secs", "0 (never)"),
        ("[jobs.sync]\nper_connector = 0", "jobs.sync.per_connector", "allowed is 1 to 1000"),
        ("[database]\nurl = 'mysql://x'", "database.url", "sqlite://FILE or postgres://"),
        ("[database]\nlisten_url = 'postgres://x/y'", "database.listen_url", "PostgreSQL"),
        ("[database]\nmax_connections = 0", "database.max_connections", "1 to 1000"),
        ("[database]\nmax_connections = 1.5", "database.max_connections", "a whole number"),
        ("[database]\nmigrate_on_start = 'maybe'", "database.migrate_on_start", "true or false"),
        ("[refresh]\nlease_secs = 'soon'", "refresh.lease_secs", "a number of seconds"),
        ("[refresh]\nlease_secs = -1", "refresh.lease_secs", "a number of seconds"),
        ("[refresh]\nlease_secs = nan", "refresh.lease_secs", "a number of seconds"),
        ("[refresh]\nlease_secs = 22", "refresh.lease_secs, refresh.exchange_timeout_secs", "must be longer"),
        ("[refresh]\nwait_bound_secs = 0", "refresh.wait_bound_secs", "above 0"),
        ("[refresh]\nmargin_share = 0.6", "refresh.margin_share", "up to 0.5"),
        ("[refresh]\nmargin_share = 0", "refresh.margin_share", "above 0"),
        ("[refresh]\nmargin_floor_secs = 601", "refresh.margin_floor_secs, refresh.margin_cap_secs", "not be above"),
        ("[refresh]\nbackoff_cap_secs = 0.5", "refresh.backoff_base_secs, refresh.backoff_cap_secs", "not be above"),
        ("[refresh]\nbatch = 0", "refresh.batch", "1 to 10000"),
        ("[lock]\nbackend = 'redis'", "lock.backend, lock.redis_url", "redis://USER:PASSWORD@HOST"),
        ("[lock]\nbackend = 'redis'\nredis_url = 'http://x'", "lock.redis_url", "redis://USER:PASSWORD@HOST"),
        (
            "[lock]\nbackend = 'redis'\nredis_url = 'redis://x'\nredis_timeout_secs = 13",
            "lock.redis_timeout_secs, refresh.wait_bound_secs",
            "up to half",
        ),
        ("[lock]\nredis_timeout_secs = -1", "lock.redis_timeout_secs", "a number of seconds"),
        ("[lock]\nbackend = 'file'", "lock.backend", "database"),
        ("[oauth_apps.zendesk]\nclient_secret = 'x'", "oauth_apps.zendesk.client_id", "missing"),
        ("[providers.zendesk]\nbase_url_override = 'ftp://x'", "providers.zendesk.base_url_override", "http(s)"),
        ("[providers.zendesk]\nbase = 1", "providers.zendesk.base", "base_url_override"),
        ("[providers.zendesk]\naccess_token_life_secs = 0", "providers.zendesk.access_token_life_secs", "above 0"),
        ("[network]\nallow_private_hosts = ['10.0.0.1']", "network.allow_private_hosts", "HOST:PORT"),
        ("[smtp]\nurl = 'mail.example.com'", "smtp.url", "allowed is smtps://"),
        ("[smtp]\nurl = 'smtp://u:hunter2@mail.example.com'", "smtp.url", "in the clear"),
        ("[smtp]\nurl = 'smtps://mail.example.com'", "mail.from, smtp.url", "has to be set"),
        ("[mail]\nfrom = 'nobody'", "mail.from", "no address"),
        ("[mail]\nreply_to = 'A <b> <c@d>'", "mail.reply_to", "no address"),
        ("[mail]\nsend_timeout_secs = 0", "mail.send_timeout_secs", "above 0"),
        ("[mail]\nretry_cap_secs = 1", "mail.retry_base_secs, mail.retry_cap_secs", "not be above"),
        ("[mail]\ngive_up_after_secs = 1", "mail.retry_cap_secs, mail.give_up_after_secs", "not be above"),
        ("[operator]\nemails = ['somebody']", "operator.emails", "e-mail"),
        ("[log]\nformat = 'xml'", "log.format", "\"pretty\" or \"json\""),
        ("[log]\nfilter = 'a=b=c'", "log.filter", "allowed is a level"),
        ("[proxy]\ntimeout_secs = 0", "proxy.timeout_secs", "above 0"),
        ("[proxy]\nbuffer_kib = 16385", "proxy.buffer_kib", "0 to 16384"),
        ("[shutdown]\ndrain_secs = 1", "shutdown.drain_secs, refresh.exchange_timeout_secs", "at least"),
    ] {
        let error = refusal(text);

        assert!(
            error.contains(&format!("holdfast.toml: {key}")) || error.contains("public_url, listen"),
            "{text}: {error}"
        );
        assert!(error.contains(allowed), "{text}: {error}");
    }
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_its_line() {
    let error = refusal("listen = '127.0.0.1:1'\n[refresh\n");

    assert!(error.contains("holdfast.toml: line 2: "), "{error}");
}

#[test]
fn a_named_file_must_exist() {
    let error = Config::load(&Sources::default().with_file("/nowhere/holdfast.toml")).unwrap_err().to_string();

    assert!(error.starts_with("/nowhere/holdfast.toml: cannot be read: "), "{error}");
}

#[test]
fn private_hosts_are_refused_on_a_public_instance() {
    let public = [
        ("HOLDFAST_PUBLIC_URL", "https://holdfast.example.com"),
        ("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS", "loopback"),
    ];
    let local =
        [("HOLDFAST_PUBLIC_URL", "http://localhost:8080"), ("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS", "loopback")];

    let error = from_variables(&public).unwrap_err().to_string();

    assert!(
        error.starts_with("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS: network.allow_private_hosts, public_url: "),
        "{error}"
    );
    assert!(from_variables(&local).is_ok());
}

#[test]
fn a_secret_is_read_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    fs::write(&path, "hfmk_from_file\n").unwrap();
    let text = format!("master_key_file = {:?}", path.display().to_string());

    let config = from_file(&text).unwrap();
    let both = refusal(&format!("{text}\nmaster_key = 'hfmk_here'"));
    fs::write(&path, "\n").unwrap();
    let empty = refusal(&text);
    fs::remove_file(&path).unwrap();
    let gone = refusal(&text);

    assert_eq!(config.master_key.unwrap().expose_secret(), "hfmk_from_file");
    assert!(both.contains("master_key_file: master_key is set too"), "{both}");
    assert!(empty.contains("holdfast.toml: master_key_file: ") && empty.ends_with("is empty"), "{empty}");
    assert!(gone.contains("cannot be read"), "{gone}");
}

#[test]
fn secrets_show_neither_in_debug_nor_in_errors() {
    let config = from_file(
        "master_key = 'hfmk_hush'\n[database]\nurl = 'postgres://a:hush@db/x?sslpassword=hush'\n\
         [oauth_apps.zendesk]\nclient_id = 'id'\nclient_secret = 'hush'\nnext_client_secret = 'hush'\n\
         [lock]\nbackend = 'redis'\nredis_url = 'redis://a:hush@x'",
    )
    .unwrap();
    let errors = [
        refusal("master_key = 4815162342"),
        refusal("[oauth_apps.zendesk]\nclient_id = 'x'\nclient_secret = 4815162342"),
        refusal("[database]\nurl = 'mysql://a:4815162342@x'"),
        refusal("[lock]\nbackend = 'redis'\nredis_url = 'http://a:4815162342@x'"),
    ];

    assert!(!format!("{config:?}").contains("hush"));
    assert_eq!(config.database.shown_url(), "postgres://a@db/x");
    assert!(errors.iter().all(|error| !error.contains("4815162342")), "{errors:?}");
}

#[test]
fn service_links_of_kubernetes_are_no_settings() {
    let config = from_variables(&[
        ("HOLDFAST_SERVICE_HOST", "10.0.0.1"),
        ("HOLDFAST_PORT", "tcp://10.0.0.1:8080"),
        ("HOLDFAST_PORT_8080_TCP_PROTO", "tcp"),
    ]);

    assert!(config.is_ok());
}
