//! The key of an event that has no id of its own: what it says, whatever the order in which it says it.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::credential::hex;

/// Of a body: the same JSON with its fields in another order is the same (WD-09); anything else goes by its bytes. `before`
/// is what else tells events apart, such as the provider's word for what happened.
pub fn digest(before: &[&str], body: &[u8]) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => digest_of(before, &value),
        Err(_) => finish(hasher(before, b"bytes").chain_update(body)),
    }
}

/// Of some fields.
pub fn digest_of(before: &[&str], value: &Value) -> String {
    let mut hasher = hasher(before, b"json");
    put(&mut hasher, value);
    finish(hasher)
}

fn hasher(before: &[&str], kind: &[u8]) -> Sha256 {
    let mut hasher = Sha256::new_with_prefix(kind);
    for part in before {
        put_bytes(&mut hasher, b'b', part.as_bytes());
    }
    hasher
}

fn finish(hasher: Sha256) -> String {
    hex(&hasher.finalize())
}

/// Each value with its kind and length, so that no two spell the same.
fn put(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            put_bytes(hasher, b'o', &fields.len().to_be_bytes());
            for (name, value) in fields {
                put_bytes(hasher, b'n', name.as_bytes());
                put(hasher, value);
            }
        }
        Value::Array(items) => {
            put_bytes(hasher, b'a', &items.len().to_be_bytes());
            for item in items {
                put(hasher, item);
            }
        }
        Value::String(text) => put_bytes(hasher, b's', text.as_bytes()),
        plain => put_bytes(hasher, b'p', plain.to_string().as_bytes()),
    }
}

fn put_bytes(hasher: &mut Sha256, kind: u8, bytes: &[u8]) {
    hasher.update([kind]);
    hasher.update((bytes.len() as u64).to_be_bytes());
    hasher.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_fields_makes_no_other_event_and_anything_else_does() {
        let one = digest(&["t"], br#"{"a":1,"b":["x",{"c":null,"d":"e"}]}"#);
        assert_eq!(one, digest(&["t"], br#" {"b": ["x", {"d":"e","c":null}], "a": 1}"#));
        for other in [
            &br#"{"a":1,"b":["x",{"c":null,"d":"f"}]}"#[..],
            br#"{"a":"1","b":["x",{"c":null,"d":"e"}]}"#,
            br#"{"a":1,"b":[{"c":null,"d":"e"},"x"]}"#,
            br#"{"a":1,"b":["x",{"c":null,"d":"e"}]"#,
            b"",
        ] {
            assert_ne!(one, digest(&["t"], other));
        }
        assert_ne!(one, digest(&["u"], br#"{"a":1,"b":["x",{"c":null,"d":"e"}]}"#));
        assert_ne!(digest(&["ab", "c"], b"x"), digest(&["a", "bc"], b"x"));
        assert_eq!(one.len(), 64);
    }
}
