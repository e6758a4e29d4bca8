//! People of a service in this process, and their way in.

use std::sync::atomic::{AtomicU32, Ordering};

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
        let ask =
            Ask::UserCreate { org: org.to_owned(), email: email.to_owned(), role: Some(role), operator, password };
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

    /// Somebody new of the organisation `Acme` with this role, signed in.
    pub async fn somebody(&self, role: Role) -> Person {
        self.somebody_of("Acme", role).await
    }

    /// The same of another organisation, which is made when it is new.
    ///
    /// # Panics
    /// When they are not let in.
    pub async fn somebody_of(&self, org: &str, role: Role) -> Person {
        self.new_person(org, role, false).await
    }

    /// Somebody new who only looks at `Acme` and runs the instance, signed in.
    ///
    /// # Panics
    /// When they are not let in.
    pub async fn operator(&self) -> Person {
        self.new_person("Acme", Role::Viewer, true).await
    }

    async fn new_person(&self, org: &str, role: Role, operator: bool) -> Person {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let email = format!("{}{number}@{}.example", role.as_str(), org.to_lowercase());
        self.person_with(org, &email, role, operator, PASSWORD).await;
        let browser = self.signed_in(&email).await;
        Person { browser, email, base: self.base.clone() }
    }
}

/// Somebody who is signed in.
pub struct Person {
    /// Theirs.
    pub browser: Browser,
    /// They sign in with it.
    pub email: String,
    base: String,
}

impl Person {
    /// The same person at another browser.
    #[must_use]
    pub fn at(self, browser: Browser) -> Self {
        Self { browser, ..self }
    }

    /// The address of a page of ours; what is an address already, stays.
    pub fn url(&self, path: &str) -> String {
        if path.starts_with('/') { format!("{}{path}", self.base) } else { path.to_owned() }
    }

    /// Signs in, and goes on to where they wanted to.
    pub async fn sign_in_again(&self, next: &str) -> Page {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
        let fields = [("email", self.email.as_str()), ("password", PASSWORD)];
        let answer = self.browser.press(&self.url(&format!("/sign-in?{query}")), "/sign-in", &fields).await;
        self.browser.go_on(answer).await
    }

    /// Opens a page of ours, and what it leads to.
    pub async fn open(&self, path: &str) -> Page {
        self.browser.visit(&self.url(path)).await
    }

    /// Opens a page of ours and sends its form that leads there.
    pub async fn submit(&self, page: &str, to: &str, fields: &[(&str, &str)]) -> Page {
        self.browser.press(&self.url(page), to, fields).await
    }

    /// The same, and goes on to what it leads to.
    pub async fn submit_and_go_on(&self, page: &str, to: &str, fields: &[(&str, &str)]) -> Page {
        let answer = self.submit(page, to, fields).await;
        self.browser.go_on(answer).await
    }
}
