//! HTML that the imitation shows to people.

use crate::http::{each, escape};

/// The policy of every page: our own style sheet, no script, forms only to `form_targets`.
pub(crate) fn csp(form_targets: &str) -> String {
    format!("default-src 'none'; style-src 'self'; form-action {form_targets}; base-uri 'none'; frame-ancestors 'none'")
}

pub(crate) fn page(title: &str, body: &str) -> String {
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{}</title>
<link rel="stylesheet" href="/control/style.css">
</head>
<body>
{body}
</body>
</html>
"#,
        escape(title)
    )
}

pub(crate) fn message(title: &str, text: &str) -> String {
    let body = format!(
        r#"<main class="card"><p class="mark">Zendesk, imitated</p><h1>{}</h1><p>{}</p></main>"#,
        escape(title),
        escape(text)
    );
    page(title, &body)
}

/// `users` are id, name and role in words; the first one is chosen.
pub(crate) fn consent(
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
    let body = format!(
        r#"<main class="card">
<p class="mark">Zendesk, imitated · {host}</p>
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
</main>"#,
        host = escape(host),
        helpdesk = escape(helpdesk),
        action = escape(action),
    );
    page(&format!("Allow access to {helpdesk}"), &body)
}
