//! Somebody's browser, as far as a connect link needs one: it keeps cookies and follows no redirect by itself.

use std::{collections::BTreeMap, sync::Mutex};

use reqwest::{
    Client, Method, RequestBuilder,
    header::{COOKIE, HeaderMap, LOCATION, SET_COOKIE},
    redirect,
};

/// An HTTP client without redirects.
pub fn http() -> Client {
    holdfast_app::seams::install_tls();
    let built = Client::builder().redirect(redirect::Policy::none()).no_proxy().build();
    built.expect("a client without special wishes can be built")
}

/// One person's.
pub struct Browser {
    http: Client,
    cookies: Mutex<BTreeMap<String, String>>,
    seen: Mutex<Vec<u8>>,
}

/// A page, or the way to another one.
#[derive(Clone, Debug)]
pub struct Page {
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
        let location = self.headers.get(LOCATION).unwrap_or_else(|| panic!("no redirect: {self:?}"));
        location.to_str().expect("a location is text").to_owned()
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
        let page = self.send(self.http.request(Method::GET, url)).await;
        let onward =
            page.headers.get(LOCATION).and_then(|to| to.to_str().ok()).filter(|to| to.starts_with("/connect/"));
        match onward.and_then(|to| url::Url::parse(url).ok()?.join(to).ok()) {
            Some(onward) => self.send(self.http.request(Method::GET, onward)).await,
            None => page,
        }
    }

    /// Presses the one button of a page that has no fields.
    pub async fn post(&self, url: &str) -> Page {
        let form = "application/x-www-form-urlencoded";
        self.send(self.http.request(Method::POST, url).header("content-type", form)).await
    }

    /// Fills the one field of a page and sends its form.
    pub async fn fill(&self, url: &str, field: &str, value: &str) -> Page {
        let form = url::form_urlencoded::Serializer::new(String::new()).append_pair(field, value).finish();
        let request = self.http.request(Method::POST, url).header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(form)).await
    }

    /// Sends a form with these fields.
    pub async fn submit<K: AsRef<str>, V: AsRef<str>>(&self, url: &str, fields: &[(K, V)]) -> Page {
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.http.request(Method::POST, url).header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(form)).await
    }

    /// The same with headers of a proxy, or of a forger.
    pub async fn send_with(&self, method: Method, url: &str, headers: &[(&str, &str)]) -> Page {
        let form = self.http.request(method, url).header("content-type", "application/x-www-form-urlencoded");
        let request = headers.iter().fold(form, |request, (name, value)| request.header(*name, *value));
        self.send(request).await
    }

    /// Sends a form's body, with more headers.
    pub async fn send_body(&self, url: &str, body: &str, headers: &[(&str, &str)]) -> Page {
        let form = self.http.request(Method::POST, url).header("content-type", "application/x-www-form-urlencoded");
        let request = headers.iter().fold(form, |request, (name, value)| request.header(*name, *value));
        self.send(request.body(body.to_owned())).await
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

    async fn send(&self, request: RequestBuilder) -> Page {
        let cookies = self.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        let request = if cookies.is_empty() { request } else { request.header(COOKIE, cookies.join("; ")) };
        let response = request.send().await.expect("the service answers");
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
        Page { status, headers, text }
    }
}
