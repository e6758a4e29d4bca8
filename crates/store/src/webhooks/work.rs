//! Working an event off: agents that wait for it get a run each, and the delivery is processed, all or nothing.

use chrono::{DateTime, Utc};
use holdfast_core::{
    AgentId, ConnectorId, DeliveryId, OrgId,
    agent::RunState,
    event::{About, EventType},
    job::Kind,
    ports::StoreError,
    webhook::Topic,
};
use sea_orm::{DatabaseTransaction, FromQueryResult};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    agents,
    events::{self, Published},
    jobs::{self, NewJob},
    mirrors::{BY_SYNC, Told},
    patience::Patient,
    run_tickets,
    runs::BRAKE,
    sql::{self, failed, micros, values},
    store::Store,
    webhooks::SaidBy,
};

#[derive(FromQueryResult)]
struct Happened {
    id: String,
    org_id: String,
    connector_id: String,
    provider: String,
    account: String,
    identity: Option<Value>,
    topic: String,
    kind: String,
    subject: Option<String>,
    author: Option<String>,
    author_id: Option<String>,
    state: String,
    received_at: DateTime<Utc>,
    told_at: Option<DateTime<Utc>>,
    endpoint_id: String,
}

impl Happened {
    fn told<'a>(&'a self, topic: Topic, ticket: &'a str) -> Told<'a> {
        Told {
            connector: &self.connector_id,
            ticket,
            topic,
            happened_at: self.told_at,
            received_at: self.received_at,
            by_sync: self.endpoint_id == BY_SYNC,
        }
    }

    /// Whether the connector itself did it: what an agent writes is no news to agents.
    fn is_our_own(&self) -> bool {
        let ours = self.identity.as_ref().and_then(|identity| identity.get("id")).and_then(Value::as_str);
        SaidBy::of(self.author.as_deref(), self.author_id.as_deref(), ours) == SaidBy::Us
    }
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkedOff {
    /// It is processed.
    Yes,
    /// Somebody did it, and an agent waits for events: first it has to be known whether that is the connector's own user. Nothing
    /// was done.
    WhoIs(ConnectorId),
}

/// An agent that could work with an event's connector, and that the event gave no run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    /// Which.
    pub agent: AgentId,
    /// What people called it then.
    pub name: String,
    /// Why.
    pub why: WhyNoRun,
}

/// Why an event gave an agent no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyNoRun {
    /// A person had paused it.
    Paused,
    /// It waits for other events.
    OtherEvents,
    /// It runs by a schedule.
    BySchedule,
    /// It runs when a person says so.
    ByHand,
    /// The connector had done itself what the event tells of.
    OurOwn,
    /// It had a run for this change already.
    ToldBefore,
}

impl WhyNoRun {
    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::OtherEvents => "other_events",
            Self::BySchedule => "by_schedule",
            Self::ByHand => "by_hand",
            Self::OurOwn => "our_own",
            Self::ToldBefore => "told_before",
        }
    }
}

/// No more of them are written down of one event.
const MOST_PASSED_OVER: usize = 20;

#[derive(FromQueryResult)]
struct Bound {
    id: String,
    name: String,
    paused: bool,
    role: String,
    on_events: Option<String>,
    by_time: bool,
}

impl Bound {
    /// Why an event of this topic is not for it; `None`: it is.
    fn passes(&self, topic: Topic) -> Result<Option<WhyNoRun>, StoreError> {
        let waits = match &self.on_events {
            None if self.by_time => return Ok(Some(WhyNoRun::BySchedule)),
            None => return Ok(Some(WhyNoRun::ByHand)),
            Some(events) => agents::events(events, &self.id)?.waits_for(topic),
        };
        Ok(if !waits {
            Some(WhyNoRun::OtherEvents)
        } else if self.paused {
            Some(WhyNoRun::Paused)
        } else {
            None
        })
    }

    fn passed_over(&self, why: WhyNoRun) -> PassedOver {
        PassedOver { agent: self.id.as_str().into(), name: self.name.clone(), why }
    }
}

