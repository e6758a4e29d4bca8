//! A mail server, spoken to over SMTP. Which step failed decides what follows, so the steps are taken here one by one.

use std::{sync::Mutex, time::Duration};

use anyhow::Context;
use async_trait::async_trait;
use lettre::{
    Address,
    transport::smtp::{
        Error,
        authentication::{Credentials, Mechanism},
        client::{AsyncSmtpConnection, Certificate, TlsParameters},
        commands::{Data, Mail, Rcpt, Rset},
        extension::{ClientId, Extension, MailParameter},
    },
};
use secrecy::ExposeSecret;
use url::{Host, Url};

use super::{
    Failure, FailureKind, Outgoing, Transport,
    server_url::{Security, ServerUrl},
    text::line,
};
use crate::config::Config;

/// Reaching a server that is there takes no longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Of the server's own words.
const WORDS: usize = 160;
/// There is no such mailbox, system or address, it has moved, takes none (RFC 7505), or is closed.
const NOBODY: [&str; 6] = ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"];
/// What is offered is tried in this order.
const MECHANISMS: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];

/// The configured mail server. Connections are kept until nothing follows.
pub struct Smtp {
    server: ServerUrl,
    tls: TlsParameters,
    hello: ClientId,
    timeout: Duration,
    idle: Mutex<Vec<AsyncSmtpConnection>>,
}

impl Smtp {
    /// The one that the configuration names, if it names one. The URL has been checked; what can still be wrong is the
    /// file with certificates.
    pub fn from_config(config: &Config) -> anyhow::Result<Option<Self>> {
        let Some(url) = &config.smtp.url else { return Ok(None) };
        let server = ServerUrl::parse(url).map_err(|problem| anyhow::anyhow!("smtp.url: {problem}"))?;
        let mut tls = TlsParameters::builder(server.host.clone());
        if let Some(path) = &config.smtp.ca_file {
            let read = || format!("smtp.ca_file: {} cannot be read as certificates in PEM", path.display());
            let pem = std::fs::read(path).with_context(read)?;
            tls = tls.add_root_certificate(Certificate::from_pem(&pem).with_context(read)?);
        }
        let tls = tls.build().context("the certificates of this system cannot be read")?;
        Ok(Some(Self {
            server,
            tls,
            hello: hello(&config.public_url()),
            timeout: config.mail.send_timeout,
            idle: Mutex::default(),
        }))
    }

    /// Host and port, for people.
    pub fn shown(&self) -> String {
        self.server.shown()
    }

    async fn open(&self) -> Result<AsyncSmtpConnection, Failure> {
        let down = |what: &str, error: &Error| {
            Failure::new(FailureKind::Server, format!("{} {what}: {}", self.server.shown(), words(error)))
        };
        let implicit = (self.server.security == Security::Tls).then(|| self.tls.clone());
        let address = (self.server.host.as_str(), self.server.port);
        let timeout = Some(CONNECT_TIMEOUT.min(self.timeout));
        let mut connection = AsyncSmtpConnection::connect_tokio1(address, timeout, &self.hello, implicit, None)
            .await
            .map_err(|error| down("cannot be reached", &error))?;
        let start_tls = match self.server.security {
            Security::StartTls => true,
            Security::Opportunistic => connection.can_starttls(),
            Security::Clear | Security::Tls => false,
        };
        if start_tls {
            let secured = connection.starttls(self.tls.clone(), &self.hello).await;
            secured.map_err(|error| down("cannot be spoken to in private", &error))?;
        }
        if let Some((user, password)) = &self.server.credentials {
            let credentials = Credentials::new(user.clone(), password.expose_secret().to_owned());
            if let Err(error) = connection.auth(&MECHANISMS, &credentials).await {
                connection.abort().await;
                // Not the server's own words: some repeat what they were told.
                let what = match error.status() {
                    Some(code) if error.is_permanent() => format!("refuses the user or password of smtp.url ({code})"),
                    Some(code) => format!("takes no sign-in at the moment ({code})"),
                    None if error.is_client() => {
                        "offers no way to sign in that is known here (PLAIN, LOGIN)".to_owned()
                    }
                    None => "did not finish the sign-in".to_owned(),
                };
                return Err(Failure::new(FailureKind::Server, format!("{} {what}", self.server.shown())));
            }
        }
        Ok(connection)
    }

    /// One that rests, if it still answers, or a new one.
    async fn connection(&self) -> Result<AsyncSmtpConnection, Failure> {
        loop {
            let rested = self.idle.lock().expect("no panic happens while it is held").pop();
            let Some(mut connection) = rested else { return self.open().await };
            if connection.command(Rset).await.is_ok() {
                return Ok(connection);
            }
        }
    }

    fn keep(&self, connection: AsyncSmtpConnection) {
        self.idle.lock().expect("no panic happens while it is held").push(connection);
    }

