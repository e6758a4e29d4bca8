//! The story in steps. Where it stands is never remembered: it is read from what has happened, so that whoever goes their
//! own way finds the bar where they are.

use holdfast_core::Health;
use holdfast_store::Milestones;
use serde::Serialize;

use super::{FIRST, SECOND};

/// The bar over every page of a demo; templates find it as `frame.demo`.
#[derive(Debug, Serialize)]
pub(crate) struct Bar {
    /// The sandbox's control page.
    control: String,
    /// All, in order.
    steps: Vec<Step>,
    /// In short: where the story stands.
    stand: String,
    /// A mail is on its way.
    pub(super) mail_comes: bool,
}

/// What the mailbox has to say to the story: of the failure that was last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mail {
    /// There is none about it yet.
    #[default]
    None,
    /// There is one.
    Sent,
    /// Somebody has looked at one.
    Read,
}

/// A step of the story.
#[derive(Debug, Serialize)]
struct Step {
    number: usize,
    title: &'static str,
    state: State,
    /// In one sentence: what to do, or what has come of it.
    words: String,
    link: Option<Link>,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Done,
    Now,
    Ahead,
}

/// Where a step is taken.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Link {
    label: String,
    href: String,
}

impl Link {
    fn new(label: impl Into<String>, href: impl Into<String>) -> Self {
        Self { label: label.into(), href: href.into() }
    }
}

impl Bar {
    pub(super) fn new(connectors: &[Milestones], mail: Mail, control: &str) -> Self {
        let mut steps = vec![
            connect(connectors),
            rotate(connectors),
            broken(connectors, control),
            read(connectors, mail),
            reconnect(connectors),
        ];
        let needs_a_person = connectors.iter().any(|one| one.health == Health::AuthFailed);
        // Something that needs a person comes first, whatever was left out before it.
        let now = match steps.iter().position(|step| step.state != State::Done) {
            Some(_) if needs_a_person && steps[READ].state != State::Done => Some(READ),
            Some(_) if needs_a_person => Some(steps.len() - 1),
            first => first,
        };
        if let Some(now) = now {
            steps[now].state = State::Now;
        }
        for (index, step) in steps.iter_mut().enumerate() {
            step.number = index + 1;
        }
        let stand = now.map_or_else(
            || "That was the story. Break it again as you like.".to_owned(),
            |now| format!("Step {} of {}: {}", now + 1, steps.len(), steps[now].title),
        );
        let mail_comes = mail == Mail::None && last_broken(connectors).is_some_and(|broken| !works_again(broken));
        Self { control: control.to_owned(), steps, stand, mail_comes }
    }
}

/// Whose helpdesks the story is about.
const PROVIDER: &str = "zendesk";
/// The place of reading the mail.
const READ: usize = 3;

fn step(title: &'static str, done: bool, words: impl Into<String>, link: Option<Link>) -> Step {
    let state = if done { State::Done } else { State::Ahead };
    Step { number: 0, title, state, words: words.into(), link }
}

/// The helpdesk that the newcomer has connected: the one that is furthest in the story, the newest of several. Other
/// services may be connected as well, and are no part of it: their tokens live longer than anybody watches.
fn own(connectors: &[Milestones]) -> Option<&Milestones> {
    let own = |one: &&Milestones| one.provider == PROVIDER && one.account != FIRST && one.worked_at.is_some();
    connectors.iter().filter(own).max_by_key(|one| (one.rotated_at.is_some(), one.worked_at))
}

fn page_of(connector: &Milestones) -> String {
    format!("/connectors/{}", connector.connector)
}

fn open(connector: &Milestones) -> Link {
    Link::new(format!("Open {}", connector.name), page_of(connector))
}

fn connect(connectors: &[Milestones]) -> Step {
    let title = "Connect a helpdesk";
    match own(connectors) {
        Some(own) => step(title, true, format!("{} is connected.", own.name), Some(open(own))),
        None => step(
            title,
            false,
            format!("One is connected already. Connect a second one: the account is “{SECOND}”."),
            Some(Link::new("Connect Zendesk", "/connectors/new/zendesk")),
        ),
    }
}