impl Store {
    /// Tells the org's endpoints of what happened to a ticket, gives each agent that waits for it, is not paused, and is bound to
    /// its connector one run, and says that the event is processed. Doing it again changes nothing, and so does what a webhook
    /// and a sync both tell of (`mirrors/twin.rs`). An agent gets no more
    /// than `most` runs for one ticket within an hour; what is beyond is written down, and not done. `whoever`: also where the
    /// connector's own user is not known.
    pub async fn work_off_event(
        &self,
        id: &DeliveryId,
        most: u32,
        whoever: bool,
        now: DateTime<Utc>,
    ) -> Result<WorkedOff, StoreError> {
        let doing = "work off an event";
        let tx = self.transaction(doing).await?;
        let read = "SELECT d.id, d.org_id, d.connector_id, c.provider, c.account, c.identity, d.topic, d.kind, d.subject, d.author, \
                    d.author_id, d.state, d.received_at, d.happened_at AS told_at, d.endpoint_id FROM deliveries d JOIN connectors c ON c.id = d.connector_id \
                    WHERE d.id = $1";
        let Some(event) = sql::one::<Happened>(&tx, doing, read, values![id.as_str()]).await? else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(WorkedOff::Yes);
        };
        let waited_for = Topic::parse(&event.topic).filter(|topic| Topic::TICKETS.contains(topic));
        let (mut given, mut told) = (Vec::new(), Published::ToNobody);
        let ticket = event.subject.as_deref().filter(|_| event.state != "processed");
        let connector = ConnectorId::from(event.connector_id.as_str());
        let org: OrgId = event.org_id.as_str().into();
        let change = waited_for.zip(ticket).map(|(topic, ticket)| event.told(topic, ticket));
        let mut same_as = None;
        if let Some(change) = &change {
            // Whoever else tells of this ticket comes before, or after.
            sql::alone(&tx, doing, &format!("ticket:{}:{}", change.connector, change.ticket)).await?;
            same_as = change.twin(&tx).await?;
        }
        let (waited_for, ticket) = if same_as.is_some() { (None, None) } else { (waited_for, ticket) };
        if let (Some(topic), Some(ticket)) = (waited_for, ticket)
            && let Some(kind) = EventType::parse(topic.as_str())
        {
            let data = |about: &About| about.ticket(ticket, &event.kind);
            let (key, at) = (Some(id.to_string()), event.received_at);
            told = events::tell_of(self, &tx, &org, &connector, kind, key, at, data).await?;
        }
        let (mut why_none, mut passed_over) = (None, Vec::new());
        if let (Some(topic), Some(ticket)) = (waited_for, ticket) {
            let look = "SELECT a.id, a.name, a.paused_at IS NOT NULL AS paused, MIN(b.role) AS role, a.on_events, \
                        (a.every_secs IS NOT NULL OR a.cron IS NOT NULL) AS by_time \
                        FROM agent_connectors b JOIN agents a ON a.id = b.agent_id WHERE b.connector_id = $1 \
                        GROUP BY a.id, a.name, a.paused_at, a.on_events, a.every_secs, a.cron ORDER BY a.id";
            let mut waiting = Vec::new();
            let own = event.is_our_own();
            for agent in sql::all::<Bound>(&tx, doing, look, values![event.connector_id.as_str()]).await? {
                // What they wait for is no matter then: nobody has to change that.
                let why = if own { Some(WhyNoRun::OurOwn) } else { agent.passes(topic)? };
                match why {
                    Some(why) => passed_over.push(agent.passed_over(why)),
                    None => waiting.push(agent),
                }
            }
            let paused = |one: &&PassedOver| one.why == WhyNoRun::Paused;
            let paused: Vec<_> = passed_over.iter().filter(paused).map(|one| one.name.as_str()).collect();
            if own && !passed_over.is_empty() {
                why_none = Some("This connector did it itself, and that sets no agent off.".to_owned());
            } else if waiting.is_empty() && !paused.is_empty() {
                why_none = Some(format!("It set no agent off: {} was paused.", paused.join(", ")));
            }
            let by_events = |one: &PassedOver| matches!(one.why, WhyNoRun::OtherEvents | WhyNoRun::Paused);
            let matters = !waiting.is_empty() || passed_over.iter().any(by_events);
            if matters && event.author_id.is_some() && event.identity.is_none() && !whoever {
                tx.rollback().await.map_err(failed(doing))?;
                return Ok(WorkedOff::WhoIs(connector));
            }
            for agent in waiting {
                let before = match &change {
                    Some(change) => change.gave_a_run(&tx, &agent.id).await?,
                    None => None,
                };
                if before.is_some() {
                    same_as = before;
                    passed_over.push(agent.passed_over(WhyNoRun::ToldBefore));
                    continue;
                }
                self.give_run(&tx, &event, ticket, &agent, most, now).await?;
                given.push(AgentId::from(agent.id));
            }
        }
        let settle = "UPDATE deliveries SET state = 'processed', detail = $3, settled_at = $2, same_as = $4, \
                      passed_over = $5 \
                      WHERE id = $1 AND state IN ('received', 'parked', 'failed')";
        if let Some(twin) = same_as.as_ref().filter(|_| given.is_empty()) {
            why_none = Some(format!("The same change was told before, by {}.", twin.0));
        }
        passed_over.truncate(MOST_PASSED_OVER);
        let passed_over = waited_for.is_some().then(|| json!(passed_over));
        let values = values![id.as_str(), micros(now), why_none, same_as.map(|twin| twin.0), passed_over];
        sql::run(&tx, doing, settle, values).await?;
        tx.commit().await.map_err(failed(doing))?;
        for agent in &given {
            self.agent_changed(agent);
        }
        if matches!(told, Published::Yes(_, 1..)) {
            self.events_told(std::slice::from_ref(&org));
        }
        if !given.is_empty() {
            self.jobs_changed(&org, Kind::AgentRun);
        }
        Ok(WorkedOff::Yes)
    }

    async fn give_run(
        &self,
        tx: &Patient<DatabaseTransaction>,
        event: &Happened,
        ticket: &str,
        agent: &Bound,
        most: u32,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let (doing, delivery) = ("give an agent a run", event.id.as_str());
        let lately = "SELECT COUNT(*) AS number FROM runs WHERE agent_id = $1 AND subject = $2 AND queued_at > $3";
        let subject = format!("{}:{ticket}", event.connector_id);
        let lately: Option<sql::Number> =
            sql::one(tx, doing, lately, values![agent.id.as_str(), subject.as_str(), micros(now - BRAKE)]).await?;
        let too_often = lately.is_some_and(|lately| lately.count() >= u64::from(most));
        let run = self.id("run");
        let job = if too_often {
            None
        } else {
            let org: OrgId = event.org_id.as_str().into();
            let job = NewJob {
                org,
                kind: Kind::AgentRun,
                key: format!("{delivery}:{}", agent.id),
                connector: Some(event.connector_id.as_str().into()),
                subject: run.clone(),
                payload: json!({ "agent": agent.id, "delivery": delivery, "ticket": ticket }),
                due_at: event.received_at,
                at: now,
            };
            match jobs::enqueue(self, tx, &job).await? {
                jobs::Enqueued::Yes(job) => Some(job),
                jobs::Enqueued::Already(_) => return Ok(()),
            }
        };
        let known = json!({
            "id": delivery,
            "topic": event.topic,
            "kind": event.kind,
            "ticket_id": ticket,
            "connector": { "id": event.connector_id, "provider": event.provider, "account": event.account },
            "role": agent.role,
            "by": event.author,
            "at": event.received_at,
        });
        let insert = "INSERT INTO runs (id, org_id, agent_id, state, dry, queued_at, ended_at, code, detail, event, delivery_id, \
                      subject, job_id) VALUES ($1, $2, $3, $4, FALSE, $5, $6, $7, $8, $9, $10, $11, $12)";
        let state = if too_often { RunState::Stopped } else { RunState::Queued };
        let detail = format!(
            "{most} events of this ticket within an hour gave it a run. Perhaps what it writes comes back as events; look at the \
             webhook at the provider."
        );
        let values = values![
            run.as_str(),
            event.org_id.as_str(),
            agent.id.as_str(),
            state.as_str(),
            micros(now),
            too_often.then(|| micros(now)),
            too_often.then(|| "too_often".to_owned()),
            too_often.then_some(detail),
            known,
            delivery,
            subject.as_str(),
            job.map(|job| job.to_string()),
        ];
        sql::run(tx, doing, insert, values).await?;
        run_tickets::note(tx, &run, &event.connector_id, ticket).await
    }
}
