//! What a page says and asks: its texts and its forms, as far as pages of ours need it. And browsers that fill them in.

use url::Url;

use crate::browser::{Browser, Page};

/// Elements that have no end.
const VOID: [&str; 6] = ["br", "hr", "img", "input", "link", "meta"];

/// Elements within a line: texts on both sides of their tags belong together.
const INLINE: [&str; 7] = ["a", "b", "code", "em", "i", "strong", "time"];

/// A form of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Where it goes; absolute, as the browser would send it.
    pub action: String,
    /// `get` or `post`.
    pub method: String,
    /// What it would send as it stands: names and values, hidden ones and ticked boxes included.
    pub fields: Vec<(String, String)>,
    /// Boxes that are not ticked, by name and value.
    pub unticked: Vec<(String, String)>,
    /// What its buttons say.
    pub buttons: Vec<String>,
}

impl Form {
    /// The value of a field.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The same form with something else typed.
    ///
    /// # Panics
    /// When it has no such field: a test must not send what no person could.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let field = self.fields.iter_mut().find(|(own, _)| own == name);
        field.unwrap_or_else(|| panic!("no field {name} in the form")).1 = value.to_owned();
        self
    }

    /// The same form with a box ticked.
    ///
    /// # Panics
    /// When it has no such box.
    #[must_use]
    pub fn ticked(mut self, name: &str, value: &str) -> Self {
        let at = self.unticked.iter().position(|(own, held)| own == name && held == value);
        let ticked = self.unticked.remove(at.unwrap_or_else(|| panic!("no box {name}={value} to tick")));
        self.fields.push(ticked);
        self
    }

    /// The same form with a box no longer ticked.
    ///
    /// # Panics
    /// When it has no such box, or it is not ticked.
    #[must_use]
    pub fn unticked(mut self, name: &str, value: &str) -> Self {
        let at = self.fields.iter().position(|(own, held)| own == name && held == value);
        let unticked = self.fields.remove(at.unwrap_or_else(|| panic!("no box {name}={value} is ticked")));
        self.unticked.push(unticked);
        self
    }

    /// The same form without a field, as a forger would send it.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(own, _)| own != name);
        self
    }

    /// As it is sent.
    pub fn encoded(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.fields).finish()
    }
}

/// A page of ours, taken apart.
#[derive(Debug)]
pub struct Html {
    /// Everything that is shown, one space wherever there is any.
    pub text: String,
    /// Its forms, in order.
    pub forms: Vec<Form>,
    /// Where its links, stylesheets, scripts and pictures point to, as they are written.
    pub links: Vec<String>,
    /// `data-copy` texts and the like: the content of each `code`.
    pub codes: Vec<String>,
}

impl Html {
    /// Takes a page apart that was loaded from this address.
    ///
    /// # Panics
    /// When it is not well formed: pages of ours are.
    pub fn read(address: &str, text: &str) -> Self {
        let base = Url::parse(address).expect("pages have absolute addresses");
        let mut reader = Reader {
            text,
            base,
            html: Self::empty(),
            open: Vec::new(),
            form: None,
            code: None,
            button: None,
            select: None,
            area: None,
            gap: false,
        };
        reader.run();
        reader.html
    }

    /// The one form that goes to this path.
    ///
    /// # Panics
    /// When there is none, or several.
    pub fn form(&self, path: &str) -> Form {
        let matching: Vec<_> =
            self.forms.iter().filter(|form| Url::parse(&form.action).is_ok_and(|url| url.path() == path)).collect();
        assert_eq!(matching.len(), 1, "forms to {path}, of {:?}", self.forms);
        matching[0].clone()
    }

    fn empty() -> Self {
        Self { text: String::new(), forms: Vec::new(), links: Vec::new(), codes: Vec::new() }
    }
}

struct Reader<'a> {
    text: &'a str,
    base: Url,
    html: Html,
    open: Vec<String>,
    form: Option<Form>,
    code: Option<String>,
    button: Option<String>,
    /// A choice that is being read: its name, what is chosen, and what comes first.
    select: Option<(String, Option<String>, Option<String>)>,
    /// A text area that is being read: its name and what stands in it.
    area: Option<(String, String)>,
    /// Whether the next text stands apart from the one before.
    gap: bool,
}

