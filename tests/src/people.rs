//! People of a service in this process, and their way in.

use holdfast_app::admin::{self, Ask};
use holdfast_core::Role;

use crate::{
    browser::{Browser, Page},
    service::TestApp,
};

/// What everybody signs in with, unless a test says otherwise.
pub const PASSWORD: &str = "correct horse battery staple";

impl TestApp {
    /// Adds somebody with the usual password to this organisation, which is made when it is new; answers their id.
    ///
    /// # Panics
    /// When they cannot be added.
    pub async fn person(&self, org: &str, email: &str, role: Role) -> String {
        self.person_with(org, email, role, false, PASSWORD).await
    }

    /// The same, spelled out.
    ///
    /// # Panics
    /// When they cannot be added.
    pub async fn person_with(&self, org: &str, email: &str, role: Role, operator: bool, password: &str) -> String {
        let password = Some(password.to_owned());
        let ask = Ask::UserCreate { org: org.to_owned(), email: email.to_owned(), role, operator, password };
        let made = admin::run(&self.app, ask).await.expect("the person is new");
        made["id"].as_str().expect("they have an id").to_owned()
    }

    /// The address of a page.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Fills the sign-in form and sends it.
    pub async fn try_to_sign_in(&self, browser: &Browser, email: &str, password: &str) -> Page {
        let form = browser.open(&self.at("/sign-in")).await.form("/sign-in");
        browser.send_form(&form.with("email", email).with("password", password)).await
    }

    /// A browser in which somebody is signed in.
    ///
    /// # Panics
    /// When they are not let in.
    pub async fn signed_in(&self, email: &str) -> Browser {
        let browser = Browser::new();
        let page = self.try_to_sign_in(&browser, email, PASSWORD).await;
        assert_eq!((page.status, page.location().as_str()), (303, "/"), "{}", page.text);
        browser
    }

    /// The status of a page that only somebody who is signed in sees.
    pub async fn settings_of(&self, browser: &Browser) -> u16 {
        browser.get(&self.at("/settings")).await.status
    }
}
