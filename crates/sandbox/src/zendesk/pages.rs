//! HTML that the imitation shows to people.

use crate::http::{each, escape};

/// The policy of every page: our own style sheet, no script, forms only to `form_targets`.
pub(crate) fn csp(form_targets: &str) -> String {
    format!("default-src 'none'; style-src 'self'; form-action {form_targets}; base-uri 'none'; frame-ancestors 'none'")
}

/// A page: `mark` says whose it is, `home` where its visitor came from. `main` is HTML.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) mark: &'a str,
    pub(crate) home: Option<&'a str>,
    pub(crate) narrow: bool,
    pub(crate) main: &'a str,
}

impl Page<'_> {
    pub(crate) fn html(&self) -> String {
        let home = self.home.map(|url| format!(r#"<a class="button" href="{}">Back to Holdfast</a>"#, escape(url)));
        // Without that link there is nothing to skip.
        let skip = home.as_ref().map(|_| "<a class=\"skip\" href=\"#main\">To the content</a>");
        format!(
            r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · Sandbox</title>
<link rel="stylesheet" href="/control/style.css">
</head>
<body>
{skip}<header class="bar"><p><strong>Sandbox</strong> <small>{mark}</small></p>{home}</header>
<main id="main" tabindex="-1"{class}>
{main}
</main>
</body>
</html>
"#,
            title = escape(self.title),
            mark = escape(self.mark),
            skip = skip.unwrap_or_default(),
            home = home.unwrap_or_default(),
            class = if self.narrow { r#" class="narrow""# } else { "" },
            main = self.main,
        )
    }
}

/// What stands for Zendesk.
pub(crate) const ZENDESK: &str = "Zendesk, imitated";

pub(crate) fn message(home: Option<&str>, title: &str, text: &str) -> String {
    let main = format!(r#"<section class="card"><h1>{}</h1><p>{}</p></section>"#, escape(title), escape(text));
    Page { title, mark: ZENDESK, home, narrow: true, main: &main }.html()
}

/// `users` are id, name and role in words; the first one is chosen.
pub(crate) fn consent(
    home: Option<&str>,
    helpdesk: &str,
    host: &str,
    scopes: &[String],
    users: &[(i64, String, &'static str)],
    hidden: &str,
    action: &str,
) -> String {
    let scopes = each(scopes, |words| format!("<li>{}</li>", escape(words)));
    let users = each(users.iter().enumerate(), |(index, (id, name, role))| {
        format!(
            r#"<label class="choice"><input type="radio" name="user" value="{id}"{}> <span>{} <small>{}</small></span></label>"#,
            if index == 0 { " checked" } else { "" },
            escape(name),
            escape(role)
        )
    });
    let main = format!(
        r#"<section class="card">
<h1>Allow Holdfast to access {helpdesk}?</h1>
<p>Holdfast asks to use this help desk on your behalf. It will be able to:</p>
<ul class="scopes">{scopes}</ul>
<form method="post" action="{action}">
{hidden}
<fieldset><legend>Signed in as</legend>{users}</fieldset>
<div class="buttons">
<button class="primary" name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button>
</div>
</form>
</section>"#,
        helpdesk = escape(helpdesk),
        action = escape(action),
    );
    let title = format!("Allow access to {helpdesk}");
    Page { title: &title, mark: &format!("{ZENDESK} · {host}"), home, narrow: true, main: &main }.html()
}
