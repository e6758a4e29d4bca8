//! Templates: text with `{{ ticket.subject }}` in it. They read values and change their form; there is no code in them, no
//! loop, and what they bring is never read as a template again.

use serde_json::{Map, Value};

use super::scope::Scope;
use crate::schema::found;

/// Most of what one template may bring, in bytes.
const MOST_BYTES: usize = 1024 * 1024;
/// A template with more parts is none that people write.
const MOST_PARTS: usize = 200;

/// A text, read once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Value(Expression),
}

#[derive(Clone, Debug, PartialEq)]
struct Expression {
    start: Start,
    filters: Vec<Filter>,
    /// As written, for errors.
    source: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Start {
    Path(Vec<String>),
    Text(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Filter {
    Default(String),
    Join(String),
    Truncate(usize),
    First,
    Last,
    Containing(String),
    Count,
    Lower,
    Upper,
    Trim,
}

const FILTERS: &str =
    "default(\"...\"), join(\", \"), containing(\"...\"), truncate(200), first, last, count, lower, upper, trim";

impl Template {
    /// Reads it; an error says what is wrong and what may stand there.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find("{{") {
            if open > 0 {
                parts.push(Part::Text(rest[..open].to_owned()));
            }
            let inner = &rest[open + 2..];
            let close = end_of(inner).ok_or("a {{ has no }}: write {{ ticket.subject }}")?;
            parts.push(Part::Value(expression(inner[..close].trim())?));
            rest = &inner[close + 2..];
        }
        if !rest.is_empty() || parts.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        if parts.len() > MOST_PARTS {
            return Err(format!("it has more than {MOST_PARTS} parts"));
        }
        Ok(Self(parts))
    }

    /// The names that it begins its paths with.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Value(Expression { start: Start::Path(path), .. }) => path.first().map(String::as_str),
            _ => None,
        })
    }

    /// Its value: of a template that is one `{{ }}` alone the value as it is, a list for instance; else text.
    pub(super) fn value(&self, scope: &Scope) -> Result<Value, String> {
        if let [Part::Value(expression)] = self.0.as_slice() {
            return expression.value(scope);
        }
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(expression) => {
                    let value = expression.value(scope)?;
                    let text = plain(&value).ok_or_else(|| {
                        let source = &expression.source;
                        format!("{{{{ {source} }}}} is {}: name one of its fields, or use join", found(&value))
                    })?;
                    out.push_str(&text);
                }
            }
            bounded(out.len())?;
        }
        Ok(Value::String(out))
    }
}

impl Expression {
    fn value(&self, scope: &Scope) -> Result<Value, String> {
        let mut value = match &self.start {
            Start::Text(text) => Ok(Value::String(text.clone())),
            Start::Path(path) => scope.find(path),
        };
        for filter in &self.filters {
            value = match (filter, value) {
                // The one filter that mends what is missing.
                (Filter::Default(text), Err(_) | Ok(Value::Null)) => Ok(Value::String(text.clone())),
                (Filter::Default(text), Ok(Value::String(found))) if found.trim().is_empty() => {
                    Ok(Value::String(text.clone()))
                }
                (_, Err(error)) => Err(error),
                (filter, Ok(value)) => filter.on(value),
            };
        }
        let value = value.map_err(|error| format!("{{{{ {} }}}}: {error}", self.source))?;
        bounded(size(&value))?;
        Ok(value)
    }
}

