//! A real SMTP server (aiosmtpd, in Python) that takes, puts off or refuses mail as a test says, and keeps what it took.

use std::{path::PathBuf, process::Stdio};

use holdfast_app::Config;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
};

/// Debian's, for which aiosmtpd is a package.
const PYTHON: &str = "/usr/bin/python3";
/// Who may sign in, where that is wanted; both need percent-encoding.
pub const USER: &str = "hub@mail.test";
/// Their password.
pub const PASSWORD: &str = "pass/word:1";
/// The sender of all mails.
pub const FROM: &str = "Holdfast <holdfast@hub.example>";

/// A server on a port of its own. It ends when it is dropped.
pub struct Smtp {
    /// As the setting `smtp.url`.
    pub url: String,
    /// Host and port.
    pub address: String,
    secure: bool,
    talk: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
    _child: Child,
}

/// A message that was accepted, as a mail program reads it.
#[derive(Clone, Debug)]
pub struct Message {
    /// The envelope's sender.
    pub from: String,
    /// The envelope's recipients.
    pub to: Vec<String>,
    /// Decoded.
    pub subject: String,
    /// The text part.
    pub text: String,
    /// The HTML part.
    pub html: String,
    /// As it came over the line.
    pub raw: String,
    /// The kinds of its parts, from the outside in.
    pub structure: Vec<String>,
    /// Who had signed in.
    pub user: Option<String>,
    /// Whether the line was private.
    pub secure: bool,
    headers: Vec<(String, String)>,
}

impl Message {
    /// One header, decoded; empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The names of all headers.
    pub fn header_names(&self) -> Vec<&str> {
        self.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Where its HTML part leads.
    pub fn links(&self) -> Vec<String> {
        let hrefs = self.html.split("href=\"").skip(1);
        hrefs.filter_map(|rest| Some(rest.split_once('"')?.0.replace("&amp;", "&").replace("&#x2F;", "/"))).collect()
    }

    /// Its one link below this path.
    ///
    /// # Panics
    /// When there is none, or the text part has another one.
    pub fn link_to(&self, path: &str) -> String {
        let found = self.links().into_iter().find(|link| link.contains(path));
        let link = found.unwrap_or_else(|| panic!("no link to {path} in {}", self.html));
        assert!(self.text.contains(&link), "the text part has the same link: {}", self.text);
        link
    }

    /// Its links to reconnect, each once.
    pub fn reconnect_links(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for link in self.links() {
            if link.contains("/reconnect/") && !found.contains(&link) {
                found.push(link);
            }
        }
        found
    }
}

impl From<&Value> for Message {
    fn from(json: &Value) -> Self {
        let text = |field: &str| json[field].as_str().unwrap_or_default().to_owned();
        let texts = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let headers: Vec<(String, String)> = json["headers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|pair| {
                (pair[0].as_str().unwrap_or_default().to_owned(), pair[1].as_str().unwrap_or_default().to_owned())
            })
            .collect();
        let mut message = Self {
            from: text("from"),
            to: texts(&json["to"]),
            subject: String::new(),
            text: text("text"),
            html: text("html"),
            raw: text("raw"),
            structure: texts(&json["structure"]),
            user: json["user"].as_str().map(str::to_owned),
            secure: json["secure"] == true,
            headers,
        };
        message.subject = message.header("subject").to_owned();
        message
    }
}

impl Smtp {
    /// Takes mail from anybody.
    pub async fn start() -> Self {
        Self::with(&[], "smtp://HOST").await
    }

    /// Wants STARTTLS, and then a sign-in.
    pub async fn starttls() -> Self {
        Self::with(&["--tls", "starttls"], "smtp://USER@HOST?tls=required").await
    }

    /// TLS from the start, and a sign-in.
    pub async fn tls() -> Self {
        Self::with(&["--tls", "implicit"], "smtps://USER@HOST").await
    }

