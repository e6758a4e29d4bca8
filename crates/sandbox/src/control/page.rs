//! The control page: what happens at the provider, and buttons for its bad days.

use crate::clock::iso;
use crate::counters::Counters;
use crate::desk::{Desk, World, locked};
use crate::faults::{Canned, Faults};
use crate::handle::Helpdesk;
use crate::http::{Answer, Request, each, escape, find, pairs};
use crate::zendesk::{csp, page};

const STYLE: &str = include_str!("style.css");

/// Action, label, whether it is trouble.
const BUTTONS: &[(&str, &str)] = &[
    ("revoke", "Revoke all grants"),
    ("expire", "Expire access tokens now"),
    ("lose", "Lose the next answer"),
    ("drop", "Send nothing once"),
    ("slow", "Slow down: 5 s"),
    ("fail", "Fail for 60 s"),
    ("calm", "Back to normal"),
];

pub(crate) fn is_wanted(request: &Request) -> bool {
    request.header("accept").is_some_and(|accept| accept.contains("text/html"))
}

pub(crate) fn style() -> Answer {
    let mut answer = Answer::text(200, STYLE);
    answer.headers.push(("content-type", "text/css; charset=utf-8".to_owned()));
    answer
}

pub(crate) fn overview(world: &World) -> Answer {
    let desks = each(world.all(), |desk| section(&desk));
    let body = format!(
        r#"<main class="wide">
<p class="mark">Holdfast sandbox</p>
<h1>The providers, imitated</h1>
<p>Its clock says {now}{offset}. <a href="/control">Look again</a></p>
{desks}
</main>"#,
        now = escape(&iso(world.clock.now_ms())),
        offset = match world.clock.offset_secs() {
            0 => String::new(),
            secs => format!(", {secs} s ahead"),
        },
    );
    Answer::html(200, page("Holdfast sandbox", &body)).header("content-security-policy", csp("'self'"))
}

/// Does what a button says and goes back to the page.
pub(crate) fn act(desks: &[Helpdesk], request: &Request) -> Answer {
    let fields = pairs(&request.body);
    for desk in desks {
        match find(&fields, "action") {
            Some("revoke") => {
                desk.revoke(None);
            }
            Some("expire") => {
                desk.expire_access_tokens();
            }
            Some("lose") => desk.trouble(|faults| faults.lose_next_answer += 1),
            Some("drop") => desk.trouble(|faults| faults.drop_before += 1),
            Some("slow") => desk.trouble(|faults| {
                faults.delay_ms = 5_000;
                faults.api_delay_ms = 5_000;
            }),
            Some("fail") => desk.trouble(|faults| {
                let down = Canned::new(503, "<h1>Down for maintenance</h1>").content_type("text/html").for_secs(60);
                faults.token_answer = Some(down.clone());
                faults.api_answer = Some(down);
            }),
            Some("calm") => desk.calm(),
            _ => return Answer::text(400, "There is no such action"),
        }
    }
    Answer::empty(303).header("location", "/control")
}

fn section(desk: &Desk) -> String {
    let name = escape(&desk.name);
    let grants = locked(&desk.tokens).live_grants();
    let counters = numbers(grants, &desk.counts.read());
    let trouble = in_words(&locked(&desk.faults));
    let buttons = each(BUTTONS, |(action, label)| {
        format!(r#"<button name="action" value="{action}">{}</button>"#, escape(label))
    });
    format!(
        r#"<section class="card">
<h2>{title} <small>{name}.zendesk.com</small></h2>
{trouble}
<dl>{counters}</dl>
<form method="post" action="/control/zendesk/{name}/do"><div class="buttons">{buttons}</div></form>
</section>"#,
        title = escape(&desk.title()),
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

fn in_words(faults: &Faults) -> String {
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
        if let Some(canned) = canned {
            words.push(format!("{what} answers {}", canned.status));
        }
    }
    if words.is_empty() {
        r#"<p class="calm">All is well.</p>"#.to_owned()
    } else {
        format!(r#"<p class="trouble">Trouble: {}.</p>"#, escape(&words.join(", ")))
    }
}
