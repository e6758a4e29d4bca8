//! A document held against the schema, what it costs, and the part of the data that it selects.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::parse::{self, Definition, Field, Kind, Literal, Operation, Selection};

/// The part of the Admin API that there is here, spelled as Shopify spells it.
const SCHEMA: &str = include_str!("schema.graphql");

static TYPES: LazyLock<HashMap<String, Definition>> = LazyLock::new(|| {
    let all = parse::schema(SCHEMA).unwrap_or_else(|error| panic!("the sandbox's own schema: {error}"));
    all.into_iter().collect()
});

/// Types that have no fields and are no enums.
const SCALARS: &[&str] = &[
    "Boolean",
    "CountryCode",
    "CurrencyCode",
    "DateTime",
    "Decimal",
    "Float",
    "ID",
    "Int",
    "Money",
    "String",
    "URL",
    "UnsignedInt64",
];

/// So many points a mutation costs beside what it answers.
const MUTATION_COST: i64 = 10;

/// An entry of `errors`.
pub(crate) fn error(message: &str, code: &str, path: &[Value]) -> Value {
    let mut error = json!({"message": message, "extensions": {"code": code}});
    if !path.is_empty() {
        error["path"] = path.into();
    }
    error
}

/// A document that may be run.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) operation: Operation,
    pub(crate) variables: Map<String, Value>,
    /// Points that it asks for.
    pub(crate) cost: i64,
}

/// Holds a request to the schema: fields, arguments, and variables with their values.
pub(crate) fn prepare(query: &str, variables: &Value) -> Result<Ready, Vec<Value>> {
    let operation = parse::operation(query).map_err(|message| vec![error(&message, "parseError", &[])])?;
    let mut given = match variables {
        Value::Null => Map::new(),
        Value::Object(given) => given.clone(),
        _ => return Err(vec![error("variables are no object", "INVALID_VARIABLE", &[])]),
    };
    let mut check = Check { errors: Vec::new(), operation: &operation, used: Vec::new() };
    for variable in &operation.variables {
        let value = given.get(&variable.name);
        if let Err(why) = fits(value, &variable.kind) {
            let message =
                format!("Variable ${} of type {} was provided invalid value: {why}", variable.name, variable.kind);
            check.errors.push(error(&message, "INVALID_VARIABLE", &[]));
        }
    }
    // Unknown ones are passed over, as the standard has it.
    given.retain(|name, _| operation.variables.iter().any(|variable| variable.name == *name));
    let root = root_of(&operation);
    check.selections(root, &operation.selections);
    for variable in &operation.variables {
        if !check.used.contains(&variable.name) {
            let message = format!("Variable ${} is declared by {} but not used", variable.name, check.name());
            check.errors.push(error(&message, "variableNotUsed", &[]));
        }
    }
    if !check.errors.is_empty() {
        return Err(check.errors);
    }
    let mut cost = cost(root, &operation.selections, &given);
    if operation.mutation {
        cost += MUTATION_COST;
    }
    Ok(Ready { variables: given, cost, operation })
}

pub(crate) fn root_of(operation: &Operation) -> &'static str {
    if operation.mutation { "Mutation" } else { "QueryRoot" }
}

fn fields_of(name: &str) -> Option<&'static [Field]> {
    match TYPES.get(name)? {
        Definition::Type(fields) => Some(fields),
        _ => None,
    }
}

pub(crate) fn field_of(name: &str, field: &str) -> Option<&'static Field> {
    fields_of(name)?.iter().find(|known| known.name == field)
}

struct Check<'a> {
    errors: Vec<Value>,
    operation: &'a Operation,
    used: Vec<String>,
}

