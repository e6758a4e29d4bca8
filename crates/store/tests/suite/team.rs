//! People of an org, at once: one owner stays, an invitation is accepted once, a reset sets one password.

use std::sync::Arc;

use chrono::TimeDelta;
use futures::future::join_all;
use holdfast_core::{OrgId, Role};
use holdfast_store::{Accept, Accepted, Invited, NewInvitation, NewUser, ResetDone, Store, TeamChange, Tell, Touched};
use secrecy::{ExposeSecret as _, SecretString};

use crate::harness::{TestDatabase, moment, on_both};

on_both! {
    of_owners_who_remove_each_other_at_once_one_stays,
    of_owners_who_step_down_at_once_one_stays,
    of_operators_who_leave_at_once_one_stays,
    an_invitation_is_accepted_once,
    an_invitation_that_is_withdrawn_while_it_is_accepted_is_one_of_both,
    a_reset_sets_one_password_and_voids_the_others,
}

fn tell(at: i64) -> Tell {
    Tell { at: moment(at), domain: "hub.example".to_owned(), sends: true }
}

async fn person(store: &Store, org: &OrgId, email: &str, role: Role) -> String {
    added(store, org, email, role, false).await
}

async fn added(store: &Store, org: &OrgId, email: &str, role: Role, operator: bool) -> String {
    let (org, email) = (org.clone(), email.to_owned());
    let user = NewUser { org, email, name: None, role, operator, password_hash: None, at: moment(0) };
    store.create_user(&user).await.unwrap().unwrap()
}

async fn owners(store: &Store, org: &OrgId) -> usize {
    store.users(org).await.unwrap().iter().filter(|user| user.role == Role::Owner).count()
}

async fn of_owners_who_remove_each_other_at_once_one_stays(db: Arc<TestDatabase>) {
    let (store, other) = (db.store().await, db.replica("two").await);
    for round in 0..5 {
        let org = store.ensure_org(&format!("Org {round}")).await.unwrap();
        let (a, b) = (
            person(&store, &org, "a@x.example", Role::Owner).await,
            person(&store, &org, "b@x.example", Role::Owner).await,
        );

        let (one, two) = tokio::join!(
            store.remove_user(&org, &b, Some(&a), moment(1)),
            other.remove_user(&org, &a, Some(&b), moment(1))
        );

        let mut ends = [one.unwrap(), two.unwrap()];
        ends.sort_by_key(|end| *end != TeamChange::Done);
        assert_eq!(ends, [TeamChange::Done, TeamChange::NotAllowed], "who is out removes nobody");
        assert_eq!(owners(&store, &org).await, 1);
    }
}

async fn of_owners_who_step_down_at_once_one_stays(db: Arc<TestDatabase>) {
    let (store, other) = (db.store().await, db.replica("two").await);
    let org = store.ensure_org("Acme").await.unwrap();
    let (a, b) = (
        person(&store, &org, "a@x.example", Role::Owner).await,
        person(&store, &org, "b@x.example", Role::Owner).await,
    );

    let (one, two) = tokio::join!(
        store.remove_user(&org, &a, Some(&a), moment(1)),
        other.set_role(&org, &b, Role::Admin, Some(&b), moment(1))
    );

    let mut ends = [one.unwrap(), two.unwrap()];
    ends.sort_by_key(|end| *end != TeamChange::Done);
    assert_eq!(ends, [TeamChange::Done, TeamChange::LastOwner]);
    assert_eq!(owners(&store, &org).await, 1);
    assert_eq!(store.set_role(&org, "user_none", Role::Admin, None, moment(2)).await.unwrap(), TeamChange::Nobody);
}

async fn of_operators_who_leave_at_once_one_stays(db: Arc<TestDatabase>) {
    let (store, other) = (db.store().await, db.replica("two").await);
    let (acme, globex) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    let (a, b) = (
        added(&store, &acme, "a@x.example", Role::Viewer, true).await,
        added(&store, &globex, "b@x.example", Role::Viewer, true).await,
    );

    let (one, two) = tokio::join!(
        store.remove_user(&acme, &a, Some(&a), moment(1)),
        other.remove_user(&globex, &b, Some(&b), moment(1))
    );

    let mut ends = [one.unwrap(), two.unwrap()];
    ends.sort_by_key(|end| *end != TeamChange::Done);
    assert_eq!(ends, [TeamChange::Done, TeamChange::LastOperator]);
}

