//! Orgs take turns, and inside an org its connectors.

use std::{collections::HashSet, sync::Arc};

use holdfast_core::job::{Kind, Outcome};
use holdfast_store::Turn;

use super::{claim, enqueue, event, job, settle, wanted};
use crate::{
    agents::another,
    harness::{TestDatabase, connect, moment, on_both},
};

on_both! {
    an_org_with_very_many_jobs_does_not_delay_another_ones,
    orgs_share_what_a_worker_takes,
    a_connector_with_many_events_does_not_delay_another_of_its_org,
    every_lane_gets_its_turn,
}

async fn an_org_with_very_many_jobs_does_not_delay_another_ones(db: Arc<TestDatabase>) {
    let store = db.store().await;
    store.ensure_org("Acme").await.unwrap();
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) \
         INSERT INTO jobs (id, org_id, kind, key, lane, subject, payload, state, due_at, created_at) \
         SELECT 'job_' || i, org.id, 'mail', 'key ' || i, '-', '', '{}', 'ready', org.created_at, org.created_at \
         FROM n CROSS JOIN orgs org",
    )
    .await;
    let mut turn = Turn::default();
    store.claim_jobs(&wanted(Kind::Mail, 8), &mut turn, moment(0)).await.unwrap();
    let other = store.ensure_org("Globex").await.unwrap();
    let late = enqueue(&store, &job(&other, Kind::Mail, "late")).await;

    let claims = store.claim_jobs(&wanted(Kind::Mail, 8), &mut turn, moment(1)).await.unwrap();

    assert_eq!(claims.jobs.len(), 8);
    assert!(claims.jobs.iter().any(|claimed| claimed.job.id == late), "it is among the next");
}

async fn orgs_share_what_a_worker_takes(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let mut orgs = Vec::new();
    for name in ["Acme", "Globex", "Initech"] {
        let org = store.ensure_org(name).await.unwrap();
        for number in 0..20 {
            enqueue(&store, &job(&org, Kind::Mail, &format!("{number}"))).await;
        }
        orgs.push(org);
    }
    let mut turn = Turn::default();
    let mut taken = Vec::new();
    for _ in 0..6 {
        // Fewer than there are orgs: each look begins behind the last org that was served.
        taken.extend(store.claim_jobs(&wanted(Kind::Mail, 2), &mut turn, moment(0)).await.unwrap().jobs);
    }

    assert_eq!(taken.len(), 12);
    for org in &orgs {
        assert_eq!(taken.iter().filter(|claimed| claimed.job.org == *org).count(), 4, "{org}");
    }
    let nine = store.claim_jobs(&wanted(Kind::Mail, 9), &mut turn, moment(0)).await.unwrap().jobs;
    for org in &orgs {
        assert_eq!(nine.iter().filter(|claimed| claimed.job.org == *org).count(), 3, "{org}");
    }
}

async fn a_connector_with_many_events_does_not_delay_another_of_its_org(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, acme) = connect(&store, "acme").await;
    let globex = another(&store, &org, "globex").await;
    for number in 0..50 {
        enqueue(&store, &event(&org, &acme, number)).await;
    }
    assert_eq!(claim(&store, &wanted(Kind::Event, 10), moment(100)).await.len(), 1, "one at a time");
    let late = enqueue(&store, &event(&org, &globex, 100)).await;

    let claimed = claim(&store, &wanted(Kind::Event, 10), moment(100)).await;

    assert_eq!(claimed.iter().map(|claimed| &claimed.job.id).collect::<Vec<_>>(), [&late]);
}

async fn every_lane_gets_its_turn(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, first) = connect(&store, "acme").await;
    let mut connectors = vec![first];
    for number in 0..6 {
        connectors.push(another(&store, &org, &format!("acme{number}")).await);
    }
    for connector in &connectors {
        for number in 0..20 {
            enqueue(&store, &event(&org, connector, number)).await;
        }
    }
    let mut turn = Turn::default();
    let mut served = HashSet::new();
    for _ in 0..7 {
        for claimed in store.claim_jobs(&wanted(Kind::Event, 2), &mut turn, moment(100)).await.unwrap().jobs {
            served.insert(claimed.job.connector.clone().unwrap());
            settle(&store, &claimed, Outcome::Done, moment(100)).await;
        }
    }

    assert_eq!(served.len(), connectors.len(), "whoever takes two at a time comes around");
}