impl Check<'_> {
    fn name(&self) -> &str {
        self.operation.name.as_deref().unwrap_or("anonymous")
    }

    fn fail(&mut self, code: &str, message: &str) {
        self.errors.push(error(message, code, &[]));
    }

    fn selections(&mut self, of: &str, selections: &[Selection]) {
        for selection in selections {
            let Some(field) = field_of(of, &selection.name) else {
                let message = format!("Field '{}' doesn't exist on type '{of}'", selection.name);
                self.fail("undefinedField", &message);
                continue;
            };
            self.arguments(&format!("Field '{}'", field.name), &field.arguments, &selection.arguments);
            for directive in &selection.directives {
                let key = Field { name: "key".into(), kind: text_kind(), arguments: Vec::new() };
                if directive.name == "idempotent" && field.name == "refundCreate" {
                    self.arguments("Directive 'idempotent'", &[key], &directive.arguments);
                } else {
                    self.fail("undefinedDirective", &format!("Directive @{} is not defined here", directive.name));
                }
            }
            let inner = field.kind.name();
            match (fields_of(inner).is_some(), selection.selections.is_empty()) {
                (true, true) => self.fail(
                    "selectionMismatch",
                    &format!("Field must have selections (field '{}' returns {inner})", field.name),
                ),
                (false, false) => self.fail(
                    "selectionMismatch",
                    &format!("Selections can't be made on scalars (field '{}' returns {inner})", field.name),
                ),
                (true, false) => self.selections(inner, &selection.selections),
                (false, true) => {}
            }
        }
    }

    fn arguments(&mut self, of: &str, known: &[Field], given: &[(String, Literal)]) {
        for (name, literal) in given {
            match known.iter().find(|field| field.name == *name) {
                Some(field) => self.literal(&field.kind, literal),
                None => self.fail("argumentNotAccepted", &format!("{of} doesn't accept argument '{name}'")),
            }
        }
        for field in known.iter().filter(|field| field.kind.is_required()) {
            if !given.iter().any(|(name, _)| *name == field.name) {
                let message = format!("{of} is missing required arguments: {}", field.name);
                self.fail("missingRequiredArguments", &message);
            }
        }
    }

    fn literal(&mut self, kind: &Kind, literal: &Literal) {
        match (literal, kind) {
            (Literal::Variable(name), _) => {
                self.used.push(name.clone());
                let declared = self.operation.variables.iter().find(|variable| variable.name == *name);
                match declared {
                    None => self.fail("variableNotDefined", &format!("Variable ${name} is used but not declared")),
                    Some(variable) if !goes_into(&variable.kind, kind) => {
                        let message = format!("Type mismatch on variable ${name} ({} / {kind})", variable.kind);
                        self.fail("variableMismatch", &message);
                    }
                    Some(_) => {}
                }
            }
            (_, Kind::Required(inner)) => self.literal(inner, literal),
            (Literal::List(list), Kind::List(inner)) => list.iter().for_each(|item| self.literal(inner, item)),
            (Literal::Object(fields), Kind::Named(name)) => match TYPES.get(name) {
                Some(Definition::Input(known)) => self.arguments(&format!("InputObject '{name}'"), known, fields),
                _ => self.fail("argumentLiteralsIncompatible", &format!("an object is no {name}")),
            },
            (Literal::Word(word), Kind::Named(name)) => {
                let known = matches!(TYPES.get(name), Some(Definition::Enum(values)) if values.contains(word));
                if !known {
                    self.fail("argumentLiteralsIncompatible", &format!("{word} is no {name}"));
                }
            }
            (Literal::Plain(value), kind) => {
                let word = value.is_string() && matches!(TYPES.get(kind.name()), Some(Definition::Enum(_)));
                if let Err(why) = fits(Some(value), kind) {
                    self.fail("argumentLiteralsIncompatible", &why);
                } else if word {
                    self.fail("argumentLiteralsIncompatible", "an enum's value has no quotes");
                }
            }
            (_, kind) => self.fail("argumentLiteralsIncompatible", &format!("the value is no {kind}")),
        }
    }
}

fn text_kind() -> Kind {
    Kind::Required(Box::new(Kind::Named("String".to_owned())))
}

/// Whether a variable of one type may stand where another is wanted.
fn goes_into(variable: &Kind, place: &Kind) -> bool {
    match (variable, place) {
        (Kind::Required(inner), Kind::Required(place)) | (Kind::List(inner), Kind::List(place)) => {
            goes_into(inner, place)
        }
        (Kind::Required(inner), place) => goes_into(inner, place),
        (Kind::Named(one), Kind::Named(other)) => one == other,
        _ => false,
    }
}