    async fn with(arguments: &[&str], url: &str) -> Self {
        let mut command = Command::new(PYTHON);
        command.arg(file("server.py")).args(arguments);
        if !arguments.is_empty() {
            command.arg("--certificate").arg(certificate()).arg("--key").arg(file("key.pem"));
            command.args(["--user", USER, "--password", PASSWORD]);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = child.expect("python3 with aiosmtpd is there: apt-get install python3-aiosmtpd");
        let stdin = child.stdin.take().expect("it is piped");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let first = lines.next_line().await.expect("it speaks UTF-8");
        let first = first.expect("aiosmtpd is there: apt-get install python3-aiosmtpd");
        let port = serde_json::from_str::<Value>(&first).expect("it speaks JSON")["port"].to_string();
        let address = format!("127.0.0.1:{port}");
        let url = url.replace("USER", "hub%40mail.test:pass%2Fword%3A1").replace("HOST", &address);
        Self { url, address, secure: !arguments.is_empty(), talk: Mutex::new((stdin, lines)), _child: child }
    }

    /// Makes it the mail server of a service.
    pub fn configure(&self, config: &mut Config) {
        config.smtp.url = Some(self.url.clone().into());
        config.smtp.ca_file = self.secure.then(certificate);
        config.mail.from = Some(FROM.to_owned());
    }

    /// The same as settings of a process.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        vec![("smtp.url", self.url.clone()), ("mail.from", FROM.to_owned())]
    }

    /// What it has accepted, the oldest first.
    pub async fn messages(&self) -> Vec<Message> {
        let seen = self.ask(json!({ "do": "look" })).await;
        seen["messages"].as_array().expect("a list").iter().map(Message::from).collect()
    }

    /// What it has accepted for this address.
    pub async fn messages_to(&self, address: &str) -> Vec<Message> {
        self.messages().await.into_iter().filter(|message| message.to == [address]).collect()
    }

    /// How many it has been offered.
    pub async fn attempts(&self) -> u64 {
        self.ask(json!({ "do": "look" })).await["attempts"].as_u64().expect("a number")
    }

    /// How many it has held so far.
    pub async fn held(&self) -> u64 {
        self.ask(json!({ "do": "look" })).await["held"].as_u64().expect("a number")
    }

    /// Answers so to a recipient; `*` is everybody.
    pub async fn answer_rcpt(&self, address: &str, answer: &str) {
        self.ask(json!({ "do": "set", "rcpt": { address: answer } })).await;
    }

    /// Answers so to a sender.
    pub async fn answer_mail(&self, answer: &str) {
        self.ask(json!({ "do": "set", "mail": answer })).await;
    }

    /// Answers so to a whole message.
    pub async fn answer_data(&self, answer: &str) {
        self.ask(json!({ "do": "set", "data": answer })).await;
    }

    /// Leaves recipients unanswered: nothing has been taken yet.
    pub async fn hold_recipients(&self) {
        self.ask(json!({ "do": "set", "hold_rcpt": true })).await;
    }

    /// Takes messages, and leaves them unanswered.
    pub async fn hold_answers(&self) {
        self.ask(json!({ "do": "set", "hold_data": true })).await;
    }

    /// Takes mail as at the start, and lets go what it held.
    pub async fn calm(&self) {
        self.ask(json!({ "do": "calm" })).await;
    }

    /// Refuses connections, and ends those that are open.
    pub async fn down(&self) {
        self.ask(json!({ "do": "down" })).await;
    }

    /// Takes connections again, on the same port.
    pub async fn up(&self) {
        self.ask(json!({ "do": "up" })).await;
    }

    async fn ask(&self, command: Value) -> Value {
        let (stdin, lines) = &mut *self.talk.lock().await;
        stdin.write_all(format!("{command}\n").as_bytes()).await.expect("the mail server reads");
        let line = lines.next_line().await.expect("it speaks UTF-8").expect("the mail server answers");
        serde_json::from_str(&line).expect("it speaks JSON")
    }
}

/// The certificate of its private line, which is its own authority.
pub fn certificate() -> PathBuf {
    file("cert.pem")
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/smtp").join(name)
}
