//! Before a code is exchanged: whether the new grant would end another one, or be ended. What only was exchanged counts
//! too, so a consent claims its grant first and holds that until it has ended.

use std::time::Duration;

use holdfast_core::{AppId, Health, OrgId};
use holdfast_store::{GrantClaim, GrantClaimed, Rival, Session};

use super::{asked::Asked, ending::Ending};
use crate::{app::App, called};

/// Longer than an earlier consent of the same connector is waited for, and than a revocation takes.
const LONGEST_WAIT: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(100);

/// What the consent of this session claims, where its provider's grants touch each other.
pub(super) fn of(asked: &Asked, session: &Session, app: &AppId) -> Option<GrantClaim> {
    let grants = asked.provider.grants();
    (grants.one_per_account || grants.end_together).then(|| GrantClaim {
        consent: session.consent(),
        sequence: session.sequence,
        connector: session.connector.clone(),
        provider: asked.snapshot.provider.clone(),
        account: asked.account.id.clone(),
        app: app.clone(),
        alone: grants.one_per_account,
    })
}

/// Claims it. Waits a little for what is under way: most consents end within seconds.
pub(super) async fn hold(app: &App, asked: &Asked, session: &Session, app_id: &AppId) -> Result<(), Ending> {
    let Some(claim) = of(asked, session, app_id) else { return Ok(()) };
    let deadline = app.seams.clock.uptime() + LONGEST_WAIT;
    loop {
        let attempt = || app.store.claim_grant(&claim, app.seams.clock.now());
        match app.engine.insist("claim a grant", attempt).await {
            GrantClaimed::Yes => return Ok(()),
            GrantClaimed::Later => return Err(overtaken(app, asked).await),
            GrantClaimed::Held(rival) => return Err(held(rival, &session.org, &asked.account.display)),
            GrantClaimed::UnderWay if app.seams.clock.uptime() >= deadline => return Err(Ending::UnderWay),
            GrantClaimed::UnderWay => app.seams.clock.sleep(PAUSE).await,
        }
    }
}

/// Something came later than this consent: a grant, or another account for a connector that has none yet.
pub(super) async fn overtaken(app: &App, asked: &Asked) -> Ending {
    match app.engine.snapshot(&asked.snapshot.connector).await.ok().flatten() {
        Some(now) if now.account != asked.snapshot.account && now.account != asked.account.id => Ending::OtherAccount {
            expected: called::account(app, &now.provider, &now.account),
            got: asked.account.display.clone(),
            got_id: asked.account.id.clone(),
        },
        // There and back again.
        Some(now) if now.health == Health::Pending => Ending::NotAccepted,
        _ => Ending::Overtaken,
    }
}

/// Another connector has it. Of another organisation's nothing is said.
pub(super) fn held(rival: Rival, own: &OrgId, account: &str) -> Ending {
    let Rival { connector, org, name } = rival;
    let ours = org == *own;
    Ending::Held {
        account: account.to_owned(),
        connector: ours.then(|| connector.to_string()),
        name: ours.then(|| if name.is_empty() { account.to_owned() } else { name }),
    }
}
