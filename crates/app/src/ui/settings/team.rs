//! The team: who is in the org, what they may do, who is invited. Everybody looks; admins act, and owners on owners.

mod ends;
mod invite;
mod second_factor;

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::Role;
use holdfast_store::{Invitation, InvitationNow, MailStage, Member, TeamChange, User};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{
    app::App,
    ui::{
        form::Posted,
        moment::Moment,
        parts::{Badge, Choice},
        person::Person,
        routes::{Needs, Routes},
        sign_in::takes_password,
        trouble::Trouble,
        view::{Here, View},
    },
    words::{self, BAD, GOOD, IDLE, WARN},
};

const HERE: &str = "/settings/team";
const ADMIN: Needs = Needs::Role(Role::Admin);

pub(super) fn routes() -> Routes {
    Routes::new()
        .get(HERE, Needs::SignedIn, show)
        .post("/settings/team/{id}/role", ADMIN, change_role)
        .merge(ends::routes())
        .merge(invite::routes())
        .merge(second_factor::routes())
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    done: String,
    /// Whom it was done to: of a person or an invitation.
    #[serde(default)]
    who: String,
}

#[derive(Serialize)]
struct TeamPage<'a> {
    done: Option<String>,
    /// A link to hand over, this once: where no mail is sent.
    link: Option<Link>,
    members: Vec<Row>,
    invitations: Vec<Invited>,
    /// What the identity provider is called.
    provider: Option<&'a str>,
    /// Who has to set up a second factor if that is required.
    without: Vec<String>,
    /// Whether everybody here has to have a second factor, and whether the reader has.
    required: bool,
    own_factor: bool,
    /// Whether the reader may leave.
    leaves: bool,
    form: Form,
}

#[derive(Serialize)]
struct Link {
    email: String,
    url: String,
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own that the template asks")]
struct Row {
    id: String,
    name: String,
    /// Empty where they are called by it.
    email: String,
    /// Whether it is the reader.
    here: bool,
    role: &'static str,
    operator: bool,
    /// They could sign in with nothing but a password.
    password_alone: bool,
    /// An account at the identity provider is theirs.
    linked: bool,
    since: Moment,
    seen: Option<Moment>,
    /// Why their address gets no mail any more, and since when.
    refused: Option<(String, Moment)>,
    /// What the reader can make of them; empty: nothing else.
    roles: Vec<Choice>,
    removable: bool,
}

#[derive(Serialize)]
struct Invited {
    id: String,
    email: String,
    role: &'static str,
    by: String,
    sent: Moment,
    expires: Moment,
    state: Badge,
    /// Why, where that is not plain.
    why: Option<String>,
    /// Whether the reader may send it again, and withdraw it.
    may: bool,
}

#[derive(Serialize, Default)]
struct Form {
    email: String,
    roles: Vec<Choice>,
    /// Whether mail is sent; else a link is handed over.
    mails: bool,
    hint: &'static str,
    problem: String,
}

/// GET /settings/team
async fn show(State(app): State<Arc<App>>, person: Person, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    page(&app, &person, &asked, None, "", Role::Member, String::new()).await
}

async fn page(
    app: &App,
    person: &Person,
    asked: &Asked,
    link: Option<Link>,
    email: &str,
    role: Role,
    problem: String,
) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let oidc = app.config.oidc();
    let members = app.store.members(person.org(), oidc.map(|oidc| oidc.issuer.as_str())).await?;
    let invitations = app.store.invitations(person.org()).await?;
    let addressees = app.store.addressees(person.org()).await?;
    let refused = |user: &User| {
        let why = addressees.iter().find(|one| one.id == user.id)?.suppressed.as_ref()?;
        Some((words::sentence(&why.error), Moment::new(why.at, now)))
    };
    let owners = members.iter().filter(|member| member.user.role == Role::Owner).count();
    let last = |member: &Member| member.user.role == Role::Owner && owners == 1;
    let password_alone = |user: &User| takes_password(app, user) && user.password_hash.is_some() && !user.second_factor;
    // Whom the provider vouches for may go on with that.
    let vouched = |member: &Member| member.linked && oidc.is_some_and(|oidc| !oidc.asks_for_second_factor());
    let without = members.iter().filter(|member| !member.user.second_factor && !vouched(member));
    let row = |member: &Member| {
        let user = &member.user;
        let (own, by) = (user.id == person.user.id, person.user.role);
        let can = |to: &Role| by.may_change(user.role, Some(*to)) && !last(member);
        let roles = Role::ALL.into_iter().rev().filter(can).map(|to| choice(to, words::role(to), user.role));
        Row {
            id: user.id.clone(),
            name: user.shown().to_owned(),
            email: if user.shown() == user.email { String::new() } else { user.email.clone() },
            here: own,
            role: words::role(user.role),
            operator: user.operator,
            password_alone: password_alone(user),
            linked: member.linked,
            refused: refused(user),
            since: Moment::new(user.created_at, now),
            seen: if own { Some(Moment::new(now, now)) } else { Moment::maybe(member.seen_at, now) },
            roles: roles.collect(),
            removable: !own && by.may_change(user.role, None) && !last(member),
        }
    };
    let invited = |invitation: &Invitation| {
        let (state, why) = state_of(invitation, invitation.now(now));
        Invited {
            id: invitation.id.clone(),
            email: invitation.email.clone(),
            role: words::role(invitation.role),
            by: invitation.by.clone(),
            sent: Moment::new(invitation.sent_at, now),
            expires: Moment::new(invitation.expires_at, now),
            state,
            why,
            may: person.user.role.may_change(invitation.role, None),
        }
    };
    let given = Role::ALL.into_iter().rev().filter(|to| person.user.role.may_change(Role::Viewer, Some(*to)));
    let form = Form {
        email: email.to_owned(),
        roles: given.map(|to| choice(to, &format!("{}: {}", words::role(to), words::role_means(to)), role)).collect(),
        mails: app.seams.mail.is_some(),
        hint: if app.seams.mail.is_some() {
            "They get a mail with a link, which works for 7 days."
        } else {
            "No mail server is set up: you get a link for them, which works for 7 days."
        },
        problem,
    };
    let status = if form.problem.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let page = TeamPage {
        done: done(asked, &members, &invitations),
        link,
        provider: oidc.map(|oidc| oidc.name.as_str()),
        without: without.map(|member| member.user.shown().to_owned()).collect(),
        required: person.user.second_factor_required,
        own_factor: person.user.second_factor,
        leaves: members.iter().any(|member| member.user.id == person.user.id && !last(member)),
        members: members.iter().map(row).collect(),
        invitations: invitations.iter().map(invited).collect(),
        form,
    };
    let view = View::of(person, Here::Settings, "pages/settings/team.html", "Team", &page);
    Ok(view.status(status).show(app))
}

