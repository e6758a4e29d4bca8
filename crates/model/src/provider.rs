//! The provider: strict rotation, single use, an optional grace for a lost answer, optional revocation of a family.

use std::fmt;

use crate::bounds::{Bounds, Replay, TOKEN_SETS};

/// A token set, as a number; 0 is none.
pub type Token = u8;

/// What a refresh token is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Worth {
    /// Not issued yet.
    #[default]
    None,
    /// It buys the next one.
    Live,
    /// It is used, and may come again for so many ticks.
    Used(i8),
    /// It is over.
    Over,
}

/// One token set that was issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Issued {
    /// What its refresh token is worth.
    pub worth: Worth,
    /// In place of which one; 0: from a person's grant.
    pub parent: Token,
    /// Of which grant.
    pub grant: u8,
    /// An exchange of ours has spent it.
    pub spent: bool,
    /// Only for the properties: it reached us and was dropped.
    pub dropped: bool,
}

/// Every token set of one account and OAuth app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Provider {
    sets: [Issued; TOKEN_SETS],
}

impl Provider {
    /// One set.
    pub fn get(&self, token: Token) -> &Issued {
        &self.sets[usize::from(token) - 1]
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> &mut Issued {
        &mut self.sets[usize::from(token) - 1]
    }

    /// How many were issued.
    pub fn count(&self) -> u8 {
        u8::try_from(self.sets.iter().filter(|set| set.worth != Worth::None).count()).unwrap_or(u8::MAX)
    }

    /// A person gives a grant.
    pub(crate) fn grant(&mut self) -> Token {
        let grant = self.sets.iter().map(|set| set.grant).max().unwrap_or(0) + 1;
        self.issue(Issued { worth: Worth::Live, grant, ..Issued::default() })
    }

    /// Whether a refresh token would bring something now.
    pub fn accepts(&self, token: Token) -> bool {
        token != 0 && matches!(self.get(token).worth, Worth::Live | Worth::Used(1..))
    }

    /// Whether presenting it brings one more set.
    pub(crate) fn would_issue(&self, token: Token, bounds: &Bounds) -> bool {
        match self.get(token).worth {
            Worth::Live => true,
            Worth::Used(1..) => bounds.replay != Replay::TheSame,
            _ => false,
        }
    }

    /// A refresh token is presented; `None`: refused.
    pub(crate) fn present(&mut self, token: Token, bounds: &Bounds) -> Option<Token> {
        let set = *self.get(token);
        match set.worth {
            Worth::Live => {
                let worth = if bounds.grace > 0 { Worth::Used(bounds.grace) } else { Worth::Over };
                *self.get_mut(token) = Issued { worth, spent: true, ..set };
                // Who has the successor needs no grace any more.
                if set.parent != 0 {
                    self.get_mut(set.parent).worth = Worth::Over;
                }
                Some(self.issue(Issued { worth: Worth::Live, parent: token, grant: set.grant, ..Issued::default() }))
            }
            Worth::Used(1..) => match bounds.replay {
                Replay::TheSame => self.child_of(token),
                Replay::OneMore | Replay::InPlaceOf => {
                    if bounds.replay == Replay::InPlaceOf {
                        for other in self.sets.iter_mut().filter(|other| other.parent == token) {
                            other.worth = Worth::Over;
                        }
                    }
                    let next = Issued { worth: Worth::Live, parent: token, grant: set.grant, ..Issued::default() };
                    Some(self.issue(next))
                }
            },
            Worth::Used(_) | Worth::Over | Worth::None => {
                if bounds.family && set.spent {
                    self.revoke(token);
                }
                None
            }
        }
    }

    /// The grant behind a token ends.
    pub(crate) fn revoke(&mut self, token: Token) {
        let grant = self.get(token).grant;
        for set in self.sets.iter_mut().filter(|set| set.grant == grant && set.worth != Worth::None) {
            set.worth = Worth::Over;
        }
    }

    pub(crate) fn tick(&mut self) {
        for set in &mut self.sets {
            set.worth = match set.worth {
                Worth::Used(left @ 2..) => Worth::Used(left - 1),
                Worth::Used(_) => Worth::Over,
                other => other,
            };
        }
    }

    fn child_of(&self, token: Token) -> Option<Token> {
        let at = self.sets.iter().position(|set| set.parent == token)?;
        u8::try_from(at + 1).ok()
    }

    fn issue(&mut self, set: Issued) -> Token {
        let token = self.count() + 1;
        *self.get_mut(token) = set;
        token
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for token in 1..=self.count() {
            let set = self.get(token);
            let dropped = if set.dropped { " (dropped)" } else { "" };
            write!(f, "{token}: {:?} of {}{dropped}; ", set.worth, set.parent)?;
        }
        Ok(())
    }
}
