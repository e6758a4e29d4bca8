//! What a page says and asks, read as a person does: its elements, its texts, its forms. And browsers that fill them in.
//! For pages of ours, which are well formed; no parser for the web.

use url::Url;

use crate::browser::{Browser, Page};

/// One element with what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// In lower case; empty for the page itself.
    pub name: String,
    /// In order, values decoded.
    pub attributes: Vec<(String, String)>,
    /// In order.
    pub children: Vec<Node>,
}

/// An element or a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// With what is in it.
    Element(Element),
    /// Decoded.
    Text(String),
}

/// Elements that have no end.
const VOID: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];
/// Elements whose text is not for reading.
const SILENT: [&str; 3] = ["script", "style", "title"];

/// Reads a page.
///
/// # Panics
/// When an element ends that was not begun: our pages are well formed.
pub fn read(html: &str) -> Element {
    let mut open = vec![Element::default()];
    let mut rest = html;
    while !rest.is_empty() {
        let Some(start) = rest.find('<') else {
            push(&mut open, Node::Text(decode(rest)));
            break;
        };
        if start > 0 {
            push(&mut open, Node::Text(decode(&rest[..start])));
        }
        rest = &rest[start..];
        if let Some(after) = rest.strip_prefix("<!--") {
            rest = after.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        if rest.starts_with("<!") {
            rest = rest.split_once('>').map_or("", |(_, after)| after);
            continue;
        }
        let (tag, after) = rest[1..].split_at(end_of_tag(&rest[1..]));
        rest = after.strip_prefix('>').unwrap_or(after);
        if let Some(name) = tag.strip_prefix('/') {
            let ended = open.pop().expect("the page itself never ends");
            assert!(ended.name == name.trim(), "</{name}> ends <{}> in {html}", ended.name);
            push(&mut open, Node::Element(ended));
            continue;
        }
        let element = element(tag.trim_end_matches('/'));
        if VOID.contains(&element.name.as_str()) || tag.ends_with('/') {
            push(&mut open, Node::Element(element));
        } else {
            open.push(element);
        }
    }
    assert_eq!(open.len(), 1, "<{}> does not end in {html}", open.last().expect("there is one").name);
    open.remove(0)
}

fn push(open: &mut [Element], node: Node) {
    open.last_mut().expect("the page itself never ends").children.push(node);
}

/// Quoted values may hold a `>`.
fn end_of_tag(text: &str) -> usize {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('>', None) => return at,
            _ => {}
        }
    }
    text.len()
}

fn element(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Element { name: name.to_lowercase(), attributes, children: Vec::new() };
        }
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let Some(value) = after.strip_prefix('=') else {
            attributes.push((key.to_owned(), String::new()));
            rest = after;
            continue;
        };
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let quote = quote.unwrap_or_else(|| panic!("the value of {key} is not quoted in <{tag}>"));
        let (value, after) = value[1..].split_once(quote).expect("a quote has an end");
        attributes.push((key.to_owned(), decode(value)));
        rest = after;
    }
}

/// With `&amp;` and the like turned back.
pub fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let Some((name, behind)) = after.split_once(';').filter(|(name, _)| name.len() <= 8) else {
            out.push('&');
            rest = after;
            continue;
        };
        let number = name.strip_prefix("#x").map(|hex| u32::from_str_radix(hex, 16).ok());
        let number = number.or_else(|| name.strip_prefix('#').map(|decimal| decimal.parse().ok())).flatten();
        match (name, number.and_then(char::from_u32)) {
            (_, Some(c)) => out.push(c),
            ("amp", _) => out.push('&'),
            ("lt", _) => out.push('<'),
            ("gt", _) => out.push('>'),
            ("quot", _) => out.push('"'),
            ("apos", _) => out.push('\''),
            _ => panic!("&{name}; is not known here"),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

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
        let (_, held) = field.unwrap_or_else(|| panic!("no field {name} in the form"));
        value.clone_into(held);
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

    /// Whether it goes to this path.
    pub fn goes_to(&self, path: &str) -> bool {
        self.path() == path
    }

    /// Where it goes on its host.
    ///
    /// # Panics
    /// Never: a form is read with the address of its page.
    pub fn path(&self) -> String {
        Url::parse(&self.action).expect("it was made absolute").path().to_owned()
    }

    /// As it is sent.
    pub fn encoded(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.fields).finish()
    }
}

