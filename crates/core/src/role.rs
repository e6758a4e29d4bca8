//! What a person may do in an org.

use serde::{Deserialize, Serialize};

/// A role. Each may do what the ones before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Looks.
    Viewer,
    /// Daily work: tests a connector, runs an agent.
    Member,
    /// Connects and disconnects, agents, keys. Hears of failures.
    Admin,
    /// Everything. Hears of failures.
    Owner,
}

impl Role {
    /// All of them, from the least to the most.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Member, Self::Admin, Self::Owner];

    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }

    /// Whether somebody of this role may give somebody of the role `from` the role `to`, or take them out (`None`). Admins
    /// see to everybody but owners; only owners make and unmake those.
    pub fn may_change(self, from: Self, to: Option<Self>) -> bool {
        self >= Self::Admin && self >= from && to.is_none_or(|to| self >= to)
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::Role;

    #[test]
    fn only_owners_make_and_unmake_owners_and_only_admins_anybody() {
        for by in Role::ALL {
            for from in Role::ALL {
                for to in Role::ALL.into_iter().map(Some).chain([None]) {
                    let owners = from == Role::Owner || to == Some(Role::Owner);
                    let may = match by {
                        Role::Owner => true,
                        Role::Admin => !owners,
                        Role::Member | Role::Viewer => false,
                    };
                    assert_eq!(by.may_change(from, to), may, "{by:?}: {from:?} to {to:?}");
                }
            }
        }
    }

    #[test]
    fn roles_are_ordered_and_read_back() {
        assert!(Role::ALL.is_sorted());
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Role::parse("root"), None);
    }
}