/// Whether a variable's value is one of its type.
fn fits(value: Option<&Value>, kind: &Kind) -> Result<(), String> {
    let absent = value.is_none_or(Value::is_null);
    match (kind, value) {
        (Kind::Required(_), _) if absent => Err("Expected value to not be null".to_owned()),
        (Kind::Required(inner), value) => fits(value, inner),
        _ if absent => Ok(()),
        (Kind::List(inner), Some(Value::Array(list))) => list.iter().try_for_each(|item| fits(Some(item), inner)),
        // One value is a list of one (GraphQL 3.11).
        (Kind::List(inner), value) => fits(value, inner),
        (Kind::Named(name), Some(value)) => match TYPES.get(name) {
            Some(Definition::Enum(values)) => match value.as_str() {
                Some(word) if values.iter().any(|known| known == word) => Ok(()),
                _ => Err(format!("Expected {value} to be one of: {}", values.join(", "))),
            },
            Some(Definition::Input(known)) => {
                let fields = value.as_object().ok_or_else(|| format!("Expected {value} to be an object"))?;
                for name in fields.keys() {
                    if !known.iter().any(|field| field.name == *name) {
                        return Err(format!("Field is not defined on the input: {name}"));
                    }
                }
                known.iter().try_for_each(|field| {
                    fits(fields.get(&field.name), &field.kind).map_err(|why| format!("{}: {why}", field.name))
                })
            }
            Some(Definition::Type(_)) => Err(format!("{name} is no input type")),
            None => scalar(name, value),
        },
        (Kind::Named(_), None) => Ok(()),
    }
}

fn scalar(name: &str, value: &Value) -> Result<(), String> {
    let good = match name {
        "Int" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        "Boolean" => value.is_boolean(),
        // A gid, or the whole is refused: numbers alone are another API's.
        "ID" => value.as_str().is_some_and(|id| id.starts_with("gid://shopify/")),
        "Money" | "Decimal" => value.as_str().is_some_and(|text| text.parse::<f64>().is_ok()),
        name if SCALARS.contains(&name) => value.is_string(),
        _ => return Err(format!("there is no type {name}")),
    };
    if good { Ok(()) } else { Err(format!("Could not coerce value {value} to {name}")) }
}

/// Arguments of a selection, with variables filled in.
pub(crate) fn arguments_of(selection: &Selection, variables: &Map<String, Value>) -> Map<String, Value> {
    let given = selection.arguments.iter();
    given.filter_map(|(name, literal)| Some((name.clone(), literal.value(variables)?))).collect()
}

fn first(arguments: &Map<String, Value>) -> Option<i64> {
    arguments.get("first").and_then(Value::as_i64)
}

/// 1 for an object, 0 for anything plain, lists and connections by their `first`.
fn cost(of: &str, selections: &[Selection], variables: &Map<String, Value>) -> i64 {
    let each = selections.iter().map(|selection| {
        let Some(field) = field_of(of, &selection.name) else { return 0 };
        let name = field.kind.name();
        if fields_of(name).is_none() || name == "PageInfo" {
            return 0;
        }
        let inner = cost(name, &selection.selections, variables);
        if selection.name == "nodes" {
            return 1 + inner;
        }
        let times = first(&arguments_of(selection, variables));
        if name.ends_with("Connection") {
            return times.unwrap_or(1) * inner;
        }
        times.unwrap_or(1) * (1 + inner)
    });
    each.sum()
}

/// What a run of a document needs to know of the shop.
pub(crate) trait Source {
    /// The value of a field of the root; `idempotency_key`: of its directive.
    fn root(
        &mut self,
        name: &str,
        arguments: &Map<String, Value>,
        idempotency_key: Option<&str>,
    ) -> Result<Value, Value>;
    /// The value of a field that is made of its arguments; `None`: it is in the object.
    fn made(&mut self, of: &str, name: &str, object: &Value, arguments: &Map<String, Value>) -> Option<Value>;
    /// Why a field of an object is held back.
    fn denied(&self, of: &str, name: &str) -> Option<String>;
}

