//! The webhook of an OAuth app, whose one address serves all of its connectors.

use holdfast_core::{AppId, OrgId, webhook::Scope};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::Refused;
use crate::{
    app::App,
    hooks::manage::{self, NotMade, Standing, Wish},
};

/// Makes it, or gives it a secret. Of the instance's app, or of an organisation's own.
pub(super) async fn of_app(
    app: &App,
    provider: &str,
    org: Option<&OrgId>,
    kind: Option<String>,
    secret: Option<String>,
) -> Result<Value, Refused> {
    let adapter = app.providers().find(provider);
    let adapter = adapter.ok_or_else(|| Refused::new(format!("there is no provider {provider:?}")))?;
    let served = adapter.webhooks();
    let served: Vec<_> = served.iter().map(|way| way.facts()).filter(|facts| facts.scope == Scope::App).collect();
    let name = adapter.about().name;
    let facts = served.iter().find(|facts| kind.as_deref().is_none_or(|kind| facts.id == kind)).ok_or_else(|| {
        Refused::new(format!("{name} has no address for a whole OAuth app; make one for each connector, on its page"))
    })?;
    let app_id = match org {
        None => AppId::instance(provider),
        Some(org) => match app.apps.for_consent(org, provider).await? {
            Some((id, _)) if id.org().is_some() => id,
            _ => return Err(Refused::new(format!("the organisation has no OAuth app of its own for {name}"))),
        },
    };
    let wish =
        Wish { kind: Some(facts.id.to_owned()), secret: secret.map(SecretString::from), rotate: false, receive: None };
    let made = manage::wish_of_app(app, &app_id, &wish, "command line").await.map_err(|error| match error {
        NotMade::NoSuchWay => Refused::new(format!("{name} tells of nothing in this way")),
        NotMade::BadSecret(why) | NotMade::NotKept(why) => Refused::new(why),
        NotMade::Store(error) => error.into(),
    })?;
    let url = manage::address(app, &made.endpoint);
    let steps = facts.steps.iter().map(|step| step.replace("{url}", &url).replace("{secret}", "the secret"));
    Ok(json!({
        "url": url,
        "kind": facts.id,
        "status": Standing::of(app, &made.endpoint, facts).as_str(),
        "steps": steps.collect::<Vec<_>>(),
    }))
}
