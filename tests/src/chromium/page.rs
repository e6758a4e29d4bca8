//! Opens, reads, fills and presses, by the names that people and screen readers see.

use std::{fmt::Debug, sync::Arc};

use reqwest::Method;
use serde_json::Value;
use thirtyfour::{
    By, Key, WebElement,
    common::command::{Command, ExtensionCommand},
    error::WebDriverResult,
};
use url::Url;

use super::Chromium;
use crate::wait::{until, within};

const FIELDS: &str = "input:not([type=hidden]), select, textarea";
const BUTTONS: &str = "button, input[type=submit], summary, [role=button]";
const LINKS: &str = "a[href]";

/// Asks for what the accessibility tree says of an element: `computedlabel` or `computedrole`.
#[derive(Debug)]
struct Computed(String);

impl ExtensionCommand for Computed {
    fn parameters_json(&self) -> Option<Value> {
        None
    }

    fn method(&self) -> Method {
        Method::GET
    }

    fn endpoint(&self) -> Arc<str> {
        self.0.as_str().into()
    }
}

impl Chromium {
    /// Opens an address as if it was typed, and waits until it is loaded.
    ///
    /// # Panics
    /// When nothing answers there.
    pub async fn open(&self, url: &str) {
        self.driver.goto(url).await.expect("the page can be opened");
    }

    /// Where it is.
    ///
    /// # Panics
    /// When the browser is gone.
    pub async fn url(&self) -> Url {
        self.driver.current_url().await.expect("a page has an address")
    }

    /// Waits until it is at this address.
    pub async fn arrives(&self, url: &str) {
        until(&format!("the page is {url}"), async || self.url().await, |seen| seen.as_str() == url).await;
    }

    /// Goes back, as by the button.
    ///
    /// # Panics
    /// When the browser is gone.
    pub async fn back(&self) {
        self.driver.back().await.expect("there is a page before");
    }

    /// Loads the page again.
    ///
    /// # Panics
    /// When the browser is gone.
    pub async fn reload(&self) {
        self.driver.refresh().await.expect("the page can be loaded again");
    }

    /// All text that can be seen.
    ///
    /// # Panics
    /// When there is no page.
    pub async fn text(&self) -> String {
        until("there is a page", async || self.text_of("body").await, Result::is_ok).await.unwrap_or_default()
    }

    /// Waits until this is the page's heading, as a screen reader says it.
    pub async fn heading(&self, text: &str) {
        within(&format!("the heading is {text:?}"), super::PATIENCE, async || {
            let look = async || self.computed(&self.driver.find(By::Css("h1")).await?, "computedlabel").await;
            let seen = look().await;
            if seen.as_deref().is_ok_and(|seen| seen == text) { Ok(()) } else { Err(self.seen(&seen).await) }
        })
        .await;
    }

    /// Waits until this can be read on the page.
    pub async fn shows(&self, text: &str) {
        within(&format!("the page says {text:?}"), super::PATIENCE, async || {
            let seen = self.text_of("body").await;
            if seen.as_deref().is_ok_and(|seen| seen.contains(text)) { Ok(()) } else { Err(self.seen(&seen).await) }
        })
        .await;
    }

    /// Types into the field of this label, instead of what was there.
    ///
    /// # Panics
    /// When there is no such field, or more than one.
    pub async fn fill(&self, label: &str, value: &str) {
        let field = self.named(FIELDS, label).await;
        field.clear().await.expect("the field can be emptied");
        field.send_keys(value).await.expect("the field can be filled");
    }

    /// What the field of this label holds.
    ///
    /// # Panics
    /// When there is no such field, or more than one.
    pub async fn value(&self, label: &str) -> String {
        let field = self.named(FIELDS, label).await;
        field.value().await.expect("a field has a value").unwrap_or_default()
    }

    /// What a screen reader says of the field of this label besides: the rule, what is wrong.
    ///
    /// # Panics
    /// When there is no such field, or more than one.
    pub async fn description(&self, label: &str) -> String {
        let field = self.named(FIELDS, label).await;
        let said = "return (arguments[0].getAttribute('aria-describedby') || '').split(' ')
            .map((id) => document.getElementById(id)?.innerText || '').join(' ')";
        let said = self.driver.execute(said, vec![field.to_json().expect("an element has an id")]).await;
        said.expect("a script can look").convert().expect("it is text")
    }

