//! GraphQL text to what is asked, and to the schema that it is held against: as much of the language as clients of the
//! Admin API use. Fragments are not read.
//!
//! <https://spec.graphql.org/October2021/#sec-Language>

use serde_json::{Map, Number, Value as Json};

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Number(String),
    Text(String),
    Mark(char),
}

/// A type as it is written: `[LineItem!]!`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Named(String),
    List(Box<Kind>),
    Required(Box<Kind>),
}

impl Kind {
    /// What is inside of lists and marks.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::List(inner) | Self::Required(inner) => inner.name(),
        }
    }

    pub(crate) fn is_required(&self) -> bool {
        matches!(self, Self::Required(_))
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::List(inner) => write!(f, "[{inner}]"),
            Self::Required(inner) => write!(f, "{inner}!"),
        }
    }
}

/// A value as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Variable(String),
    Word(String),
    Plain(Json),
    List(Vec<Literal>),
    Object(Vec<(String, Literal)>),
}

#[derive(Debug, Clone)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, Literal)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) alias: String,
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, Literal)>,
    pub(crate) directives: Vec<Directive>,
    pub(crate) selections: Vec<Selection>,
}

#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) mutation: bool,
    pub(crate) name: Option<String>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) selections: Vec<Selection>,
}

/// A field of a type, or an argument: its type, and a field's own arguments.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) arguments: Vec<Field>,
}

#[derive(Debug)]
pub(crate) enum Definition {
    Type(Vec<Field>),
    Input(Vec<Field>),
    Enum(Vec<String>),
}

/// The one operation of a document.
pub(crate) fn operation(text: &str) -> Result<Operation, String> {
    let mut parser = Parser::new(text)?;
    let operation = parser.operation()?;
    if parser.at < parser.tokens.len() {
        return Err("syntax error, there is more than one operation".to_owned());
    }
    Ok(operation)
}

/// The definitions of a schema, by name.
pub(crate) fn schema(text: &str) -> Result<Vec<(String, Definition)>, String> {
    let mut parser = Parser::new(text)?;
    let mut all = Vec::new();
    while parser.at < parser.tokens.len() {
        let word = parser.name()?;
        let name = parser.name()?;
        parser.mark('{')?;
        let definition = match word.as_str() {
            "type" => Definition::Type(parser.fields('}')?),
            "input" => Definition::Input(parser.fields('}')?),
            "enum" => {
                let mut values = Vec::new();
                while !parser.took('}') {
                    values.push(parser.name()?);
                }
                Definition::Enum(values)
            }
            other => return Err(format!("{other} defines nothing")),
        };
        all.push((name, definition));
    }
    Ok(all)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn new(text: &str) -> Result<Self, String> {
        Ok(Self { tokens: tokens(text)?, at: 0 })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Result<Token, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("syntax error, unexpected end of document")?;
        self.at += 1;
        Ok(token)
    }

    fn took(&mut self, mark: char) -> bool {
        let there = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(there);
        there
    }

    fn mark(&mut self, mark: char) -> Result<(), String> {
        if self.took(mark) { Ok(()) } else { Err(format!("syntax error, expected {mark}, found {:?}", self.peek())) }
    }

    fn name(&mut self) -> Result<String, String> {
        match self.next()? {
            Token::Name(name) => Ok(name),
            other => Err(format!("syntax error, expected a name, found {other:?}")),
        }
    }

    fn operation(&mut self) -> Result<Operation, String> {
        if self.peek() == Some(&Token::Mark('{')) {
            let selections = self.selections()?;
            return Ok(Operation { mutation: false, name: None, variables: Vec::new(), selections });
        }
        let mutation = match self.name()?.as_str() {
            "query" => false,
            "mutation" => true,
            other => return Err(format!("syntax error, {other} is not read here")),
        };
        let name = if matches!(self.peek(), Some(Token::Name(_))) { Some(self.name()?) } else { None };
        let mut variables = Vec::new();
        if self.took('(') {
            while !self.took(')') {
                self.mark('$')?;
                let name = self.name()?;
                self.mark(':')?;
                variables.push(Variable { name, kind: self.kind()? });
            }
        }
        Ok(Operation { mutation, name, variables, selections: self.selections()? })
    }

    fn kind(&mut self) -> Result<Kind, String> {
        let kind = if self.took('[') {
            let inner = self.kind()?;
            self.mark(']')?;
            Kind::List(Box::new(inner))
        } else {
            Kind::Named(self.name()?)
        };
        Ok(if self.took('!') { Kind::Required(Box::new(kind)) } else { kind })
    }

    fn selections(&mut self) -> Result<Vec<Selection>, String> {
        self.mark('{')?;
        let mut all = Vec::new();
        while !self.took('}') {
            let mut name = self.name()?;
            let alias = name.clone();
            if self.took(':') {
                name = self.name()?;
            }
            let arguments = self.arguments()?;
            let mut directives = Vec::new();
            while self.took('@') {
                directives.push(Directive { name: self.name()?, arguments: self.arguments()? });
            }
            let selections = if self.peek() == Some(&Token::Mark('{')) { self.selections()? } else { Vec::new() };
            all.push(Selection { alias, name, arguments, directives, selections });
        }
        if all.is_empty() { Err("syntax error, a selection is empty".to_owned()) } else { Ok(all) }
    }

    fn arguments(&mut self) -> Result<Vec<(String, Literal)>, String> {
        let mut all = Vec::new();
        if self.took('(') {
            while !self.took(')') {
                let name = self.name()?;
                self.mark(':')?;
                all.push((name, self.literal()?));
            }
        }
        Ok(all)
    }

    fn literal(&mut self) -> Result<Literal, String> {
        Ok(match self.next()? {
            Token::Mark('$') => Literal::Variable(self.name()?),
            Token::Mark('[') => {
                let mut list = Vec::new();
                while !self.took(']') {
                    list.push(self.literal()?);
                }
                Literal::List(list)
            }
            Token::Mark('{') => {
                let mut fields = Vec::new();
                while !self.took('}') {
                    let name = self.name()?;
                    self.mark(':')?;
                    fields.push((name, self.literal()?));
                }
                Literal::Object(fields)
            }
            Token::Name(name) => match name.as_str() {
                "true" => Literal::Plain(true.into()),
                "false" => Literal::Plain(false.into()),
                "null" => Literal::Plain(Json::Null),
                _ => Literal::Word(name),
            },
            Token::Text(text) => Literal::Plain(text.into()),
            Token::Number(text) => {
                Literal::Plain(Json::Number(text.parse::<Number>().map_err(|_| format!("{text} is no number"))?))
            }
            Token::Mark(mark) => return Err(format!("syntax error, unexpected {mark}")),
        })
    }

    fn fields(&mut self, end: char) -> Result<Vec<Field>, String> {
        let mut all = Vec::new();
        while !self.took(end) {
            let name = self.name()?;
            let arguments = if self.took('(') { self.fields(')')? } else { Vec::new() };
            self.mark(':')?;
            all.push(Field { name, kind: self.kind()?, arguments });
        }
        Ok(all)
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut all = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let mut word = String::from(c);
        let mut more = |fits: fn(char) -> bool| {
            while let Some(next) = rest.next_if(|next| fits(*next)) {
                word.push(next);
            }
        };
        match c {
            ',' | '\u{feff}' => {}
            c if c.is_ascii_whitespace() => {}
            '#' => more(|next| next != '\n'),
            'a'..='z' | 'A'..='Z' | '_' => {
                more(|next| next.is_ascii_alphanumeric() || next == '_');
                all.push(Token::Name(word));
            }
            '0'..='9' | '-' => {
                more(|next| next.is_ascii_digit() || matches!(next, '.' | 'e' | 'E' | '+' | '-'));
                all.push(Token::Number(word));
            }
            '"' => all.push(Token::Text(quoted(&mut rest)?)),
            '!' | '$' | '(' | ')' | ':' | '=' | '@' | '[' | ']' | '{' | '}' => all.push(Token::Mark(c)),
            other => return Err(format!("syntax error, unexpected {other}")),
        }
    }
    Ok(all)
}

