//! The core's ports on sea-orm, for SQLite and PostgreSQL: one file per table, one sealing for every secret.
//!
//! Statements are SQL that reads the same on both databases; where they must differ (the clock, row locks, signals),
//! one function in `sql` or `signals` hides it. Every write path that others may have in memory ends in a signal: on
//! PostgreSQL a trigger of the schema sends it, on SQLite the store does after the commit.
//!
//! Lock order, for every transaction that touches more than one row: credential, connector, exchange, agent, the rest.

mod agent_changes;
mod agent_stops;
mod agents;
mod audit;
mod browsers;
mod channels;
mod claims;
mod connectors;
mod credentials;
mod due;
mod event_endpoints;
mod events;
mod exchanges;
mod expiring;
mod extras;
mod grants;
mod half_sign_ins;
mod health;
mod history;
mod identities;
mod imports;
mod incidents;
mod instance;
mod invitations;
mod jobs;
mod keys;
mod leases;
mod lifeboat;
mod lines;
mod listing;
mod mails;
mod migrate;
mod milestones;
mod mirrors;
mod notifications;
mod oauth_apps;
mod orgs;
mod outbox;
mod passwords;
mod patience;
mod places;
mod provider_migrations;
mod replicas;
mod row;
mod run_steps;
mod run_tickets;
mod runs;
mod seal;
mod second_factors;
mod serving;
mod sessions;
mod signals;
mod spares;
mod sql;
mod store;
mod team;
mod throttle;
mod timeline;
mod tool_calls;
mod unfinished;
mod usage;
mod users;
mod webhooks;

pub use agent_changes::{AgentChange, Altered, Made, NewAgent, NewBinding};
pub use agents::{Agent, AgentBrief, Binding, Gate, Paused, Stop};
pub use audit::{AuditFilter, AuditLine, By, ByKind, Surface, acting, by};
pub use browsers::{BrowserSession, NewBrowserSession};
pub use channels::Channel;
pub use claims::{GrantClaim, GrantClaimed, Rival};
pub use connectors::{Created, NewConnector};
pub use due::DueCount;
pub use event_endpoints::{
    AttemptMade, EventAttempt, EventEndpoint, EventEndpointChange, MOST_EVENT_ENDPOINTS, MadeEventEndpoint,
    NewEventEndpoint, NewEventSecret, Replay, Replayed, Stopped, Tested,
};
pub use events::{NewEvent, Published, StoredEvent};
pub use grants::{Connected, Grant, Granted};
pub use half_sign_ins::HalfSignIn;
pub use history::{Failure, HealthChange};
pub use identities::{NewIdentity, Unlink};
pub use imports::{Import, Imported, Met};
pub use incidents::OpenIncident;
pub use invitations::{Accept, Accepted, Invitation, InvitationNow, Invited, NewInvitation, Touched};
pub use jobs::{
    Attempt, ByHand, ClaimedJob, Did, Enqueued, Job, JobAttempt, JobClaims, JobCount, JobFilter, JobNames, JobsChanged,
    JobsWanted, NamedConnector, NewJob, Turn,
};
pub use keys::{ApiKey, NewKey};
pub use lifeboat::{CheckedGrant, KeptGrant, LifeboatState, Spool};
pub use lines::{ConnectorLine, LineCount, LineFilter, LineState};
pub use listing::{ConnectorView, Filter, Page};
pub use mails::{
    AppTrouble, ClaimedMail, Gather, Gathered, MailFailure, MailItem, MailKind, MailOutcome, MailStage, MailState,
    MailTrouble, SuppressedAddress, Tell, TellAppTrouble, TellMigrations, ToChannel, Told, WebhookTrouble,
};
pub use milestones::Milestones;
pub use mirrors::{DueSync, Kept, Mirror, MirrorPage, MirrorQuery, MirroredTickets};
pub use notifications::{Addressee, HabitsChange, Suppression, told_of};
pub use oauth_apps::{AppSecret, AppUse, StoredApp};
pub use orgs::OrgFace;
pub use outbox::OutboxRow;
pub use passwords::{Reset, ResetDone};
pub use provider_migrations::{
    MigrationProgress, MigrationStart, MustReconnect, NewMigration, OpenConnector, OrgProgress, ProviderMigration,
};
pub use replicas::Replica;
pub use run_steps::{Began, RunStep, StepEnd};
pub use run_tickets::{OnlyOn, RunTicket, TicketLine, TicketOfRun};
pub use runs::{Claimed, End, Queued, Run, RunEvent};
pub use seal::{BadMasterKey, MasterKey};
pub use second_factors::{Owner as FactorOwner, Proof, Proven, SecondFactor};
pub use serving::ServingLock;
pub use sessions::{NewSession, Purpose, Session, StartSession, Taken, Way};
pub use store::{Kind, Options, Store};
pub use team::{Member, TeamChange};
pub use throttle::Throttle;
pub use timeline::{DayCount, Entry, ExchangeOutcomes, Recovery, TimelineItem, is_timeline_cursor};
pub use tool_calls::{Attempts, KeyUse};
pub use unfinished::Moved;
pub use usage::Used;
pub use users::{EmailTaken, FirstUser, NewUser, User};
pub use webhooks::{
    Arrived, Dedupe, Delivery, DeliveryFilter, DeliveryState, DueLook, Endpoint, Known, Looked, NewEndpoint,
    NewlyConnected, Owner, Pace, PassedOver, Receiver, Rejection, Rejections, SaidBy, Subscribed, TakenDelivery,
    Threshold, TurnedAway, WhyNoRun, WorkedOff,
};

pub use holdfast_core::ports::StoreError;