/// What a run brought.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) data: Map<String, Value>,
    pub(crate) errors: Vec<Value>,
    /// Objects that were answered.
    pub(crate) objects: i64,
}

pub(crate) fn run(ready: &Ready, source: &mut dyn Source) -> Ran {
    let mut ran = Ran::default();
    for selection in &ready.operation.selections {
        let root = root_of(&ready.operation);
        let Some(field) = field_of(root, &selection.name) else { continue };
        let mut path = vec![Value::from(selection.alias.as_str())];
        let arguments = arguments_of(selection, &ready.variables);
        let directive = selection.directives.iter().find(|directive| directive.name == "idempotent");
        let key = directive.and_then(|directive| directive.arguments.first()?.1.value(&ready.variables));
        let value = match source.root(&selection.name, &arguments, key.as_ref().and_then(Value::as_str)) {
            Ok(value) => {
                let mut select = Select { source: &mut *source, variables: &ready.variables, ran: &mut ran };
                select.value(field, selection, &arguments, value, &mut path)
            }
            Err(mut error) => {
                error["path"] = path.into();
                ran.errors.push(error);
                Value::Null
            }
        };
        ran.data.insert(selection.alias.clone(), value);
    }
    ran
}

struct Select<'a> {
    source: &'a mut dyn Source,
    variables: &'a Map<String, Value>,
    ran: &'a mut Ran,
}

impl Select<'_> {
    fn value(
        &mut self,
        field: &Field,
        selection: &Selection,
        arguments: &Map<String, Value>,
        value: Value,
        path: &mut Vec<Value>,
    ) -> Value {
        let name = field.kind.name();
        if fields_of(name).is_none() {
            return value;
        }
        match value {
            Value::Array(list) if name.ends_with("Connection") => {
                self.object(name, selection, &page(list, arguments), path)
            }
            Value::Array(list) => {
                let most = first(arguments).and_then(|first| usize::try_from(first).ok()).unwrap_or(usize::MAX);
                let items = list.into_iter().take(most).enumerate().map(|(index, item)| {
                    path.push(index.into());
                    let item = self.object(name, selection, &item, path);
                    path.pop();
                    item
                });
                items.collect()
            }
            object @ Value::Object(_) => self.object(name, selection, &object, path),
            _ => Value::Null,
        }
    }

    fn object(&mut self, of: &str, selection: &Selection, object: &Value, path: &mut Vec<Value>) -> Value {
        if !of.ends_with("Connection") && of != "PageInfo" {
            self.ran.objects += 1;
        }
        let mut out = Map::new();
        for selection in &selection.selections {
            let Some(field) = field_of(of, &selection.name) else { continue };
            path.push(selection.alias.as_str().into());
            let arguments = arguments_of(selection, self.variables);
            let value = if let Some(why) = self.source.denied(of, &selection.name) {
                self.ran.errors.push(error(&why, "ACCESS_DENIED", path));
                Value::Null
            } else {
                let made = self.source.made(of, &selection.name, object, &arguments);
                let value = made.unwrap_or_else(|| object[&selection.name].clone());
                self.value(field, selection, &arguments, value, path)
            };
            path.pop();
            out.insert(selection.alias.clone(), value);
        }
        Value::Object(out)
    }
}

/// A page of a list. Cursors are opaque, and say nothing but a place.
fn page(list: Vec<Value>, arguments: &Map<String, Value>) -> Value {
    let start = arguments.get("after").and_then(Value::as_str).map_or(0, |cursor| place(cursor).unwrap_or(usize::MAX));
    let most = first(arguments).and_then(|first| usize::try_from(first).ok()).unwrap_or(0);
    let length = list.len();
    let nodes: Vec<Value> = list.into_iter().skip(start).take(most).collect();
    let end = start.saturating_add(nodes.len());
    json!({
        "pageInfo": {
            "hasNextPage": end < length,
            "hasPreviousPage": start > 0,
            "startCursor": (!nodes.is_empty()).then(|| cursor(start + 1)),
            "endCursor": (!nodes.is_empty()).then(|| cursor(end)),
        },
        "nodes": nodes,
    })
}