/// JSON's escapes are GraphQL's.
fn quoted(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<String, String> {
    let mut json = String::from('"');
    while let Some(c) = rest.next() {
        json.push(c);
        match c {
            '\\' => json.extend(rest.next()),
            '"' => return serde_json::from_str(&json).map_err(|_| "syntax error, a string is none".to_owned()),
            _ => {}
        }
    }
    Err("syntax error, a string has no end".to_owned())
}

impl Literal {
    /// With variables filled in; one that was not given leaves its place out.
    pub(crate) fn value(&self, variables: &Map<String, Json>) -> Option<Json> {
        match self {
            Self::Variable(name) => variables.get(name).cloned(),
            Self::Word(word) => Some(word.as_str().into()),
            Self::Plain(value) => Some(value.clone()),
            Self::List(list) => {
                Some(list.iter().map(|item| item.value(variables).unwrap_or_default()).collect::<Vec<_>>().into())
            }
            Self::Object(fields) => Some(Json::Object(
                fields.iter().filter_map(|(name, field)| Some((name.clone(), field.value(variables)?))).collect(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_read_with_all_its_parts() {
        let read = operation(
            "mutation M($a: [X!]!, $b: Int) { go(in: {a: $a, t: \"x\\\"y\", n: -1.5, e: CUSTOMER, l: [true, null]}) \
             @idempotent(key: \"k\") { z: id # a comment\n } }",
        )
        .unwrap();
        assert!(read.mutation);
        assert_eq!(read.variables[0].kind.to_string(), "[X!]!");
        let go = &read.selections[0];
        assert_eq!(go.directives[0].name, "idempotent");
        assert_eq!((go.selections[0].alias.as_str(), go.selections[0].name.as_str()), ("z", "id"));
        let variables = Map::from_iter([("a".to_owned(), Json::from(vec![1]))]);
        let value = go.arguments[0].1.value(&variables).unwrap();
        assert_eq!(value, serde_json::json!({"a": [1], "e": "CUSTOMER", "l": [true, null], "n": -1.5, "t": "x\"y"}));
    }

    #[test]
    fn what_is_no_operation_is_refused() {
        for text in [
            "",
            "query",
            "{",
            "{}",
            "{ a",
            "{ a { } }",
            "{ a } { b }",
            "{ ...F }",
            "query ($a Int) { a }",
            "{ a(b: \"c) }",
        ] {
            assert!(operation(text).is_err(), "{text}");
        }
    }
}
