//! Somebody's browser without its window: it keeps cookies, follows no redirect by itself, and sends the forms of pages.

use std::{collections::BTreeMap, sync::Mutex};

use reqwest::{
    Client, Method, RequestBuilder,
    header::{COOKIE, HeaderMap, LOCATION, SET_COOKIE},
    redirect,
};
use url::Url;

use crate::html::{Element, Form, read};

/// An HTTP client without redirects.
pub fn http() -> Client {
    holdfast_app::seams::install_tls();
    let built = Client::builder().redirect(redirect::Policy::none()).no_proxy().build();
    built.expect("a client without special wishes can be built")
}

/// More redirects in a row are a circle.
const MOST_REDIRECTS: usize = 8;
const FORM: &str = "application/x-www-form-urlencoded";

/// One person's.
pub struct Browser {
    http: Client,
    cookies: Mutex<BTreeMap<String, String>>,
    seen: Mutex<Vec<u8>>,
}

/// A page, or the way to another one.
#[derive(Clone, Debug)]
pub struct Page {
    /// Where it was asked for.
    pub url: String,
    /// HTTP status.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: String,
}

impl Page {
    /// Where it redirects to.
    ///
    /// # Panics
    /// When it does not.
    pub fn location(&self) -> String {
        self.onward().unwrap_or_else(|| panic!("no redirect: {self:?}"))
    }

    fn onward(&self) -> Option<String> {
        Some(self.headers.get(LOCATION)?.to_str().expect("a location is text").to_owned())
    }

    /// Itself, if the status is this.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}: {}", self.url, self.text);
        self
    }

    /// As a person reads it.
    pub fn read(&self) -> Element {
        read(&self.text)
    }

    /// Whether a person reads this in it.
    pub fn says(&self, words: &str) -> bool {
        self.read().text().contains(words)
    }

    /// Where it follows what happens.
    pub fn stream(&self) -> Option<String> {
        self.read().all().iter().find_map(|part| part.get("data-events").map(str::to_owned))
    }

    /// Its forms.
    pub fn forms(&self) -> Vec<Form> {
        self.forms_of(&self.read())
    }

    /// The forms of a part of it.
    ///
    /// # Panics
    /// Never: a page has an address.
    pub fn forms_of(&self, part: &Element) -> Vec<Form> {
        part.forms(&Url::parse(&self.url).expect("a page has an address"))
    }

    /// Its form that is posted to this path.
    pub fn form(&self, path: &str) -> Option<Form> {
        self.forms().into_iter().find(|form| form.method == "post" && form.goes_to(path))
    }

    /// Its heading.
    pub fn title(&self) -> &str {
        let after = self.text.split_once("<title>").map_or("", |(_, after)| after);
        let title = after.split_once("</title>").map_or("", |(title, _)| title);
        [" - Holdfast", " · Holdfast"].iter().find_map(|end| title.strip_suffix(end)).unwrap_or_default()
    }
}

impl Default for Browser {
    fn default() -> Self {
        Self { http: http(), cookies: Mutex::default(), seen: Mutex::default() }
    }
}

impl Browser {
    /// Without cookies yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a page. From the callback it goes on to the page that says how the consent ended.
    pub async fn get(&self, url: &str) -> Page {
        let page = self.ask(url).await;
        match page.onward().filter(|to| to.starts_with("/connect/")) {
            Some(onward) => self.ask(&join(url, &onward)).await,
            None => page,
        }
    }

    /// Opens a page, and goes on as long as it leads to another one of the same host.
    pub async fn visit(&self, url: &str) -> Page {
        let page = self.ask(url).await;
        self.go_on(page).await
    }

    /// Goes on from an answer, as long as it leads to a page of the same host.
    ///
    /// # Panics
    /// When it leads in a circle.
    pub async fn go_on(&self, mut page: Page) -> Page {
        for _ in 0..MOST_REDIRECTS {
            match page.onward().filter(|to| to.starts_with('/')) {
                Some(onward) => page = self.ask(&join(&page.url, &onward)).await,
                None => return page,
            }
        }
        panic!("it leads in a circle: {page:?}");
    }

    /// Opens a page and presses the button of its own form: the one that leads back to the page itself.
    pub async fn post(&self, url: &str) -> Page {
        self.press(url, url, &[]).await
    }

    /// The same with one field filled in.
    pub async fn fill(&self, url: &str, field: &str, value: &str) -> Page {
        self.press(url, url, &[(field, value)]).await
    }

