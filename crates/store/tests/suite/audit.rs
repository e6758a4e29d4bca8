//! The audit log: a line for each change, in its transaction, of its org, and for good.

use std::sync::Arc;

use holdfast_core::{OrgId, Role};
use holdfast_store::{AuditFilter, AuditLine, By, ByKind, NewUser, Store, Surface, TeamChange, acting};
use serde_json::json;

use crate::harness::{TestDatabase, moment, on_both};

on_both! {
    a_change_and_its_line_are_written_together_or_not_at_all,
    what_changes_nothing_leaves_no_line,
    a_line_says_who_acted_and_from_where,
    lines_are_found_by_what_is_asked_for_and_page_by_page,
    no_org_sees_the_lines_of_another,
    no_line_is_changed_or_deleted,
}

async fn lines(store: &Store, org: &OrgId) -> Vec<AuditLine> {
    store.audit_lines(org, &AuditFilter::default(), None, 100).await.unwrap().data
}

fn actions(lines: &[AuditLine]) -> Vec<&str> {
    lines.iter().map(|line| line.action.as_str()).collect()
}

async fn person(store: &Store, org: &OrgId, email: &str, role: Role) -> String {
    let user = NewUser {
        org: org.clone(),
        email: email.to_owned(),
        name: None,
        role,
        operator: false,
        password_hash: None,
        at: moment(0),
    };
    store.create_user(&user).await.unwrap().unwrap()
}

fn ada() -> By {
    By {
        kind: ByKind::Person,
        id: Some("user_ada".to_owned()),
        name: "Ada".to_owned(),
        surface: Surface::Web,
        address: Some("192.0.2.7".to_owned()),
    }
}

async fn a_change_and_its_line_are_written_together_or_not_at_all(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let key = store.create_key(&org, "one", &[], &[1; 32], moment(0)).await.unwrap();
    assert_eq!(actions(&lines(&store, &org).await), ["key.created", "organisation.created"]);
    // Nothing can be written down any more.
    db.execute("ALTER TABLE audit_log RENAME TO audit_log_away").await;

    store.revoke_key(&org, &key, moment(1)).await.unwrap_err();
    store.create_key(&org, "two", &[], &[2; 32], moment(1)).await.unwrap_err();

    db.execute("ALTER TABLE audit_log_away RENAME TO audit_log").await;
    let keys = store.keys(&org).await.unwrap();
    assert_eq!((keys.len(), keys[0].revoked_at), (1, None), "a change without its line is none");
    assert_eq!(lines(&store, &org).await.len(), 2);
    // The last owner stays, and nothing says otherwise.
    let owner = person(&store, &org, "o@x.example", Role::Owner).await;
    let before = lines(&store, &org).await.len();
    let refused = store.set_role(&org, &owner, Role::Viewer, None, moment(2)).await.unwrap();
    assert_eq!((refused, lines(&store, &org).await.len()), (TeamChange::LastOwner, before));
}

async fn what_changes_nothing_leaves_no_line(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let bob = person(&store, &org, "bob@x.example", Role::Viewer).await;
    store.rename_user(&bob, "Bob").await.unwrap();
    let key = store.create_key(&org, "one", &[], &[1; 32], moment(0)).await.unwrap();
    store.revoke_key(&org, &key, moment(1)).await.unwrap();
    let face = store.org_face(&org).await.unwrap().unwrap();
    let before = lines(&store, &org).await;

    store.ensure_org("Acme").await.unwrap();
    store.set_role(&org, &bob, Role::Viewer, None, moment(2)).await.unwrap();
    store.rename_user(&bob, "Bob").await.unwrap();
    store.revoke_key(&org, &key, moment(2)).await.unwrap();
    store.change_org(&org, &face).await.unwrap();
    store.end_other_browser_sessions(&bob, "").await.unwrap();

    assert_eq!(lines(&store, &org).await, before);
}

async fn a_line_says_who_acted_and_from_where(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let bob = person(&store, &org, "bob@x.example", Role::Viewer).await;

    acting(ada(), store.set_role(&org, &bob, Role::Member, None, moment(1))).await.unwrap();

    let lines = lines(&store, &org).await;
    let line = &lines[0];
    assert_eq!(line.action, "member.role_changed");
    assert_eq!(line.actor, ("person".to_owned(), Some("user_ada".to_owned()), "Ada".to_owned()));
    assert_eq!(line.from, ("web".to_owned(), Some("192.0.2.7".to_owned())));
    assert_eq!(line.target, ("person".to_owned(), bob, "bob@x.example".to_owned()));
    assert_eq!(line.before, Some(json!({ "role": "viewer" })));
    assert_eq!(line.after, Some(json!({ "role": "member" })));
    assert_eq!(lines[1].actor.0, "holdfast", "nobody was said to act");
}

async fn lines_are_found_by_what_is_asked_for_and_page_by_page(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    for number in 0..5_u8 {
        acting(ada(), store.create_key(&org, &format!("100% key {number}"), &[], &[number; 32], moment(0)))
            .await
            .unwrap();
    }
    let found = async |filter: AuditFilter| store.audit_lines(&org, &filter, None, 100).await.unwrap().data.len();
    let some = |text: &str| Some(text.to_owned());

    for (actor, count) in [("user_ada", 5), ("person", 5), ("AD", 5), ("holdfast", 1), ("nobody", 0), ("%", 0)] {
        assert_eq!(found(AuditFilter { actor: some(actor), ..AuditFilter::default() }).await, count, "{actor}");
    }
    for (action, count) in [("key.", 5), ("key.created", 5), ("organisation", 1), ("ey", 0), ("%", 0)] {
        assert_eq!(found(AuditFilter { action: some(action), ..AuditFilter::default() }).await, count, "{action}");
    }
    for (target, count) in [("key", 5), ("0% KEY 3", 1), ("nothing", 0)] {
        assert_eq!(found(AuditFilter { target: some(target), ..AuditFilter::default() }).await, count, "{target}");
    }
    let now = lines(&store, &org).await[0].at;
    let later = now + chrono::TimeDelta::hours(1);
    assert_eq!(found(AuditFilter { since: Some(later), ..AuditFilter::default() }).await, 0);
    assert_eq!(found(AuditFilter { until: Some(later), ..AuditFilter::default() }).await, 6);

    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.audit_lines(&org, &AuditFilter::default(), cursor.as_deref(), 4).await.unwrap();
        seen.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, lines(&store, &org).await);
}

async fn no_org_sees_the_lines_of_another(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (acme, globex) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    store.create_key(&globex, "theirs", &[], &[1; 32], moment(0)).await.unwrap();

    for instance in [false, true] {
        let filter = AuditFilter { instance, ..AuditFilter::default() };
        let seen = store.audit_lines(&acme, &filter, None, 100).await.unwrap().data;
        assert_eq!(actions(&seen), ["organisation.created"]);
        assert_eq!(seen[0].org.as_ref(), Some(&acme));
    }
}

async fn no_line_is_changed_or_deleted(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let before = lines(&store, &org).await;

    for sql in ["UPDATE audit_log SET actor_name = 'somebody else'", "DELETE FROM audit_log"] {
        let refused = db.try_execute(sql).await.unwrap_err().to_string();
        assert!(refused.contains("append-only"), "{refused}");
    }

    assert_eq!(lines(&store, &org).await, before);
}