fn rotate(connectors: &[Milestones]) -> Step {
    let title = "Watch a token rotate";
    let watched = own(connectors);
    let link = watched.or(connectors.first()).map(open);
    if watched.is_some_and(|own| own.rotated_at.is_some()) {
        return step(title, true, "Holdfast has replaced its tokens, and goes on doing so.", link);
    }
    let words =
        "Tokens live for a minute here. Holdfast replaces them in time: stay on its page for a moment, and see it.";
    step(title, false, words, link)
}

fn broken(connectors: &[Milestones], control: &str) -> Step {
    let title = "Break it";
    let sandbox = |at: &str| Some(Link::new("Open the sandbox", format!("{control}#{at}")));
    if let Some(broken) = last_broken(connectors) {
        return step(title, true, format!("{} lost its access.", broken.name), sandbox(&broken.account));
    }
    let healthy = connectors.iter().filter(|one| one.health == Health::Connected);
    let Some(target) = healthy.clone().find(|one| one.account == FIRST).or(healthy.clone().next()) else {
        return step(title, false, "Connect a helpdesk first, then take its access away.", None);
    };
    let words = format!(
        "Revoke the access to {} in the sandbox, as an admin there might. Holdfast hears of it at its next call or refresh.",
        target.name
    );
    step(title, false, words, sandbox(&target.account))
}

fn read(connectors: &[Milestones], mail: Mail) -> Step {
    let title = "Read the mail";
    let mailbox = Some(Link::new("Open the mailbox", "/demo/mailbox"));
    let Some(broken) = last_broken(connectors) else {
        return step(title, false, "Its agents stop, and the admins are told by mail.", None);
    };
    if works_again(broken) || mail == Mail::Read {
        return step(title, true, "It says what happened, what has stopped, and has one button.", mailbox);
    }
    let words = if mail == Mail::Sent {
        format!("Everybody who can mend {} has one: what happened, what has stopped, and one button.", broken.name)
    } else {
        "A mail is on its way to everybody who can mend it; it waits a few seconds for company.".to_owned()
    };
    step(title, false, words, mailbox)
}

fn reconnect(connectors: &[Milestones]) -> Step {
    let title = "Reconnect";
    match last_broken(connectors) {
        None => step(title, false, "One press on Reconnect brings it back in place, and its agents run again.", None),
        Some(broken) if works_again(broken) => step(
            title,
            true,
            format!("{} works again, under the same id, and so do its agents.", broken.name),
            Some(open(broken)),
        ),
        Some(broken) => {
            let words =
                format!("{} needs you: press Reconnect, in the mail or on its page, and allow it.", broken.name);
            step(title, false, words, Some(open(broken)))
        }
    }
}

/// The one that needed a person last.
pub(super) fn last_broken(connectors: &[Milestones]) -> Option<&Milestones> {
    connectors.iter().filter(|one| one.failed_at.is_some()).max_by_key(|one| one.failed_at)
}