impl Filter {
    fn on(&self, value: Value) -> Result<Value, String> {
        let wrong = |name: &str, takes: &str, value: &Value| Err(format!("{name} takes {takes}, not {}", found(value)));
        Ok(match (self, value) {
            (_, Value::Null) if !matches!(self, Self::Count) => Value::Null,
            (Self::Default(_), value) => value,
            (Self::Join(between), Value::Array(items)) => {
                let texts = items.iter().map(|item| plain(item).ok_or("join takes a list of texts".to_owned()));
                Value::String(texts.collect::<Result<Vec<_>, _>>()?.join(between))
            }
            (Self::Join(_), other) => return wrong("join", "a list", &other),
            (Self::First, Value::Array(items)) => items.into_iter().next().unwrap_or(Value::Null),
            (Self::First, other) => return wrong("first", "a list", &other),
            (Self::Last, Value::Array(mut items)) => items.pop().unwrap_or(Value::Null),
            (Self::Last, other) => return wrong("last", "a list", &other),
            (Self::Containing(text), Value::Array(items)) => {
                let holds = |item: &Value| item.as_str().is_some_and(|item| item.contains(text));
                items.into_iter().filter(holds).collect()
            }
            (Self::Containing(_), other) => return wrong("containing", "a list", &other),
            (Self::Count, Value::Array(items)) => Value::from(items.len()),
            (Self::Count, Value::String(text)) => Value::from(text.chars().count()),
            (Self::Count, Value::Null) => Value::from(0),
            (Self::Count, other) => return wrong("count", "a list or a text", &other),
            (Self::Lower, Value::String(text)) => Value::String(text.to_lowercase()),
            (Self::Lower, other) => return wrong("lower", "a text", &other),
            (Self::Upper, Value::String(text)) => Value::String(text.to_uppercase()),
            (Self::Upper, other) => return wrong("upper", "a text", &other),
            (Self::Trim, Value::String(text)) => Value::String(text.trim().to_owned()),
            (Self::Trim, other) => return wrong("trim", "a text", &other),
            (Self::Truncate(most), Value::String(text)) => {
                let long = text.chars().count() > *most;
                let cut: String = text.chars().take(*most).collect();
                Value::String(if long { format!("{}…", cut.trim_end()) } else { cut })
            }
            (Self::Truncate(_), other) => return wrong("truncate", "a text", &other),
        })
    }
}

/// A JSON value whose texts are templates.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Plain(Value),
    Template(Template),
    List(Vec<Shape>),
    Fields(Vec<(String, Shape)>),
}

impl Shape {
    /// Reads all its texts. The error names the place inside of it: `tags[1]`.
    pub(super) fn parse(value: &Value) -> Result<Self, (String, String)> {
        Ok(match value {
            Value::String(text) if text.contains("{{") => {
                Self::Template(Template::parse(text).map_err(|error| (String::new(), error))?)
            }
            Value::Array(items) => {
                let read = |(at, item): (usize, &Value)| {
                    Self::parse(item).map_err(|(rest, error)| (format!("[{at}]{rest}"), error))
                };
                Self::List(items.iter().enumerate().map(read).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let read = |(name, value): (&String, &Value)| match Self::parse(value) {
                    Ok(shape) => Ok((name.clone(), shape)),
                    Err((rest, error)) => Err((format!(".{name}{rest}"), error)),
                };
                Self::Fields(fields.iter().map(read).collect::<Result<_, _>>()?)
            }
            other => Self::Plain(other.clone()),
        })
    }

    pub(super) fn value(&self, scope: &Scope) -> Result<Value, String> {
        Ok(match self {
            Self::Plain(value) => value.clone(),
            Self::Template(template) => template.value(scope)?,
            Self::List(items) => items.iter().map(|item| item.value(scope)).collect::<Result<Vec<_>, _>>()?.into(),
            Self::Fields(fields) => {
                let fields = fields.iter().map(|(name, shape)| Ok((name.clone(), shape.value(scope)?)));
                fields.collect::<Result<Map<_, _>, String>>()?.into()
            }
        })
    }

    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Self::Plain(_) => Vec::new(),
            Self::Template(template) => template.names().collect(),
            Self::List(items) => items.iter().flat_map(Self::names).collect(),
            Self::Fields(fields) => fields.iter().flat_map(|(_, shape)| shape.names()).collect(),
        }
    }
}