/// A page of ours, taken apart.
#[derive(Debug)]
pub struct Html {
    /// Everything that is shown, its title first, one space wherever there is any.
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
    /// When it is not well formed, or holds a style or a script within a tag: pages of ours do not.
    pub fn read(address: &str, text: &str) -> Self {
        let base = Url::parse(address).expect("pages have absolute addresses");
        let page = read(text);
        for element in page.all() {
            let within = |(name, _): &(String, String)| name == "style" || name.starts_with("on");
            assert!(!element.attributes.iter().any(within), "{:?}", element.attributes);
            let inline = element.name == "style" || (element.name == "script" && element.get("src").is_none());
            assert!(!inline, "{} within the page", element.name);
        }
        let title = page.named("title").first().map(|title| title.raw()).unwrap_or_default();
        let links = page.all().into_iter().flat_map(|element| ["href", "src"].map(|name| element.get(name)));
        Self {
            text: format!("{title} {}", page.text()).trim().to_owned(),
            forms: page.forms(&base),
            links: links.flatten().map(str::to_owned).collect(),
            codes: page.named("code").into_iter().map(Element::raw).collect(),
        }
    }

    /// The one form that goes to this path.
    ///
    /// # Panics
    /// When there is none, or several.
    pub fn form(&self, path: &str) -> Form {
        let matching: Vec<_> = self.forms.iter().filter(|form| form.goes_to(path)).collect();
        assert_eq!(matching.len(), 1, "forms to {path}, of {:?}", self.forms);
        matching[0].clone()
    }
}

impl Element {
    /// An attribute.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Whether it is of this class.
    pub fn is(&self, class: &str) -> bool {
        self.get("class").is_some_and(|classes| classes.split_whitespace().any(|own| own == class))
    }

    /// All elements in it, in order.
    pub fn all(&self) -> Vec<&Self> {
        let mut found = Vec::new();
        for child in &self.children {
            if let Node::Element(element) = child {
                found.push(element);
                found.extend(element.all());
            }
        }
        found
    }

    /// All elements of this name in it.
    pub fn named(&self, name: &str) -> Vec<&Self> {
        self.all().into_iter().filter(|element| element.name == name).collect()
    }

    /// The element of this id.
    pub fn by_id(&self, id: &str) -> Option<&Self> {
        self.all().into_iter().find(|element| element.get("id") == Some(id))
    }

