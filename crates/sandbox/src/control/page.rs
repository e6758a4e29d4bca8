//! The control page: what happens at the provider, and buttons for its bad days.

use crate::clock::iso;
use crate::counters::Counters;
use crate::desk::{Desk, World, locked};
use crate::faults::Faults;
use crate::http::{Answer, Request, each, escape};
use crate::ledger::IssuedSet;
use crate::zendesk::{Page, csp};

use super::actions::{ACTIONS, Action, find_action};
use super::{clients, others, tickets};

const STYLE: &str = include_str!("style.css");
/// Token sets in the table of a helpdesk.
const SETS: usize = 6;

pub(super) fn is_wanted(request: &Request) -> bool {
    request.header("accept").is_some_and(|accept| accept.contains("text/html"))
}

pub(super) fn style() -> Answer {
    let mut answer = Answer::text(200, STYLE);
    answer.headers.push(("content-type", "text/css; charset=utf-8".to_owned()));
    answer
}

/// All helpdesks.
pub(super) fn overview(world: &World, request: &Request) -> Answer {
    let now_ms = world.clock.now_ms();
    let pressed = Pressed::of(request);
    let pressed = pressed.as_ref();
    let main = format!(
        r#"<h1>The providers, imitated</h1>
<p class="soft">What an admin at Zendesk would see and do, and what no provider has: buttons for its bad days. Its clock
says {now} UTC{offset}. <a href="/control">Look again</a></p>
{desks}
{clients}
{others}"#,
        now = time(now_ms, &iso(now_ms)[11..19]),
        offset = match world.clock.offset_secs() {
            0 => String::new(),
            secs => format!(", {secs} s ahead"),
        },
        desks = each(world.all(), |desk| section(world, &desk, now_ms, pressed)),
        clients = clients::section(world, pressed),
        others = others::section(world, now_ms, pressed),
    );
    shown(world, "Providers", &main)
}

/// A page of the control, in its frame.
pub(super) fn shown(world: &World, title: &str, main: &str) -> Answer {
    let page = Page { title, mark: "the provider's side of the demo", home: world.home(), narrow: false, main };
    Answer::html(200, page.html()).header("content-security-policy", csp("'self'"))
}

/// The button that led here, as the address of the page says it.
pub(super) struct Pressed<'a> {
    pub(super) action: &'a str,
    /// Beside what: a helpdesk, or something whose name has a dot, which no helpdesk's has.
    pub(super) at: &'a str,
}

impl<'a> Pressed<'a> {
    fn of(request: &'a Request) -> Option<Self> {
        Some(Self { action: request.param("done")?, at: request.param("at")? })
    }

    /// Back to the page, where the notice has the focus and is in view, without a script.
    pub(super) fn back(&self) -> Answer {
        Answer::empty(303).header("location", format!("/control?done={}&at={}#done", self.action, self.at))
    }
}