impl Reader<'_> {
    fn run(&mut self) {
        let mut rest = self.text;
        while let Some(at) = rest.find('<') {
            self.show(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("<!--") {
                rest = after.split_once("-->").expect("a comment ends").1;
                continue;
            }
            let end = end_of_tag(rest);
            self.tag(&rest[1..end]);
            rest = &rest[end + 1..];
        }
        self.show(rest);
        assert!(self.open.is_empty(), "not closed: {:?}", self.open);
        assert!(self.form.is_none(), "a form is not closed");
    }

    fn show(&mut self, raw: &str) {
        let shown = unescape(raw);
        if let Some(code) = &mut self.code {
            code.push_str(&shown);
        }
        if let Some(button) = &mut self.button {
            button.push_str(&shown);
        }
        if let Some((_, held)) = &mut self.area {
            held.push_str(&shown);
        }
        if self.open.iter().any(|name| name == "script" || name == "style") {
            return;
        }
        self.gap |= shown.starts_with(char::is_whitespace);
        for word in shown.split_whitespace() {
            if self.gap && !self.html.text.is_empty() {
                self.html.text.push(' ');
            }
            self.html.text.push_str(word);
            self.gap = true;
        }
        self.gap = shown.ends_with(char::is_whitespace) || (self.gap && shown.trim().is_empty());
    }

    fn tag(&mut self, tag: &str) {
        let bare = tag.trim_start_matches('/');
        let name = bare.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default();
        self.gap |= !INLINE.contains(&name);
        if let Some(name) = tag.strip_prefix('/') {
            self.close(name.trim());
        } else if !tag.starts_with('!') {
            let name: String = tag.chars().take_while(|c| !c.is_whitespace() && *c != '/').collect();
            self.begin(&name, &attributes(&tag[name.len()..]));
            if !VOID.contains(&name.as_str()) {
                self.open.push(name);
            }
        }
    }

    fn begin(&mut self, name: &str, attributes: &[(String, String)]) {
        let value = |name: &str| attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        self.html.links.extend(["href", "src"].iter().filter_map(|name| value(name)));
        assert!(
            value("style").is_none() && !attributes.iter().any(|(name, _)| name.starts_with("on")),
            "{attributes:?}"
        );
        assert!(name != "style" && (name != "script" || value("src").is_some()), "{name} within the page");
        match name {
            "form" => {
                assert!(self.form.is_none(), "a form within a form");
                let action = value("action").unwrap_or_default();
                self.form = Some(Form {
                    action: self.base.join(&action).expect("an action is an address").to_string(),
                    method: value("method").unwrap_or_else(|| "get".to_owned()),
                    fields: Vec::new(),
                    unticked: Vec::new(),
                    buttons: Vec::new(),
                });
            }
            "input" => {
                let (Some(form), Some(name)) = (&mut self.form, value("name")) else { return };
                let kind = value("type").unwrap_or_default();
                let held = value("value").unwrap_or_default();
                let ticks = kind == "checkbox" || kind == "radio";
                if ticks && value("checked").is_none() {
                    form.unticked.push((name, held));
                } else {
                    form.fields.push((name, held));
                }
            }
            "select" => self.select = value("name").map(|name| (name, None, None)),
            "option" => {
                let (Some((_, chosen, first)), Some(held)) = (&mut self.select, value("value")) else { return };
                if value("selected").is_some() {
                    *chosen = Some(held.clone());
                }
                first.get_or_insert(held);
            }
            "textarea" => self.area = value("name").map(|name| (name, String::new())),
            "code" => self.code = Some(String::new()),
            "button" => self.button = Some(String::new()),
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        assert_eq!(self.open.pop().as_deref(), Some(name), "closed out of order, in {:?}", self.open);
        match name {
            "form" => self.html.forms.extend(self.form.take()),
            "code" => self.html.codes.extend(self.code.take()),
            "select" => {
                if let (Some(form), Some((name, chosen, first))) = (&mut self.form, self.select.take()) {
                    form.fields.push((name, chosen.or(first).unwrap_or_default()));
                }
            }
            "textarea" => {
                if let (Some(form), Some((name, held))) = (&mut self.form, self.area.take()) {
                    // Browsers drop the line end that comes first.
                    form.fields.push((name, held.strip_prefix('\n').unwrap_or(&held).to_owned()));
                }
            }
            "button" => {
                let button = self.button.take();
                if let Some(form) = &mut self.form {
                    form.buttons.extend(button.map(|text| text.trim().to_owned()));
                }
            }
            _ => {}
        }
    }
}

/// Where the tag that begins here ends; `>` may stand in a quoted value.
fn end_of_tag(text: &str) -> usize {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '>' if !quoted => return at,
            _ => {}
        }
    }
    panic!("a tag does not end: {}", text.chars().take(80).collect::<String>())
}