    /// What is read to a person in it, with single spaces.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.read_aloud(&mut text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn read_aloud(&self, text: &mut String) {
        for child in &self.children {
            match child {
                Node::Text(own) => text.push_str(own),
                Node::Element(element)
                    if SILENT.contains(&element.name.as_str()) || element.get("aria-hidden") == Some("true") => {}
                Node::Element(element) => {
                    let inline = ["a", "b", "bdi", "code", "span", "strong", "time"].contains(&element.name.as_str());
                    if !inline {
                        text.push(' ');
                    }
                    element.read_aloud(text);
                    if !inline {
                        text.push(' ');
                    }
                }
            }
        }
    }

    /// All forms in it, on a page of this address.
    pub fn forms(&self, base: &Url) -> Vec<Form> {
        self.named("form").into_iter().map(|form| form.form(base)).collect()
    }

    fn form(&self, base: &Url) -> Form {
        let action = self.get("action").unwrap_or_default();
        let mut form = Form {
            action: base.join(action).expect("an action is an address").to_string(),
            method: self.get("method").unwrap_or("get").to_lowercase(),
            fields: Vec::new(),
            unticked: Vec::new(),
            buttons: self.named("button").into_iter().map(Self::text).collect(),
        };
        assert!(self.named("form").is_empty(), "a form within a form");
        for element in self.all() {
            let Some(name) = element.get("name").map(str::to_owned) else { continue };
            match element.name.as_str() {
                "input" => {
                    let held = element.get("value").unwrap_or_default().to_owned();
                    let ticks = matches!(element.get("type"), Some("checkbox" | "radio"));
                    if ticks && element.get("checked").is_none() {
                        form.unticked.push((name, held));
                    } else {
                        form.fields.push((name, held));
                    }
                }
                "textarea" => form.fields.push((name, element.raw())),
                "select" => {
                    let options = element.named("option");
                    let chosen = options.iter().find(|option| option.get("selected").is_some()).or(options.first());
                    let value = chosen.map(|option| option.get("value").map_or_else(|| option.text(), str::to_owned));
                    form.fields.extend(value.map(|value| (name, value)));
                }
                _ => {}
            }
        }
        form
    }

    /// Its text as it is written.
    pub fn raw(&self) -> String {
        let part = |child: &Node| match child {
            Node::Text(text) => text.clone(),
            Node::Element(element) => element.raw(),
        };
        self.children.iter().map(part).collect()
    }

    /// Where the link of this text leads.
    pub fn link(&self, text: &str) -> Option<String> {
        let link = self.named("a").into_iter().find(|link| link.text() == text)?;
        link.get("href").map(str::to_owned)
    }
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
        value=\"a&quot;b\"><input name=\"name\"><input type=\"checkbox\" name=\"scope\" value=\"read\"><input \
        type=\"checkbox\" name=\"scope\" value=\"write\" checked><button class=\"x\">Do  it</button></form>\
        <code>abc</code></body></html>";

    #[test]
    fn a_page_is_taken_apart_as_a_browser_does() {
        let html = Html::read("http://here.test/page", PAGE);

        assert_eq!(html.text, "A & B A <b>c, d Do it abc");
        assert_eq!(html.links, ["/app.js"]);
        assert_eq!(html.codes, ["abc"]);
        let form = html.form("/go").with("name", "é").ticked("scope", "read");
        assert_eq!(form.action, "http://here.test/go?x=1");
        assert_eq!(form.encoded(), "csrf=a%22b&name=%C3%A9&scope=write&scope=read");
        assert_eq!(form.without("csrf").encoded(), "name=%C3%A9&scope=write&scope=read");
    }

    #[test]
    fn a_page_is_read_as_a_person_does() {
        let page = read(
            "<!doctype html><title>No</title><!-- <p> --><main id='m'><h1 class=\"a b\">A &lt;b&gt;</h1><p>One\n \
             <bdi>tw</bdi>o<i aria-hidden=\"true\">!</i></p><p>&#39;three&#x27;<br>four &amp; five</p>\
             <a href=\"/x?a=1&amp;b=2\">There</a><form method=\"post\" action=\"/do\"><select name=\"s\">\
             <option value=\"1\">One</option><option value=\"2\" selected>Two</option></select>\
             <textarea name=\"t\">a\n b</textarea><button>Do <b>it</b></button></form></main>",
        );

        assert_eq!(page.text(), "A <b> One two 'three' four & five There One Two a b Do it");
        assert!(page.by_id("m").is_some() && page.named("h1")[0].is("b"));
        assert_eq!(page.link("There").as_deref(), Some("/x?a=1&b=2"));
        let forms = page.forms(&Url::parse("http://here.test/page").unwrap());
        assert!(forms[0].goes_to("/do") && forms[0].buttons == ["Do it"], "{forms:?}");
        assert_eq!((forms[0].value("s"), forms[0].value("t")), (Some("2"), Some("a\n b")));
    }

    #[test]
    #[should_panic(expected = "ends <")]
    fn a_page_that_is_not_well_formed_is_noticed() {
        Html::read("http://here.test/", "<p><b>x</p></b>");
    }
}
