//! Two real processes on one PostgreSQL: what storms, crashes and cut lines may not do to a credential.

mod calls;
mod crash;
mod events;
mod expiry;
mod jobs;
mod lifeboat;
mod lines;
mod mail;
mod pools;
mod redis;
mod schedule;
mod signals;
mod webhooks;

use std::time::Duration;

use holdfast_sandbox::{Helpdesk, PresentationOutcome};
use holdfast_tests::wait::within;

/// Generous: what is waited for takes milliseconds, or as long as the test's own settings say.
const BOUND: Duration = Duration::from_mins(1);

/// What became of the refresh tokens that this helpdesk was shown, in order.
fn presented(helpdesk: &Helpdesk) -> Vec<PresentationOutcome> {
    helpdesk.ledger().presentations.iter().map(|presentation| presentation.outcome).collect()
}

/// Waits until the provider has been shown so many refresh tokens.
async fn shown(helpdesk: &Helpdesk, count: usize) {
    within(&format!("the provider is shown {count} refresh tokens"), BOUND, || {
        let presented = presented(helpdesk);
        async move { if presented.len() >= count { Ok(()) } else { Err(presented) } }
    })
    .await;
}

/// Waits until the provider has issued so many token sets, whether or not it has answered.
async fn issued(helpdesk: &Helpdesk, count: usize) {
    within(&format!("the provider has issued {count} token sets"), BOUND, || {
        let issued = helpdesk.ledger().sets.len();
        async move { if issued >= count { Ok(()) } else { Err(issued) } }
    })
    .await;
}
