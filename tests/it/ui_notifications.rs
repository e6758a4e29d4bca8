//! Notifications in a browser: what one is told, when, and who else.

use std::sync::Arc;

use holdfast_core::{Role, notify::Topic};
use holdfast_tests::{browser::Page, database::Database, on_both, service::TestApp};

on_both! {
    what_one_is_told_is_chosen_and_kept,
    the_last_one_who_can_reconnect_stays_on_failures,
    an_admin_adds_somebody_and_takes_them_out_again,
}

const HERE: &str = "/settings/notifications";
/// Everything but reminders.
const MOST: [(&str, &str); 4] =
    [("topics", "failures"), ("topics", "recoveries"), ("topics", "ending"), ("topics", "webhooks")];

/// What its forms carry.
fn csrf_in(page: &Page) -> String {
    page.form(HERE).expect("it has a form").value("csrf").unwrap_or_default().to_owned()
}

async fn what_one_is_told_is_chosen_and_kept(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let page = ada.open(HERE).await;
    assert!(page.text.contains("Everything") && page.text.contains("At once"), "{}", page.text);
    assert!(ada.open("/settings").await.text.contains("/settings/notifications"));
    let csrf = csrf_in(&page);
    let send = async |fields: &[(&str, &str)]| {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.append_pair("csrf", &csrf).extend_pairs(MOST).extend_pairs(fields);
        ada.browser.send_body(&app.at(HERE), &body.finish(), &[]).await
    };

    for (fields, why) in [
        ([("zone", "Berlin"), ("from", ""), ("to", "")], "There is no time zone of this name"),
        ([("zone", "UTC"), ("from", "7"), ("to", "7")], "end at another hour"),
        ([("zone", "UTC"), ("from", "7"), ("to", "")], "or neither"),
    ] {
        let page = send(&[&[("pace", "daily"), ("hour", "8")][..], &fields].concat()).await;
        assert_eq!(page.status, 422, "{why}");
        assert!(page.text.contains(why), "{}", page.text);
        assert!(page.text.contains(&format!("value=\"{}\"", fields[0].1)), "what was typed stays: {}", page.text);
    }
    for bad in [[("pace", "weekly"), ("from", "")], [("pace", "daily"), ("from", "24")]] {
        assert_eq!(send(&[&[("zone", "UTC")][..], &bad].concat()).await.status, 400, "{bad:?}");
    }
    let good =
        [("pace", "daily"), ("hour", "8"), ("zone", "Europe/Berlin"), ("from", "22"), ("to", "7"), ("at_once", "yes")];
    assert_eq!(send(&good).await.status, 303);

    let page = ada.open(HERE).await;
    for words in [
        "Failures, Recoveries, Access that ends, Webhooks that stop",
        "Daily at 8:00, Europe/Berlin",
        "failures at once",
    ] {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
    let kept = app.app.store.addressees(&app.org).await.unwrap().remove(0).habits;
    assert_eq!((kept.off.into_iter().collect::<Vec<_>>(), kept.quiet), (vec![Topic::Reminders], Some((22, 7))));
}

async fn the_last_one_who_can_reconnect_stays_on_failures(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (ada, ben) = (app.somebody(Role::Owner).await, app.somebody(Role::Admin).await);
    let nothing = [("pace", "at_once"), ("zone", "UTC"), ("from", ""), ("to", "")];
    let off = async |who: &holdfast_tests::people::Person| {
        let csrf = csrf_in(&who.open(HERE).await);
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.append_pair("csrf", &csrf).extend_pairs(nothing);
        who.browser.send_body(&app.at(HERE), &body.finish(), &[]).await
    };

    let (one, other) = tokio::join!(off(&ada), off(&ben));

    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 422], "of two at once, one stays");
    let refused = if one.status == 422 { one } else { other };
    assert!(refused.text.contains("Nobody else who can reconnect is told of failures"), "{}", refused.text);
}

async fn an_admin_adds_somebody_and_takes_them_out_again(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (ada, cleo) = (app.somebody(Role::Admin).await, app.somebody(Role::Member).await);
    let page = cleo.open(HERE).await;
    assert!(page.text.contains("You are told nothing"), "{}", page.text);
    assert!(!page.text.contains("/settings/notifications/channel"), "{}", page.text);

    let id = app.app.store.find_users_by_email(&cleo.email).await.unwrap().remove(0).id;
    let to = format!("{HERE}/people");
    let page = ada.submit_and_go_on(HERE, &to, &[("who", &id)]).await;
    assert!(page.text.contains("They are told from now on"), "{}", page.text);
    assert!(cleo.open(HERE).await.text.contains("What you are told"));
    assert!(!cleo.open(HERE).await.text.contains("You are told nothing"));

    let page = ada.submit_and_go_on(HERE, &format!("{to}/{id}/remove"), &[]).await;
    assert!(page.text.contains("They are told no more"), "{}", page.text);
    assert!(cleo.open(HERE).await.text.contains("You are told nothing"));
}