/// An invitation, with a link of this number.
async fn invited(store: &Store, org: &OrgId, by: &str, link: u8) -> String {
    let expires_at = moment(0) + TimeDelta::days(7);
    let new = NewInvitation { org, email: "New@x.example", role: Role::Member, by, expires_at };
    let Invited::Yes { id, before: None } = store.invite(&new, &tell(0)).await.unwrap() else { panic!("it is new") };
    store.mint_link(&id, &[link; 32], moment(0)).await.unwrap();
    id
}

fn newcomer() -> Accept {
    Accept::New { name: "Nora".to_owned(), password_hash: SecretString::from("hash") }
}

async fn an_invitation_is_accepted_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let by = person(&store, &org, "a@x.example", Role::Owner).await;
    invited(&store, &org, &by, 1).await;
    assert_eq!(store.accept_invitation(&[9; 32], &newcomer(), moment(1)).await.unwrap(), Accepted::No);
    assert_eq!(
        store.accept_invitation(&[1; 32], &Accept::Known(by), moment(1)).await.unwrap(),
        Accepted::No,
        "not theirs"
    );
    let late = moment(0) + TimeDelta::days(7);
    assert_eq!(store.accept_invitation(&[1; 32], &newcomer(), late).await.unwrap(), Accepted::No);

    let at_once = (0..4).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.accept_invitation(&[1; 32], &newcomer(), moment(1)).await.unwrap() })
    });
    let ends: Vec<_> = join_all(at_once.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();

    assert_eq!(ends.iter().filter(|end| matches!(end, Accepted::Joined(_))).count(), 1, "{ends:?}");
    let users = store.find_users_by_email("new@x.example").await.unwrap();
    assert_eq!((users.len(), users[0].role, users[0].name.as_deref()), (1, Role::Member, Some("Nora")));
}

async fn an_invitation_that_is_withdrawn_while_it_is_accepted_is_one_of_both(db: Arc<TestDatabase>) {
    let (store, other) = (db.store().await, db.replica("two").await);
    let org = store.ensure_org("Acme").await.unwrap();
    let by = person(&store, &org, "a@x.example", Role::Owner).await;
    let id = invited(&store, &org, &by, 1).await;

    let newcomer = newcomer();
    let (accepted, withdrawn) = tokio::join!(
        store.accept_invitation(&[1; 32], &newcomer, moment(1)),
        other.withdraw_invitation(&org, &id, &by, moment(1))
    );

    let joined = matches!(accepted.unwrap(), Accepted::Joined(_));
    assert_eq!(joined, withdrawn.unwrap() == Touched::Gone);
    assert_eq!(joined, !store.find_users_by_email("new@x.example").await.unwrap().is_empty());
}

async fn a_reset_sets_one_password_and_voids_the_others(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    person(&store, &org, "a@x.example", Role::Owner).await;
    let until = moment(3600);
    for link in [1, 2] {
        store.make_reset("A@x.example", &[link; 32], moment(0), until).await.unwrap();
    }
    assert_eq!(store.reset_password(&[1; 32], &"late".into(), &tell(3600)).await.unwrap(), ResetDone::No);

    let at_once = (1..=2).flat_map(|link| [link; 3]).map(|link: u8| {
        let store = store.clone();
        let hash = SecretString::from(format!("hash {link}"));
        tokio::spawn(async move { (link, store.reset_password(&[link; 32], &hash, &tell(1)).await.unwrap()) })
    });
    let ends: Vec<_> = join_all(at_once.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();

    let set: Vec<_> = ends.iter().filter(|(_, end)| *end == ResetDone::Yes(1)).collect();
    assert_eq!(set.len(), 1, "{ends:?}");
    let user = store.find_users_by_email("a@x.example").await.unwrap().remove(0);
    assert_eq!(user.password_hash.unwrap().expose_secret(), format!("hash {}", set[0].0));
    for link in [1, 2] {
        assert!(!store.find_reset_of(&[link; 32]).await.unwrap().unwrap().stands(moment(1)));
    }
}