fn choice(role: Role, word: &str, chosen: Role) -> Choice {
    Choice { value: role.as_str().to_owned(), word: word.to_owned(), chosen: role == chosen }
}

/// What was just done, in words. An address may be made up: what it names is looked for among what is there.
fn done(asked: &Asked, members: &[Member], invitations: &[Invitation]) -> Option<String> {
    let member = || members.iter().find(|member| member.user.id == asked.who).map(|member| &member.user);
    let invited = || invitations.iter().find(|invitation| invitation.id == asked.who);
    match asked.done.as_str() {
        "role" => member().map(|user| format!("{} is {} now.", user.shown(), words::a_role(user.role))),
        "invited" => invited().map(|one| format!("{} is invited as {}.", one.email, words::a_role(one.role))),
        "renewed" => invited().map(|one| {
            format!("{} was invited already: the invitation, as {}, is sent again.", one.email, words::a_role(one.role))
        }),
        "changed" => invited().map(|one| {
            format!(
                "{} was invited already, with another role. The invitation is changed to {}, and sent again; the links of \
                 before are over.",
                one.email,
                words::a_role(one.role)
            )
        }),
        "withdrawn" => Some("The invitation is withdrawn; its link leads nowhere any more.".to_owned()),
        "required" => Some("Who has no second factor sets one up before they see anything else here.".to_owned()),
        "not-required" => Some("A second factor is everybody's own choice again.".to_owned()),
        "removed" => Some("They are out of the team, and signed out.".to_owned()),
        _ => None,
    }
}

/// Where an invitation is, with the state of its mail.
fn state_of(invitation: &Invitation, now: InvitationNow) -> (Badge, Option<String>) {
    if now == InvitationNow::Expired {
        return ((WARN, "Expired").into(), None);
    }
    let Some((stage, why)) = &invitation.mail else { return ((IDLE, "Invited").into(), None) };
    let (tone, word) = match stage {
        MailStage::Queued | MailStage::Held | MailStage::Posted | MailStage::Sending => (IDLE, "Mail on its way"),
        MailStage::Waiting => (WARN, "Mail put off"),
        MailStage::Sent => (GOOD, "Mailed"),
        MailStage::Refused | MailStage::GivenUp | MailStage::Nobody => (BAD, "Mail not delivered"),
        MailStage::Unsent | MailStage::Dropped => (IDLE, "By a link"),
    };
    let why = why.clone().filter(|_| tone != GOOD).map(|words| words::sentence(&words));
    ((tone, word).into(), why)
}

#[derive(Deserialize)]
struct NewRole {
    #[serde(default)]
    role: String,
}

/// POST /settings/team/{id}/role
async fn change_role(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<NewRole>,
) -> Result<Response, Trouble> {
    let Some(role) = Role::parse(&form.role) else {
        // Of another org, it is not there, whatever the form says.
        let there = app.store.find_user(&id).await?.is_some_and(|user| user.org == *person.org());
        return Err(if there { Trouble::Garbled } else { Trouble::not_found(&person) });
    };
    let change = app.store.set_role(person.org(), &id, role, Some(&person.user.id), app.seams.clock.now()).await?;
    refused(&person, change)?;
    info!(user.id = person.user.id, "{} made {id} {}", person.user.id, words::a_role(role));
    Ok(Redirect::to(&format!("{HERE}?done=role&who={id}")).into_response())
}

/// What keeps a change to the team from being done, in words.
fn refused(person: &Person, change: TeamChange) -> Result<(), Trouble> {
    match change {
        TeamChange::Done => Ok(()),
        TeamChange::Nobody => Err(Trouble::not_found(person)),
        TeamChange::NotAllowed => {
            Err(Trouble::Forbidden { needs: Role::Owner, person: Some(Box::new(person.clone())) })
        }
        TeamChange::LastOwner => Err(Trouble::told(
            person,
            StatusCode::CONFLICT,
            "The last owner stays",
            "Somebody has to be there who can make others owners. Make somebody else an owner first.",
        )),
        TeamChange::LastOperator => Err(Trouble::told(
            person,
            StatusCode::CONFLICT,
            "The last operator stays",
            "Nobody else runs this installation. Whoever has the machine makes another operator first: holdfast user create --operator.",
        )),
    }
}
