//! A playbook as people write it: in an order that reads, short things on one line.

use serde_json::Value;

/// What fits on a line stays on it.
const WIDTH: usize = 100;
/// What comes first in an object, in this order; the rest follows by name.
const ORDER: [&str; 20] = [
    "kind", "data", "id", "title", "tool", "on", "for_each", "as", "where", "limit", "on_error", "text", "words",
    "give", "value", "if", "with", "pages", "rules", "steps",
];

/// A playbook as text. Reads back as the same value.
pub fn pretty(spec: &Value) -> String {
    let mut out = String::new();
    write(spec, 0, &mut out);
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    let line = on_a_line(value);
    if line.len() + 2 * depth <= WIDTH && depth > 0 {
        out.push_str(&line);
        return;
    }
    match value {
        Value::Array(items) if !items.is_empty() => {
            block('[', ']', depth, items, out, |item, out| write(item, depth + 1, out));
        }
        Value::Object(fields) if !fields.is_empty() => {
            let names = ordered(fields.keys());
            block('{', '}', depth, &names, out, |name, out| {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push_str(": ");
                write(&fields[name.as_str()], depth + 1, out);
            });
        }
        _ => out.push_str(&line),
    }
}

fn block<T>(
    open: char,
    close: char,
    depth: usize,
    items: &[T],
    out: &mut String,
    mut each: impl FnMut(&T, &mut String),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push('\n');
        out.push_str(&"  ".repeat(depth + 1));
        each(item, out);
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(close);
}

fn on_a_line(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(on_a_line).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let field =
                |name: &String| format!("{}: {}", Value::from(name.as_str()), on_a_line(&fields[name.as_str()]));
            format!("{{ {} }}", ordered(fields.keys()).iter().map(field).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn ordered<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<_> = names.cloned().collect();
    let place = |name: &String| ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len());
    names.sort_by(|one, other| place(one).cmp(&place(other)).then(one.cmp(other)));
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_playbook_reads_well_and_reads_back() {
        let spec = json!({
            "steps": [
                {"with": {"limit": 5}, "tool": "search_tickets", "id": "found"},
                {"steps": [{"tool": "get_ticket", "id": "read", "with": {"ticket_id": "{{ ticket.id }}"}, "title": "Read \"it\""}],
                 "as": "ticket", "for_each": "{{ found.tickets }}", "id": "each"}
            ],
            "kind": "playbook", "data": {}
        });

        let text = pretty(&spec);

        assert_eq!(
            text,
            r#"{
  "kind": "playbook",
  "data": {},
  "steps": [
    { "id": "found", "tool": "search_tickets", "with": { "limit": 5 } },
    {
      "id": "each",
      "for_each": "{{ found.tickets }}",
      "as": "ticket",
      "steps": [
        {
          "id": "read",
          "title": "Read \"it\"",
          "tool": "get_ticket",
          "with": { "ticket_id": "{{ ticket.id }}" }
        }
      ]
    }
  ]
}"#
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), spec);
        for odd in [json!([]), json!({}), json!("x"), json!(null), json!([[], {}])] {
            assert_eq!(serde_json::from_str::<Value>(&pretty(&odd)).unwrap(), odd);
        }
    }
}