fn works_again(connector: &Milestones) -> bool {
    connector.health == Health::Connected && connector.worked_at > connector.failed_at
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    /// Turns as seconds: worked, rotated, failed.
    fn connector(account: &str, health: Health, turns: [Option<i64>; 3]) -> Milestones {
        let [worked_at, rotated_at, failed_at] = turns.map(|at| at.map(|at| DateTime::from_timestamp(at, 0).unwrap()));
        Milestones {
            connector: format!("con_{account}").into(),
            provider: if account.contains('@') { "google" } else { "zendesk" }.to_owned(),
            name: account.to_owned(),
            account: account.to_owned(),
            health,
            epoch: 1,
            rotated_at,
            failed_at,
            worked_at,
        }
    }

    fn states(connectors: &[Milestones], mail: Mail) -> String {
        let bar = Bar::new(connectors, mail, "http://127.0.0.1:9/control");
        let letter = |step: &Step| match step.state {
            State::Done => 'd',
            State::Now => 'N',
            State::Ahead => '-',
        };
        bar.steps.iter().map(letter).collect()
    }

    #[test]
    fn the_bar_stands_where_the_story_does() {
        use Health::{AuthFailed, Connected, Pending};
        let acme = |health, failed| connector("acme", health, [Some(1), Some(30), failed]);
        let globex = |health, rotated, failed| connector("globex", health, [Some(40), rotated, failed]);
        let healed = connector("acme", Connected, [Some(90), Some(30), Some(80)]);
        let none = Mail::None;
        let table = [
            ("nothing has happened", vec![acme(Connected, None)], none, "N----"),
            (
                "a consent was begun",
                vec![acme(Connected, None), connector("globex", Pending, [None; 3])],
                none,
                "N----",
            ),
            ("connected", vec![acme(Connected, None), globex(Connected, None, None)], none, "dN---"),
            ("rotated", vec![acme(Connected, None), globex(Connected, Some(70), None)], none, "ddN--"),
            ("broken", vec![acme(AuthFailed, Some(80)), globex(Connected, Some(70), None)], none, "dddN-"),
            ("told", vec![acme(AuthFailed, Some(80)), globex(Connected, Some(70), None)], Mail::Sent, "dddN-"),
            ("read", vec![acme(AuthFailed, Some(80)), globex(Connected, Some(70), None)], Mail::Read, "ddddN"),
            ("mended", vec![healed.clone(), globex(Connected, Some(70), None)], none, "ddddd"),
            ("broken again", vec![healed.clone(), globex(AuthFailed, Some(70), Some(99))], none, "dddN-"),
            ("broken before anything else", vec![acme(AuthFailed, Some(5))], none, "--dN-"),
            ("mended before anything else", vec![healed.clone()], none, "N-ddd"),
            (
                "something else was connected after it",
                vec![
                    healed.clone(),
                    globex(Connected, Some(70), None),
                    connector("ada@example.com", Connected, [Some(200), None, None]),
                ],
                none,
                "ddddd",
            ),
            (
                "something else was connected before it",
                vec![acme(Connected, None), connector("ada@example.com", Connected, [Some(20), None, None])],
                none,
                "N----",
            ),
            ("everything was deleted", vec![], none, "N----"),
        ];
        for (what, connectors, mail, expected) in table {
            assert_eq!(states(&connectors, mail), expected, "{what}");
        }
    }

    #[test]
    fn the_bar_is_shown_and_escapes_names() {
        let mut acme = connector("acme", Health::AuthFailed, [Some(1), None, Some(2)]);
        acme.name = "<b>Acme</b>".to_owned();
        let bar = Bar::new(&[acme], Mail::None, "http://127.0.0.1:9/control");

        let views = crate::ui::view::Views::load().unwrap();
        let html = views.render("partials/demo.html", &serde_json::json!({ "frame": { "demo": bar } })).unwrap();

        assert!(html.contains("&lt;b&gt;Acme&lt;") && !html.contains("<b>"), "{html}");
        assert_eq!((html.matches("<li").count(), html.matches("aria-current=\"step\"").count()), (5, 1), "{html}");
        assert!(html.contains("Step 4 of 5: Read the mail"), "{html}");
    }

    #[test]
    fn each_step_leads_to_where_it_is_taken() {
        let acme = connector("acme", Health::Connected, [Some(1), None, None]);
        let bar = Bar::new(&[acme], Mail::None, "http://127.0.0.1:9/control");

        let hrefs: Vec<_> = bar.steps.iter().map(|step| step.link.as_ref().map(|link| link.href.as_str())).collect();
        let expected = [
            Some("/connectors/new/zendesk"),
            Some("/connectors/con_acme"),
            Some("http://127.0.0.1:9/control#acme"),
            None,
            None,
        ];
        assert_eq!(hrefs, expected);
        assert_eq!(bar.stand, "Step 1 of 5: Connect a helpdesk");
    }
}
