//! Strict imitations of the providers, for the demo, tests and benchmarks.
//!
//! Written from the providers' documentation and not from our adapters, so that the two can disagree. A sandbox is
//! a real server on a real port: it spends codes and refresh tokens for good, kills what a rotation replaces, limits,
//! pages, stalls and hangs up on demand. `/zendesk/{subdomain}/…` stands for `https://{subdomain}.zendesk.com/…`,
//! `/freshdesk/{domain}/…` for `https://{domain}.freshdesk.com/…`, `/shopify/{shop}/…` for
//! `https://{shop}.myshopify.com/…`, `/google/{host}/…` and `/front/{host}/…` for `https://{host}/…`, `/gorgias/{subdomain}/…` for
//! `https://{subdomain}.gorgias.com/…`, `/generic/{host}/…` for the hosts of services that are described in files, `/control` for
//! what no provider has: its clock, its ledger and its bad days.
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! use holdfast_sandbox::Sandbox;
//!
//! let sandbox = Sandbox::builder().start().await?;
//! let acme = sandbox.helpdesk("acme").expect("it exists at start");
//! acme.trouble(|faults| faults.lose_next_answer = 1);
//! assert_eq!(acme.counters().exchanges, 0);
//! # Ok(()) }
//! ```

mod client;
mod clock;
mod control;
mod counters;
mod desk;
mod events;
mod faults;
mod freshdesk;
mod front;
mod generic;
mod google;
mod gorgias;
mod handle;
mod http;
mod keep;
mod ledger;
mod options;
mod pipedrive;
mod server;
mod shopify;
mod zendesk;

pub use control::clients::OAUTH_PROVIDERS;
pub use counters::Counters;
pub use events::{EventAttempt, EventOrder};
pub use faults::{Canned, Download, Faults};
pub use freshdesk::{Freshdesk, FreshdeskPlan, FreshdeskTrouble, TicketScope};
pub use front::{EndForm, FrontGrant, FrontOptions, FrontRig, Replaces};
pub use generic::{GENERIC_KEY, GenericRig};
pub use google::{CalendarChannel, GmailWatch, GoogleGrant, GoogleOptions, GoogleRig};
pub use gorgias::{Gorgias, GorgiasGrant, Rotation as GorgiasRotation, Rules as GorgiasRules};
pub use handle::{GrantRequest, Helpdesk, TokenAnswer};
pub use ledger::{IssuedSet, Ledger, Presentation, PresentationOutcome, fingerprint, pkce_challenge};
pub use options::{API_TOKEN, CLIENT_ID, CLIENT_SECRET, Options, Scene};
pub use pipedrive::PipedriveRig;
pub use server::{Builder, Sandbox};
pub use shopify::{OfflineToken, Rules as ShopRules, Shop, callback_hmac};
pub use zendesk::consent::ConsentRefused;
pub use zendesk::webhooks::ZendeskWebhook;
