//! Giving a grant back at its provider. Where that ends all grants of a person, it is not done while another connector works
//! with one of them, nor while a consent whose person is not known yet has exchanged its code.

use std::sync::Arc;

use holdfast_core::{AppId, Provider, ports::OAuthApp, provider::OAuth2};
use secrecy::SecretString;
use tracing::{info, warn};

use crate::app::App;

/// A grant that nobody here wants any more.
pub(crate) struct Giving {
    /// Whose grant it is.
    pub(crate) provider: Arc<dyn Provider>,
    /// With which OAuth app it was made.
    pub(crate) app: AppId,
    /// The account's.
    pub(crate) facts: Box<OAuth2>,
    /// The app's client.
    pub(crate) client: OAuthApp,
    /// What is revoked.
    pub(crate) token: SecretString,
    /// The user's id at the provider, where it is known.
    pub(crate) user: Option<String>,
    /// The account's id.
    pub(crate) account: String,
    /// The consent that brought it and has not ended.
    pub(crate) consent: Option<String>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    /// The provider has taken it.
    Yes,
    /// It has not, or has no way to.
    No,
    /// It was not asked: others work with what it would have ended, or may be about to.
    Needed,
}

impl Giving {
    /// Revokes it at the provider, unless that would end what others need.
    pub(crate) async fn run(self, app: &App) -> GivenBack {
        if !self.provider.grants().end_together {
            return self.revoke(app).await;
        }
        let id = self.provider.about().id;
        let begun = app.store.begin_giving_back(id, self.consent.as_deref(), app.seams.clock.now()).await;
        let marker = match begun {
            Ok(Some(marker)) => marker,
            Ok(None) => {
                info!("a grant is not given back: a consent is under way that it might end");
                return GivenBack::Needed;
            }
            Err(error) => {
                warn!(%error, "nobody can look who works with a grant; it is not given back");
                return GivenBack::Needed;
            }
        };
        let given = if self.is_needed(app).await {
            info!("a grant is not given back: others of the same person would end");
            GivenBack::Needed
        } else {
            self.revoke(app).await
        };
        if let Err(error) = app.store.end_giving_back(&marker).await {
            warn!(%error, "could not note that a grant is given back; consents wait a little for it");
        }
        given
    }

    async fn revoke(&self, app: &App) -> GivenBack {
        let revoked = app.engine.revoke(&self.facts, &self.client, &self.token).await;
        if revoked { GivenBack::Yes } else { GivenBack::No }
    }

    /// Whether a connector works with a grant of the same user to the same app, whatever its org. Where nobody knows the user, the account
    /// decides; and where nobody can look, it is.
    async fn is_needed(&self, app: &App) -> bool {
        match app.store.connected(self.provider.about().id).await {
            Ok(connected) => connected.iter().filter(|other| other.app.is_same_client(&self.app)).any(|other| {
                match (&self.user, &other.user) {
                    (Some(user), Some(other)) => user == other,
                    _ => other.account == self.account,
                }
            }),
            Err(error) => {
                warn!(%error, "nobody can look who works with a grant; it is not given back");
                true
            }
        }
    }
}