    /// Clicks the choice of this label.
    ///
    /// # Panics
    /// When there is none, or more than one.
    pub async fn choose(&self, label: &str) {
        self.named(FIELDS, label).await.click().await.expect("the choice can be clicked");
    }

    /// Clicks the button of this name. If that leads to a page, waits until it is loaded.
    ///
    /// # Panics
    /// When there is no such button, or more than one.
    pub async fn press(&self, name: &str) {
        self.named(BUTTONS, name).await.click().await.expect("the button can be clicked");
    }

    /// Clicks the button of this name twice, as quickly as a mouse can.
    ///
    /// # Panics
    /// When there is no such button, or more than one.
    pub async fn press_twice(&self, name: &str) {
        let button = self.named(BUTTONS, name).await;
        self.driver.action_chain().double_click_element(&button).perform().await.expect("it can be clicked twice");
    }

    /// Clicks the link of this name, and waits until its page is loaded.
    ///
    /// # Panics
    /// When there is no such link, or more than one.
    pub async fn follow(&self, name: &str) {
        self.named(LINKS, name).await.click().await.expect("the link can be clicked");
    }

    /// Opens another tab of the same browser with this address, and goes there. Answers the way back.
    ///
    /// # Panics
    /// When the browser is gone.
    pub async fn open_in_new_tab(&self, url: &str) -> Tab {
        let before = self.driver.window().await.expect("there is a tab");
        let tab = self.driver.new_tab().await.expect("there is room for a tab");
        self.driver.switch_to_window(tab).await.expect("it is there");
        self.look_again().await;
        self.open(url).await;
        Tab(before)
    }

    /// How many tabs and windows are open.
    ///
    /// # Panics
    /// When the browser is gone.
    pub async fn tabs(&self) -> usize {
        self.driver.windows().await.expect("there are some").len()
    }

    /// Goes to another tab, and answers the way back.
    ///
    /// # Panics
    /// When it is closed.
    pub async fn go_to(&self, tab: &Tab) -> Tab {
        let before = self.driver.window().await.expect("there is a tab");
        self.driver.switch_to_window(tab.0.clone()).await.expect("it is there");
        Tab(before)
    }

    /// Presses keys, wherever the focus is.
    ///
    /// # Panics
    /// When the browser is gone.
    pub async fn keys(&self, keys: impl AsRef<str>) {
        self.driver.action_chain().send_keys(keys.as_ref()).perform().await.expect("keys can be pressed");
    }

    /// Presses one key.
    pub async fn key(&self, key: Key) {
        self.keys(String::from(char::from(key))).await;
    }

    /// The one element of this accessible name; waits until it is there.
    pub(super) async fn named(&self, selector: &str, name: &str) -> WebElement {
        within(&format!("there is one {name:?}"), super::PATIENCE, async || {
            match self.all_named(selector, name).await {
                Ok((mut found, _)) if found.len() == 1 => Ok(found.remove(0)),
                Ok((found, all)) => Err(format!("{} of that name, among {all:?} on {}", found.len(), self.url().await)),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }

    /// The elements of this name, and the names of all.
    async fn all_named(&self, selector: &str, name: &str) -> WebDriverResult<(Vec<WebElement>, Vec<String>)> {
        let (mut found, mut all) = (Vec::new(), Vec::new());
        for element in self.driver.find_all(By::Css(selector)).await? {
            if !element.is_displayed().await? {
                continue;
            }
            let label = self.computed(&element, "computedlabel").await?;
            if label == name {
                found.push(element);
            }
            all.push(label);
        }
        Ok((found, all))
    }

    /// `computedlabel` or `computedrole` of an element.
    pub(super) async fn computed(&self, element: &WebElement, what: &str) -> WebDriverResult<String> {
        let path = format!("/element/{}/{what}", element.element_id());
        self.driver.cmd(Command::ExtensionCommand(Box::new(Computed(path)))).await?.value()
    }

    async fn text_of(&self, selector: &str) -> WebDriverResult<String> {
        self.driver.find(By::Css(selector)).await?.text().await
    }

    /// For a failure: what was looked at instead.
    async fn seen(&self, seen: &impl Debug) -> String {
        let url = self.driver.current_url().await.map(String::from);
        format!("{seen:?} on {url:?}, whose text is {:?}", self.text_of("body").await)
    }
}

/// A tab to go to.
#[derive(Debug)]
pub struct Tab(thirtyfour::WindowHandle);