/// What has happened, to stand beside the button that was pressed.
pub(super) fn notice(world: &World, said: &str) -> String {
    let see = |url: &str| format!(r#" <a href="{}">See what Holdfast makes of it</a>"#, escape(url));
    let home = world.home().map(see).unwrap_or_default();
    format!(r#"<p class="notice" id="done" role="status" tabindex="-1">{}{home}</p>"#, escape(said))
}

/// What an action did to a helpdesk, if it is the one that was pressed there.
fn done(world: &World, pressed: Option<&Pressed<'_>>, at: &str, action: Option<&Action>) -> String {
    match (pressed, action) {
        (Some(pressed), Some(action)) if pressed.at == at && pressed.action == action.name => {
            notice(world, action.done)
        }
        _ => String::new(),
    }
}

fn section(world: &World, desk: &Desk, now_ms: i64, pressed: Option<&Pressed<'_>>) -> String {
    let tokens = locked(&desk.tokens);
    let data = locked(&desk.data);
    let grants = each(tokens.live(), |set| {
        let who = data.user(set.user_id).map_or("somebody", |user| user.name.as_str());
        let since = tokens.granted_at_ms(set.grant).unwrap_or(set.issued_at_ms);
        format!(
            r#"<li><span class="grow">{who} allowed Holdfast <code>{scope}</code> {since}</span>
<form method="post" action="/control/zendesk/{name}/do"><input type="hidden" name="action" value="revoke"><button name="grant" value="{grant}">Revoke</button></form></li>"#,
            who = escape(who),
            scope = escape(&set.scope),
            since = ago(since, now_ms),
            name = escape(&desk.name),
            grant = set.grant,
        )
    });
    let access = if grants.is_empty() {
        "<p class=\"soft\">Nobody has given Holdfast access to this helpdesk.</p>".to_owned()
    } else {
        format!("<ul class=\"rows\">{grants}</ul>")
    };
    let sets = each(tokens.newest(SETS), |set| row(set, now_ms));
    let table = if sets.is_empty() {
        String::new()
    } else {
        format!(
            r#"<table><caption>The newest tokens, by the first digits of their fingerprints</caption>
<thead><tr><th scope="col">Issued</th><th scope="col">Access token</th><th scope="col">Refresh token</th><th scope="col">State</th></tr></thead>
<tbody>{sets}</tbody></table>"#
        )
    };
    let recent = tickets::recent(&desk.name, &data, now_ms);
    let live = tokens.live_grants();
    let counters = numbers(live, &desk.counts.read());
    drop((tokens, data));
    let name = escape(&desk.name);
    format!(
        r#"<section class="card" id="{name}" aria-labelledby="{name}-title">
<div class="head"><h2 id="{name}-title">{title} <small>{name}.zendesk.com</small></h2>{mood}</div>
<h3>Access</h3>
{access}{revoked}
{table}
<h3>What may happen here</h3>
<ul class="acts">{acts}</ul>
<h3>Tickets that changed last</h3>
{recent}
<details><summary>In numbers</summary><dl>{counters}</dl></details>
</section>"#,
        title = escape(&desk.title()),
        mood = mood(&locked(&desk.faults), live > 0, now_ms),
        revoked = done(world, pressed, &format!("{}.access", desk.name), find_action("revoke")),
        acts = each(ACTIONS, |action| act(&name, action, &done(world, pressed, &desk.name, Some(action)))),
    )
}

fn act(desk: &str, action: &Action, done: &str) -> String {
    let Action { name, label, then, harms, .. } = action;
    let class = if *harms { r#" class="danger""# } else { "" };
    format!(
        r#"<li><form method="post" action="/control/zendesk/{desk}/do"><button{class} name="action" value="{name}" aria-describedby="{desk}-{name}">{label}</button></form><p id="{desk}-{name}">{then}</p>{done}</li>"#,
        label = escape(label),
        then = escape(then),
    )
}

fn row(set: &IssuedSet, now_ms: i64) -> String {
    let over = set.access_expires_at_ms.filter(|end| now_ms >= *end);
    let (tone, word) = match (set.spent_at_ms, set.revoked_at_ms, set.access_expires_at_ms) {
        (_, Some(_), _) => ("bad", "revoked".to_owned()),
        (Some(_), ..) => ("", "replaced".to_owned()),
        (None, None, Some(end)) if over.is_none() => ("good", format!("works for {}", span(end - now_ms))),
        (None, None, Some(_)) => ("warn", "over, can be refreshed".to_owned()),
        (None, None, None) => ("good", "works".to_owned()),
    };
    let lost = if set.answer_lost { " <span class=\"badge bad\">answer lost</span>" } else { "" };
    let masked = |fingerprint: Option<&str>| {
        let digits = fingerprint.map(|fingerprint| fingerprint.chars().take(8).collect::<String>());
        digits.map_or_else(|| "none".to_owned(), |digits| format!("<code>{digits}…</code>"))
    };
    format!(
        r#"<tr><td data-label="Issued">{issued}</td><td data-label="Access token">{access}</td><td data-label="Refresh token">{refresh}</td><td data-label="State"><span class="badge {tone}">{word}</span>{lost}</td></tr>"#,
        issued = ago(set.issued_at_ms, now_ms),
        access = masked(Some(&set.access_fingerprint)),
        refresh = masked(set.refresh_fingerprint.as_deref()),
    )
}

fn numbers(grants: usize, counters: &Counters) -> String {
    let all = [
        ("Live grants", u64::try_from(grants).unwrap_or(0)),
        ("Exchanges", counters.exchanges),
        ("Rotations", counters.rotations),
        ("Reused refresh tokens", counters.reuses),
        ("Codes exchanged", counters.code_exchanges),
        ("Revocations", counters.revocations),
        ("API calls", counters.api_calls),
        ("Answered 401", counters.unauthorized),
        ("Answers lost", counters.answers_lost),
    ];
    each(all, |(label, number)| format!("<div><dt>{label}</dt><dd>{number}</dd></div>"))
}

/// How it stands: what is to go wrong, or whether anybody may come in at all.
fn mood(faults: &Faults, has_access: bool, now_ms: i64) -> String {
    let mut words: Vec<String> = Vec::new();
    if faults.lose_next_answer > 0 {
        words.push(format!("will lose {} token answers", faults.lose_next_answer));
    }
    if faults.drop_before > 0 {
        words.push(format!("will hang up on {} token requests", faults.drop_before));
    }
    if faults.refuse_next > 0 {
        words.push(format!("will refuse {} refreshes", faults.refuse_next));
    }
    if faults.hold || faults.hold_answers {
        words.push("the token endpoint keeps its callers waiting".to_owned());
    }
    let delay_ms = faults.delay_ms.max(faults.delay_after_ms).max(faults.api_delay_ms);
    if delay_ms > 0 {
        words.push(format!("slow by up to {delay_ms} ms"));
    }
    for (what, canned) in [("token endpoint", &faults.token_answer), ("API", &faults.api_answer)] {
        if let Some(canned) = canned.as_ref().filter(|canned| !canned.is_over(now_ms)) {
            words.push(format!("{what} answers {}", canned.status));
        }
    }
    if words.is_empty() && has_access {
        r#"<span class="badge good">All is well</span>"#.to_owned()
    } else if words.is_empty() {
        r#"<span class="badge warn">Nobody has access</span>"#.to_owned()
    } else {
        format!(r#"<span class="badge bad">Trouble: {}</span>"#, escape(&words.join(", ")))
    }
}

/// `12 s ago`, with the exact moment beside it.
pub(super) fn ago(at_ms: i64, now_ms: i64) -> String {
    let text = match now_ms - at_ms {
        ..5_000 => "just now".to_owned(),
        past_ms => format!("{} ago", span(past_ms)),
    };
    time(at_ms, &text)
}

fn time(at_ms: i64, text: &str) -> String {
    let exact = iso(at_ms);
    format!(r#"<time datetime="{exact}" title="{exact}">{text}</time>"#)
}

fn span(ms: i64) -> String {
    match ms / 1000 {
        secs @ ..100 => format!("{secs} s"),
        secs @ 100..6_000 => format!("{} min", secs / 60),
        secs @ 6_000..172_800 => format!("{} h", secs / 3_600),
        secs => format!("{} days", secs / 86_400),
    }
}