    /// Opens a page and sends its form that leads there, with these fields filled in. Where the page has no such form,
    /// these fields alone are sent.
    pub async fn press(&self, page: &str, to: &str, fields: &[(&str, &str)]) -> Page {
        self.press_with(page, to, fields, &[]).await
    }

    /// The same with headers of a proxy, or of a forger, on both requests.
    ///
    /// # Panics
    /// Never: a page has an address.
    pub async fn press_with(&self, page: &str, to: &str, fields: &[(&str, &str)], headers: &[(&str, &str)]) -> Page {
        let opened = self.send_with(Method::GET, page, headers).await;
        let target = join(page, to);
        let path = Url::parse(&target).expect("a page has an address").path().to_owned();
        let mut filled = opened.form(&path).map(|form| form.fields).unwrap_or_default();
        filled.retain(|(name, _)| !fields.iter().any(|(changed, _)| changed == name));
        self.send_fields(&target, &filled, fields, headers).await
    }

    /// Sends what is filled in and what is beside it.
    pub async fn send_fields(
        &self,
        url: &str,
        filled: &[(String, String)],
        beside: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Page {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let body = form.extend_pairs(filled).extend_pairs(beside).finish();
        self.send_body(url, &body, headers).await
    }

    /// A request with its cookies, for answers that do not end.
    pub fn request(&self, method: Method, url: &str) -> RequestBuilder {
        self.with_cookies(self.http.request(method, url))
    }

    async fn ask(&self, url: &str) -> Page {
        self.send(self.http.request(Method::GET, url), url).await
    }

    /// Sends a form with these fields.
    pub async fn submit<K: AsRef<str>, V: AsRef<str>>(&self, url: &str, fields: &[(K, V)]) -> Page {
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.send_body(url, &form, &[]).await
    }

    /// A request without a body, with headers of a proxy, or of a forger.
    pub async fn send_with(&self, method: Method, url: &str, headers: &[(&str, &str)]) -> Page {
        let form = self.http.request(method, url).header("content-type", FORM);
        let request = headers.iter().fold(form, |request, (name, value)| request.header(*name, *value));
        self.send(request, url).await
    }

    /// Sends a form's body, with more headers.
    pub async fn send_body(&self, url: &str, body: &str, headers: &[(&str, &str)]) -> Page {
        let form = self.http.request(Method::POST, url).header("content-type", FORM);
        let request = headers.iter().fold(form, |request, (name, value)| request.header(*name, *value));
        self.send(request.body(body.to_owned()), url).await
    }

    /// Keeps another cookie, or this one no more where the value is empty.
    ///
    /// # Panics
    /// Never.
    pub fn keep(&self, name: &str, value: &str) {
        let mut kept = self.cookies.lock().expect("no panic happens while it is held");
        if value.is_empty() {
            kept.remove(name);
        } else {
            kept.insert(name.to_owned(), value.to_owned());
        }
    }

    /// The cookies that it keeps.
    pub fn cookies(&self) -> BTreeMap<String, String> {
        self.cookies.lock().expect("no panic happens while it is held").clone()
    }

    /// All bytes of pages and headers that it was shown, but for the cookies and redirects that are meant for it.
    pub fn seen(&self) -> Vec<u8> {
        self.seen.lock().expect("no panic happens while it is held").clone()
    }

    fn with_cookies(&self, request: RequestBuilder) -> RequestBuilder {
        let cookies = self.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        if cookies.is_empty() { request } else { request.header(COOKIE, cookies.join("; ")) }
    }

    async fn send(&self, request: RequestBuilder, url: &str) -> Page {
        let response = self.with_cookies(request).send().await.expect("the service answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        for cookie in headers.get_all(SET_COOKIE) {
            let cookie = cookie.to_str().expect("a cookie is text");
            let (name, rest) = cookie.split_once('=').expect("a cookie has a name");
            let value = rest.split(';').next().unwrap_or_default();
            self.keep(name, value);
        }
        let text = response.text().await.expect("the body arrives");
        let mut seen = self.seen.lock().expect("no panic happens while it is held");
        for (name, value) in headers.iter().filter(|(name, _)| **name != SET_COOKIE && **name != LOCATION) {
            seen.extend_from_slice(name.as_str().as_bytes());
            seen.push(b':');
            seen.extend_from_slice(value.as_bytes());
            seen.push(b'\n');
        }
        seen.extend_from_slice(text.as_bytes());
        drop(seen);
        Page { url: url.to_owned(), status, headers, text }
    }
}

fn join(base: &str, to: &str) -> String {
    let base = Url::parse(base).expect("a page has an address");
    base.join(to).expect("a location is an address").into()
}