fn cursor(place: usize) -> String {
    format!("eyJsYXN0X3BsYWNlIjo{place:x}")
}

fn place(cursor: &str) -> Option<usize> {
    usize::from_str_radix(cursor.strip_prefix("eyJsYXN0X3BsYWNlIjo")?, 16).ok()
}

/// Whether a cursor is one that was handed out.
pub(crate) fn is_cursor(text: &str) -> bool {
    place(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(query: &str, variables: &Value) -> Vec<String> {
        let errors = prepare(query, variables).map(|_| ()).unwrap_err();
        errors.iter().map(|error| error["extensions"]["code"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_type_that_the_schema_names_is_there() {
        for definition in TYPES.values() {
            let fields = match definition {
                Definition::Type(fields) | Definition::Input(fields) => fields,
                Definition::Enum(_) => continue,
            };
            for field in fields.iter().flat_map(|field| std::iter::once(field).chain(&field.arguments)) {
                let name = field.kind.name();
                let word = name.ends_with("Status")
                    || name.ends_with("State")
                    || name.ends_with("Code")
                    || name.ends_with("Kind")
                    || name.ends_with("ErrorCode");
                assert!(TYPES.contains_key(name) || SCALARS.contains(&name) || word, "{name} of {}", field.name);
            }
        }
    }

    #[test]
    fn what_the_schema_does_not_have_is_refused_by_its_code() {
        let none = Value::Null;
        for (query, code) in [
            ("{ shop { id nme } }", "undefinedField"),
            ("{ shop }", "selectionMismatch"),
            ("{ shop { id { x } } }", "selectionMismatch"),
            ("{ order { id } }", "missingRequiredArguments"),
            ("{ order(id: 5) { id } }", "argumentLiteralsIncompatible"),
            ("{ order(id: \"5\") { id } }", "argumentLiteralsIncompatible"),
            ("{ orders(first: 1, last: 2) { nodes { id } } }", "argumentNotAccepted"),
            ("{ orders(first: 1, sortKey: WRONG) { nodes { id } } }", "argumentLiteralsIncompatible"),
            ("{ orders(first: 1, sortKey: \"ID\") { nodes { id } } }", "argumentLiteralsIncompatible"),
            ("query ($id: ID!) { shop { id } }", "INVALID_VARIABLE"),
            ("query ($n: Int) { shop { id } }", "variableNotUsed"),
            ("{ orders(first: $n) { nodes { id } } }", "variableNotDefined"),
            ("query ($n: String) { orders(first: $n) { nodes { id } } }", "variableMismatch"),
            ("query ($id: ID) { order(id: $id) { id } }", "variableMismatch"),
            ("{ shop @include(if: true) { id } }", "undefinedDirective"),
            ("{ shop { id }", "parseError"),
        ] {
            assert_eq!(codes(query, &none)[0], code, "{query}");
        }
        let refund = "mutation ($i: RefundInput!) { refundCreate(input: $i) { userErrors { message } } }";
        for input in [
            json!({}),
            json!({"orderId": "5"}),
            json!({"orderId": "gid://shopify/Order/5", "amount": "5"}),
            json!({"orderId": "gid://shopify/Order/5", "refundLineItems": [{"quantity": 1}]}),
            json!({"orderId": "gid://shopify/Order/5", "transactions": [{"amount": 5}]}),
        ] {
            assert_eq!(codes(refund, &json!({"i": input}))[0], "INVALID_VARIABLE", "{input}");
        }
    }

    #[test]
    fn nested_lists_multiply() {
        let cost = |query: &str| prepare(query, &Value::Null).unwrap().cost;
        assert_eq!(cost("{ shop { id plan { publicDisplayName } } }"), 2);
        assert_eq!(cost("{ orders(first: 10) { nodes { id customer { id } } pageInfo { hasNextPage } } }"), 20);
        assert_eq!(cost("{ orders(first: 10) { nodes { lineItems(first: 5) { nodes { id } } } } }"), 60);
        assert_eq!(cost("mutation { appUninstall { app { id } } }"), 12);
    }
}