/// Where `}}` stands, outside of quotes.
fn end_of(inner: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted && inner[at..].starts_with("}}") => return Some(at),
            _ => {}
        }
    }
    None
}

fn expression(source: &str) -> Result<Expression, String> {
    let mut parts = split(source, '|').into_iter();
    let start = parts.next().unwrap_or_default();
    let start = match quoted(start) {
        Some(text) => Start::Text(text?),
        None => Start::Path(path(start)?),
    };
    let filters = parts.map(filter).collect::<Result<_, _>>()?;
    Ok(Expression { start, filters, source: source.to_owned() })
}

/// Splits outside of quotes, and trims.
fn split(text: &str, at: char) -> Vec<&str> {
    let (mut quoted, mut escaped, mut begin) = (false, false, 0);
    let mut parts = Vec::new();
    for (here, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == at && !quoted => {
                parts.push(text[begin..here].trim());
                begin = here + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    parts
}

/// A text in quotes, in the manner of JSON; `None`: it is none.
fn quoted(text: &str) -> Option<Result<String, String>> {
    text.starts_with('"')
        .then(|| serde_json::from_str(text).map_err(|_| format!("{text} is no text in quotes: write \"like this\"")))
}

fn path(text: &str) -> Result<Vec<String>, String> {
    let segment = |segment: &str| {
        let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        (!segment.is_empty() && segment.chars().all(plain)).then(|| segment.to_owned())
    };
    let path: Option<Vec<_>> = text.split('.').map(segment).collect();
    path.ok_or_else(|| format!("{{{{ {text} }}}} names no value: write names with dots between, like ticket.subject"))
}

fn filter(text: &str) -> Result<Filter, String> {
    let (name, argument) = match text.split_once('(') {
        Some((name, rest)) => (name.trim(), rest.strip_suffix(')').map(str::trim)),
        None => (text, None),
    };
    let unknown = || format!("there is no filter {text}; there are {FILTERS}");
    let words = || argument.and_then(quoted).ok_or_else(unknown)?;
    match (name, argument) {
        ("default", Some(_)) => Ok(Filter::Default(words()?)),
        ("join", Some(_)) => Ok(Filter::Join(words()?)),
        ("truncate", Some(number)) => number.parse().map(Filter::Truncate).map_err(|_| unknown()),
        ("containing", Some(_)) => Ok(Filter::Containing(words()?)),
        ("first", None) => Ok(Filter::First),
        ("last", None) => Ok(Filter::Last),
        ("count", None) => Ok(Filter::Count),
        ("lower", None) => Ok(Filter::Lower),
        ("upper", None) => Ok(Filter::Upper),
        ("trim", None) => Ok(Filter::Trim),
        _ => Err(unknown()),
    }
}

/// A value within a text; `None`: lists and objects have no place there.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn bounded(bytes: usize) -> Result<(), String> {
    if bytes > MOST_BYTES { Err(format!("it brings more than {MOST_BYTES} bytes: use truncate")) } else { Ok(()) }
}

/// About how many bytes a value has.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + size(value)).sum(),
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        let mut scope = Scope::default();
        scope.set(
            "ticket",
            json!({
                "id": "7", "subject": "Where is <my> order?", "tags": ["vip", "eu"], "assignee": null, "count": 3,
                "requester": {"name": " Mira ", "email": "mira@example.com"},
                "messages": [{"body": "one"}, {"body": "two"}, {"note": true}],
            }),
        );
        scope
    }

    fn value(text: &str) -> Result<Value, String> {
        Template::parse(text)?.value(&scope())
    }

    #[test]
    fn a_template_brings_what_it_names() {
        for (text, expected) in [
            ("Hello", json!("Hello")),
            ("", json!("")),
            ("Hello {{ ticket.requester.name | trim }}!", json!("Hello Mira!")),
            ("{{ticket.id}}: {{ ticket.subject }}", json!("7: Where is <my> order?")),
            ("{{ ticket.tags }}", json!(["vip", "eu"])),
            ("{{ ticket.tags.1 }}", json!("eu")),
            ("{{ ticket.tags | first }}", json!("vip")),
            ("{{ ticket.tags | last }}", json!("eu")),
            ("{{ ticket.messages.body | containing(\"t\") }}", json!(["two"])),
            ("{{ ticket.messages.body | containing(\"o\") | last }}", json!("two")),
            ("{{ ticket.messages.body | containing(\"none\") | last | default(\"-\") }}", json!("-")),
            ("{{ ticket.tags | count }}", json!(2)),
            ("#{{ ticket.tags | count }}", json!("#2")),
            ("{{ ticket.tags | join(\", \") }}.", json!("vip, eu.")),
            ("{{ ticket.messages.body | join(\"|\") }}", json!("one|two|")),
            ("{{ ticket.assignee }}", json!(null)),
            ("{{ ticket.assignee.name }}", json!(null)),
            ("{{ ticket.assignee.name | upper | default(\"nobody\") }}", json!("nobody")),
            ("{{ ticket.nothing | default(\"there\") }}", json!("there")),
            ("{{ ticket.subject | truncate(5) | upper }}", json!("WHERE…")),
            ("{{ ticket.subject | lower }}", json!("where is <my> order?")),
            ("{{ ticket.count }}", json!(3)),
            ("{{ \"a }} | b {{ \\\" c\" }}", json!("a }} | b {{ \" c")),
            ("}} alone", json!("}} alone")),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_a_value_holds_is_no_template() {
        let mut scope = Scope::default();
        scope.set("ticket", json!({"subject": "{{ secret }}"}));
        scope.set("secret", json!("s3cret"));

        let read = Template::parse("{{ ticket.subject }} {{ ticket.subject | lower }}").unwrap().value(&scope);

        assert_eq!(read, Ok(json!("{{ secret }} {{ secret }}")));
    }

    #[test]
    fn a_bad_template_says_what_to_write() {
        for (text, words) in [
            ("{{ ticket.subject", "a {{ has no }}"),
            ("{{ }}", "names no value"),
            ("{{ ticket..subject }}", "write names with dots between"),
            ("{{ ticket.subject + 1 }}", "names no value"),
            ("{{ ticket | shout }}", "there is no filter shout; there are default"),
            ("{{ ticket | join }}", "there is no filter join;"),
            ("{{ ticket | truncate(many) }}", "there is no filter truncate(many)"),
            ("{{ ticket | default(x) }}", "there is no filter default(x)"),
            ("{{ \"open }}", "a {{ has no }}"),
            ("{{ system(\"ls\") }}", "names no value"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_value_that_is_not_there_is_told_with_what_is() {
        for (text, words) in [
            ("{{ tiket.id }}", "{{ tiket.id }}: nothing is called tiket here; there is ticket"),
            ("{{ ticket.subjct }}", "ticket has no subjct; it has assignee, count, id"),
            ("{{ ticket.id.x }}", "ticket.id is text and has no x"),
            ("{{ ticket.tags.7 }}", "ticket.tags has 2 items, and no number 7"),
            ("{{ ticket.subject | first }}", "first takes a list, not text"),
            ("About {{ ticket.requester }}", "is an object: name one of its fields"),
            ("{{ ticket.messages | join(\",\") }}", "join takes a list of texts"),
        ] {
            let error = value(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn no_template_brings_without_end() {
        let mut scope = Scope::default();
        scope.set("long", json!("x".repeat(300_000)));
        let four = Template::parse("{{ long }}{{ long }}{{ long }}{{ long }}").unwrap();
        assert!(four.value(&scope).unwrap_err().contains("use truncate"));
        assert!(Template::parse(&"{{ a }}".repeat(201)).unwrap_err().contains("more than 200 parts"));
    }
}