fn attributes(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && rest != "/" {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(after) = rest.strip_prefix("=\"") {
            let (quoted, after) = after.split_once('"').expect("a quoted value ends");
            value = unescape(quoted);
            rest = after;
        }
        found.push((name, value));
        rest = rest.trim_start();
    }
    found
}

fn unescape(text: &str) -> String {
    let named = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&#x2F;", "/"),
        ("&amp;", "&"),
    ];
    named.iter().fold(text.to_owned(), |text, (name, c)| text.replace(name, c))
}

impl Page {
    /// The page taken apart; `address`: where it was loaded from.
    pub fn html(&self, address: &str) -> Html {
        Html::read(address, &self.text)
    }
}

impl Browser {
    /// Opens a page and takes it apart.
    ///
    /// # Panics
    /// When it answers with anything but a page.
    pub async fn open(&self, address: &str) -> Html {
        let page = self.get(address).await;
        assert_eq!(page.status, 200, "{address}: {page:?}");
        page.html(address)
    }

    /// Sends a form as it stands.
    pub async fn send_form(&self, form: &Form) -> Page {
        self.send_body(&form.action, &form.encoded(), &[]).await
    }

    /// Sends a form and goes where that leads.
    ///
    /// # Panics
    /// When it leads nowhere.
    pub async fn follow(&self, form: &Form) -> (String, Page) {
        let sent = self.send_form(form).await;
        assert_eq!(sent.status, 303, "{}: {}", form.action, sent.text);
        let to =
            Url::parse(&form.action).and_then(|from| from.join(&sent.location())).expect("a location is an address");
        let page = self.get(to.as_str()).await;
        (to.to_string(), page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<!doctype html><html><head><title>A &amp; B</title><script src=\"/app.js\" defer></script></head>\
        <body><!-- <b> --><h1>A &lt;b&gt;<b>c</b>, <i>d</i></h1><form method=\"post\" action=\"/go?x=1\"><input type=\"hidden\" name=\"csrf\" \
        value=\"a&quot;b\"><input name=\"name\"><select name=\"every\"><option value=\"\">Never</option><option \
        value=\"60\" selected>Often</option></select><select name=\"who\"><option value=\"first\">A</option></select>\
        <textarea name=\"text\">\na &lt; b\n  c</textarea><input type=\"checkbox\" name=\"scope\" value=\"read\"><input \
        type=\"checkbox\" name=\"scope\" value=\"write\" checked><button class=\"x\">Do  it</button></form>\
        <code>abc</code></body></html>";

    #[test]
    fn a_page_is_taken_apart_as_a_browser_does() {
        let html = Html::read("http://here.test/page", PAGE);

        assert_eq!(html.text, "A & B A <b>c, d Never Often A a < b c Do it abc");
        assert_eq!(html.links, ["/app.js"]);
        assert_eq!(html.codes, ["abc"]);
        let form = html.form("/go").with("name", "é").ticked("scope", "read");
        assert_eq!(form.action, "http://here.test/go?x=1");
        assert_eq!(
            form.encoded(),
            "csrf=a%22b&name=%C3%A9&every=60&who=first&text=a+%3C+b%0A++c&scope=write&scope=read"
        );
        let less = form.without("csrf").without("text").unticked("scope", "write");
        assert_eq!(less.encoded(), "name=%C3%A9&every=60&who=first&scope=read");
    }

    #[test]
    #[should_panic(expected = "closed out of order")]
    fn a_page_that_is_not_well_formed_is_noticed() {
        Html::read("http://here.test/", "<p><b>x</p></b>");
    }
}
