//! Scopes: which exist, what they allow, how the consent page words them.

const RESOURCES: &[(&str, &str)] = &[
    ("tickets", "tickets"),
    ("users", "people"),
    ("auditlogs", "the audit log"),
    ("organizations", "organizations"),
    ("hc", "Help Center articles"),
    ("apps", "apps"),
    ("triggers", "triggers"),
    ("automations", "automations"),
    ("targets", "targets"),
    ("webhooks", "webhooks"),
    ("macros", "macros"),
    ("requests", "requests"),
    ("satisfaction_ratings", "satisfaction ratings"),
    ("dynamic_content", "dynamic content"),
    ("any_channel", "channels"),
    ("web_widget", "the web widget"),
    ("zis", "integration services"),
];

/// A space separated list of scopes, as it was granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scopes<'a>(pub(crate) &'a str);

impl<'a> Scopes<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a str> {
        self.0.split_ascii_whitespace()
    }

    pub(crate) fn first_unknown(self) -> Option<&'a str> {
        self.iter().find(|scope| !is_known(scope))
    }

    /// `access` is `read` or `write`; the broad scope or the one of `resource` will do.
    pub(crate) fn allow(self, resource: &str, access: &str) -> bool {
        self.iter()
            .any(|scope| scope == access || scope.split_once(':').is_some_and(|(r, a)| r == resource && a == access))
    }

    pub(crate) fn in_words(self) -> Vec<String> {
        self.iter().map(words).collect()
    }
}

fn is_known(scope: &str) -> bool {
    if matches!(scope, "read" | "write" | "impersonate") {
        return true;
    }
    let Some((resource, access)) = scope.split_once(':') else {
        return false;
    };
    RESOURCES.iter().any(|(known, _)| *known == resource)
        && match resource {
            "auditlogs" => access == "read",
            "any_channel" | "web_widget" => access == "write",
            _ => matches!(access, "read" | "write"),
        }
}

fn words(scope: &str) -> String {
    match scope {
        "read" => return "See everything that you can see".to_owned(),
        "write" => return "Create, change and delete everything that you can".to_owned(),
        "impersonate" => return "Act on behalf of other people".to_owned(),
        _ => {}
    }
    let (resource, access) = scope.split_once(':').unwrap_or((scope, ""));
    let what = RESOURCES.iter().find(|(known, _)| *known == resource).map_or(resource, |(_, words)| *words);
    match access {
        "read" => format!("See {what}"),
        "write" => format!("Create, change and delete {what}"),
        _ => format!("Use {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_known_only_in_the_forms_that_zendesk_lists() {
        for (scope, known) in [
            ("read", true),
            ("tickets:read", true),
            ("auditlogs:write", false),
            ("web_widget:read", false),
            ("tickets", false),
            ("tickets:delete", false),
            ("ticket:read", false),
        ] {
            assert_eq!(Scopes(scope).first_unknown().is_none(), known, "{scope}");
        }
    }

    #[test]
    fn write_does_not_include_read() {
        assert!(!Scopes("write tickets:write").allow("tickets", "read"));
        assert!(Scopes("users:read tickets:read").allow("tickets", "read"));
        assert!(Scopes("read").allow("tickets", "read"));
    }
}