    /// Up to the server's "go ahead". Nothing of the message has left.
    async fn announce(&self, from: &Address, to: &Address) -> Result<AsyncSmtpConnection, Failure> {
        let mut connection = self.connection().await?;
        let mut parameters = Vec::new();
        if [from, to].into_iter().any(|address| !address.user().is_ascii() || !address.domain().is_ascii()) {
            if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
                self.keep(connection);
                let words = "the mail server takes no addresses with characters beyond ASCII";
                return Err(Failure::new(FailureKind::Refused, words));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        if let Err(error) = connection.command(Mail::new(Some(from.clone()), parameters)).await {
            // Whoever the message is for: the server does not want any of ours.
            let words = format!("{} does not take mail from {from}: {}", self.server.shown(), words(&error));
            return Err(Failure::new(FailureKind::Server, words));
        }
        for (step, recipient) in [(Rcpt::new(to.clone(), Vec::new()).to_string(), true), (Data.to_string(), false)] {
            if let Err(error) = connection.command(step).await {
                let mut failure = refusal(&error, FailureKind::Server);
                if recipient && failure.kind == FailureKind::Refused {
                    failure.kind = FailureKind::Recipient { plainly: says_nobody(&failure.words) };
                }
                if matches!(failure.kind, FailureKind::Later | FailureKind::Refused | FailureKind::Recipient { .. }) {
                    self.keep(connection);
                }
                return Err(failure);
            }
        }
        Ok(connection)
    }

    async fn within<T>(&self, kind: FailureKind, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        // Real time: this is about sockets, whatever a test's clock says.
        let late = |_| {
            let words = format!("{} did not answer within {} s", self.server.shown(), self.timeout.as_secs_f64());
            Err(Failure::new(kind, words))
        };
        tokio::time::timeout(self.timeout, work).await.unwrap_or_else(late)
    }
}

#[async_trait]
impl Transport for Smtp {
    async fn ready(&self) -> Result<(), Failure> {
        let connection = self.within(FailureKind::Server, self.connection()).await?;
        self.keep(connection);
        Ok(())
    }

    async fn send(&self, mail: &Outgoing) -> Result<String, Failure> {
        let unusable = |error: anyhow::Error| Failure::new(FailureKind::Refused, line(&format!("{error:#}"), WORDS));
        let message = mail.message().map_err(unusable)?;
        let envelope = message.envelope();
        let (Some(from), Some(to)) = (envelope.from(), envelope.to().first()) else {
            return Err(Failure::new(FailureKind::Refused, "it has no sender or no recipient"));
        };
        let mut connection = self.within(FailureKind::Server, self.announce(from, to)).await?;
        let handed_over = async {
            let answer = connection.message(&message.formatted()).await;
            answer.map_err(|error| refusal(&error, FailureKind::Unsure))
        };
        let answer = self.within(FailureKind::Unsure, handed_over).await?;
        self.keep(connection);
        let said = answer.message().collect::<Vec<_>>().join(" ");
        Ok(line(&format!("{} {said}", answer.code()), WORDS))
    }

    async fn rest(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().expect("no panic happens while it is held"));
        for mut connection in idle {
            // It closes either way; a server that does not answer is not waited for.
            let _ = tokio::time::timeout(CONNECT_TIMEOUT, connection.quit()).await;
        }
    }
}

/// What a step's failure means. `unanswered`: if there was no answer at all.
fn refusal(error: &Error, unanswered: FailureKind) -> Failure {
    let code = error.status().map(u16::from);
    let kind = match code {
        // The server closes, or wants a sign-in that it did not get.
        Some(421 | 530 | 535) => FailureKind::Server,
        Some(_) if error.is_transient() => FailureKind::Later,
        Some(_) => FailureKind::Refused,
        None => unanswered,
    };
    Failure::new(kind, words(error))
}

/// Whether an answer to a recipient says by its enhanced code (RFC 3463) that there is no such mailbox, or that it is closed.
/// Other refusals may be about us, or about the day.
fn says_nobody(words: &str) -> bool {
    words.split_whitespace().nth(1).is_some_and(|code| NOBODY.contains(&code))
}

/// Code and words of the server, or what the line has come to.
fn words(error: &Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let text = match (error.status(), source) {
        (Some(code), Some(source)) => format!("{code} {source}"),
        (Some(code), None) => code.to_string(),
        (None, Some(source)) => source,
        (None, None) => error.to_string(),
    };
    line(&text, WORDS)
}

/// Who we say we are: the public name. Servers refuse names without a domain, which machines often have.
fn hello(public_url: &Url) -> ClientId {
    match public_url.host() {
        Some(Host::Domain(name)) => ClientId::Domain(name.to_owned()),
        Some(Host::Ipv4(address)) => ClientId::Ipv4(address),
        Some(Host::Ipv6(address)) => ClientId::Ipv6(address),
        None => ClientId::Domain("localhost".to_owned()),
    }
}
