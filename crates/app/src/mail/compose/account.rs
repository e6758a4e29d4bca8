//! Mails about accounts. A link is made when its mail is put together: its text is in that mail and nowhere else.

use chrono::TimeDelta;
use holdfast_store::{ClaimedMail, InvitationNow};
use secrecy::ExposeSecret;

use super::{NAME, Reader, frame, line, moment};
use crate::{
    app::App,
    keys::{self, scope_in_words},
    mail::templates::{
        Button, Invitation, KeyMade, NewSignIn, PasswordChanged, PasswordReset, Rendered, SecondFactor, render,
    },
    words,
};

pub(super) async fn invitation(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let id = mail.about["invitation"].as_str().unwrap_or_default();
    let now = app.seams.clock.now();
    let found = app.store.find_invitation(id).await?;
    let Some(invitation) = found.filter(|found| found.now(now) == InvitationNow::Open) else { return Ok(None) };
    let url = link(app, "invitation", id).await?;
    let button = Button { url, label: "Accept the invitation".to_owned() };
    let context = Invitation {
        frame: frame(app, None, reader, Some(button)).await?,
        by: line(&invitation.by, NAME),
        to: line(&invitation.org_name, NAME),
        as_role: words::a_role(invitation.role),
        may: words::role_may(invitation.role),
        until: moment(invitation.expires_at),
    };
    Ok(Some(render(&app.views, &context)?))
}

pub(super) async fn password_reset(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let id = mail.about["reset"].as_str().unwrap_or_default();
    let now = app.seams.clock.now();
    let Some(reset) = app.store.find_reset(id).await?.filter(|reset| reset.stands(now)) else { return Ok(None) };
    let people = app.store.find_users_by_email(&reset.email).await?;
    let several = people.len() > 1;
    let button = Button { url: link(app, "reset", id).await?, label: "Set a new password".to_owned() };
    let context = PasswordReset {
        frame: frame(app, None, reader, Some(button)).await?,
        address: line(&reset.email, NAME),
        until: moment(reset.expires_at),
        orgs: people.iter().filter(|_| several).map(|user| line(&user.org_name, NAME)).collect(),
    };
    Ok(Some(render(&app.views, &context)?))
}

pub(super) async fn password_changed(
    app: &App,
    mail: &ClaimedMail,
    reader: &Reader,
) -> anyhow::Result<Option<Rendered>> {
    let button = Button { url: app.url("forgotten"), label: "It was not me".to_owned() };
    let context = PasswordChanged {
        frame: frame(app, None, reader, Some(button)).await?,
        address: line(&reader.address, NAME),
        at: moment(mail.created_at),
        how: match mail.about["how"].as_str() {
            Some("reset") => "It was set by a link for a forgotten password.",
            Some("operator") => "Whoever runs this installation set it.",
            _ => "Somebody who knew the one before set it, on the page of your account.",
        },
    };
    Ok(Some(render(&app.views, &context)?))
}

pub(super) async fn new_sign_in(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    // After days it is no news, and alarms nobody for nothing.
    if app.seams.clock.now() - mail.created_at > TimeDelta::days(3) {
        return Ok(None);
    }
    let button = Button { url: app.url("settings/account"), label: "See where you are signed in".to_owned() };
    let text = |name: &str| mail.about[name].as_str().map(|text| line(text, NAME));
    let context = NewSignIn {
        frame: frame(app, None, reader, Some(button)).await?,
        address: line(&reader.address, NAME),
        at: moment(mail.created_at),
        browser: text("browser").unwrap_or_default(),
        from: text("from"),
    };
    Ok(Some(render(&app.views, &context)?))
}

pub(super) async fn second_factor(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let account = ("settings/account/two-factor", "See your account");
    let stranger = ("forgotten", "It was not me");
    let at_once = "If it was you, there is nothing to do. If not, somebody has your password: set a new one at once.";
    let provider = line(mail.about["provider"].as_str().unwrap_or_default(), NAME);
    let left = mail.about["left"].as_u64().unwrap_or_default();
    let (title, what, advice, (path, label)) = match mail.about["what"].as_str().unwrap_or_default() {
        "on" => (
            "Two-factor sign-in was turned on",
            "From now on a sign-in asks for a code of your authenticator app, too.".to_owned(),
            at_once,
            stranger,
        ),
        "off" => (
            "Two-factor sign-in was turned off",
            "From now on your password alone signs you in.".to_owned(),
            at_once,
            stranger,
        ),
        "reset" => (
            "Two-factor sign-in was turned off",
            "Whoever runs this installation did that, as for somebody who has lost their authenticator app.".to_owned(),
            "Sign in with your password, and turn it on again. If you did not ask for it, ask them why.",
            account,
        ),
        "codes" => (
            "New recovery codes were made",
            "Those that you had before are worth nothing any more.".to_owned(),
            at_once,
            stranger,
        ),
        "recovery" => (
            "A recovery code was used",
            match left {
                0 => "It was the last one.".to_owned(),
                1 => "There is one left.".to_owned(),
                left => format!("There are {left} left."),
            },
            "If it was you, make new codes before the last one is gone. If not, somebody has your password and your codes: \
             change both at once.",
            account,
        ),
        "linked" => (
            "A sign-in was linked to your account",
            format!("From now on {provider} signs you in here."),
            "If it was you, there is nothing to do. If not, tell whoever runs this installation at once.",
            account,
        ),
        "unlinked" => (
            "A sign-in was unlinked from your account",
            format!("Browsers that came in by {provider} are signed out. Your next sign-in there links it anew."),
            "If it was not you, ask whoever runs this installation.",
            account,
        ),
        "guessed" => (
            "Somebody may have your password",
            "It was right, and then wrong codes were typed until we made them wait.".to_owned(),
            "Nobody got in that way. If it was not you, set a new password at once.",
            stranger,
        ),
        _ => return Ok(None),
    };
    let button = Button { url: app.url(path), label: label.to_owned() };
    let context = SecondFactor {
        frame: frame(app, None, reader, Some(button)).await?,
        address: line(&reader.address, NAME),
        at: moment(mail.created_at),
        title,
        what,
        advice,
    };
    Ok(Some(render(&app.views, &context)?))
}

pub(super) async fn key_made(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let Some(org) = &mail.org else { return Ok(None) };
    let id = mail.about["key"].as_str().unwrap_or_default();
    let all = app.store.keys(org).await?;
    let Some(key) = all.into_iter().find(|key| key.id == id && key.revoked_at.is_none()) else { return Ok(None) };
    let button = Button { url: app.url("settings/keys"), label: "See the keys".to_owned() };
    let context = KeyMade {
        frame: frame(app, Some(org), reader, Some(button)).await?,
        name: line(&key.name, NAME),
        by: line(mail.about["by"].as_str().unwrap_or_default(), NAME),
        at: moment(key.created_at),
        may: key.scopes.iter().map(|scope| scope_in_words(scope)).collect(),
    };
    Ok(Some(render(&app.views, &context)?))
}

/// A link to this subject that nobody has seen.
async fn link(app: &App, path: &str, subject: &str) -> anyhow::Result<String> {
    let text = keys::secret_text("", app.seams.random.as_ref());
    app.store.mint_link(subject, &keys::hash(text.expose_secret()), app.seams.clock.now()).await?;
    Ok(app.url(&format!("{path}/{}", text.expose_secret())))
}
