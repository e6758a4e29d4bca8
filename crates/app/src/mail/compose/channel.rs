//! The words of a mail, for a channel: what stands in its context, without links that are somebody's own.

use holdfast_store::ClaimedMail;
use serde_json::Value;

use super::{Reader, words_of};
use crate::{app::App, mail::templates::Rendered};

/// What a channel is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForChannel {
    /// The mail's subject.
    pub(crate) subject: String,
    /// The connectors that it is about.
    pub(crate) lines: Vec<ChannelLine>,
    /// How many those are, with what is not in the list.
    pub(crate) count: usize,
    /// What else there is to say.
    pub(crate) words: String,
    /// Where to, and what it says.
    pub(crate) button: Option<(String, String)>,
}

/// One connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelLine {
    /// What it is called.
    pub(crate) name: String,
    /// Its page.
    pub(crate) url: Option<String>,
    /// What there is to say of it.
    pub(crate) words: String,
}

/// What a message for a channel says now. `None`: it is over.
pub(crate) async fn for_channel(app: &App, mail: &ClaimedMail) -> anyhow::Result<Option<ForChannel>> {
    // Nobody's own: no signed link is made.
    let reader = Reader::of_address("", "a channel");
    Ok(words_of(app, mail, &reader).await?.map(|rendered| said(&rendered)))
}

fn said(rendered: &Rendered) -> ForChannel {
    let context = &rendered.context;
    let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
    let line = |one: &Value| {
        let page = ["page", "reconnect"].into_iter().find_map(|name| one[name].as_str());
        let lasted = one["lasted"].as_str().map(|lasted| format!("after {lasted}"));
        let ends = one["ends"].as_str().map(|ends| format!("ends {ends}"));
        let words = ends.or(lasted).unwrap_or_else(|| text(one, "why"));
        ChannelLine { name: text(one, "name"), url: page.map(str::to_owned), words }
    };
    let one = context.get("c").map(line);
    let lines: Vec<_> = match one {
        Some(line) => vec![line],
        None => context["connectors"].as_array().into_iter().flatten().map(line).collect(),
    };
    let more = context["more"].as_u64().and_then(|more| usize::try_from(more).ok()).unwrap_or_default();
    let button = context["button"].as_object().map(|button| {
        let part = |name: &str| button.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        (part("url"), part("label"))
    });
    ForChannel {
        subject: rendered.subject.clone(),
        count: lines.len() + more,
        words: ["reason", "why"]
            .into_iter()
            .map(|name| text(context, name))
            .find(|words| !words.is_empty())
            .unwrap_or_default(),
        button,
        lines,
    }
}
