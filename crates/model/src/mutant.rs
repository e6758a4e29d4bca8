//! Faults that are put into the protocol on purpose: each has to break a property, else the properties are too weak.

use holdfast_core::mutants;

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// The flight works with what it knew before its lease, and the journal does not compare versions.
    NoReread,
    /// A new set is written whatever is stored.
    UnconditionalWrite,
    /// A lease is ended whoever holds it.
    UnconditionalRelease,
    /// A verdict is declared whatever is stored.
    FailureWithoutVersion,
    /// The lease is shorter than the exchange, and nothing is checked before a request.
    LeaseShorterThanExchange,
    /// An open row of somebody else is closed without asking after its holder.
    ReliefWithoutJournalRule,
    /// Extras stand in the row of the token set, and are written back with it.
    ExtrasInTokenRow,
    /// A time-out is taken for a refusal.
    TimeoutIsRefusal,
    /// An exchange without an answer leaves no mark.
    ForgetsLostAnswer,
    /// Closing a lost owner's row leaves no mark.
    ReliefForgetsAnswer,
    /// A success is dropped when its row was closed meanwhile.
    DropsWhatIsLate,
    /// A replica that starts takes leases before its lifeboat is drained.
    LeaseBeforeLifeboat,
    /// A replica that starts throws its lifeboat away.
    LifeboatThrownAway,
    /// A flight waits for another one's exchange past its time.
    WaitsForEver,
    /// A row of which it is not known whether it was written is not closed.
    LeavesUnknownRow,
    /// Closing a row that is not there leaves nothing that keeps a late opening out.
    LateOpening,
    /// A row is closed for its owner without looking again whether that one lives.
    ReliefOnOldLook,
    /// A refusal is judged by what was read before the row was opened.
    JudgesByOldRead,
    /// A verdict that is taken back takes with it what it knew of a lost answer.
    WithdrawalForgetsAnswer,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::NoReread,
        Self::UnconditionalWrite,
        Self::UnconditionalRelease,
        Self::FailureWithoutVersion,
        Self::LeaseShorterThanExchange,
        Self::ReliefWithoutJournalRule,
        Self::ExtrasInTokenRow,
        Self::TimeoutIsRefusal,
        Self::ForgetsLostAnswer,
        Self::ReliefForgetsAnswer,
        Self::DropsWhatIsLate,
        Self::LeaseBeforeLifeboat,
        Self::LifeboatThrownAway,
        Self::WaitsForEver,
        Self::LeavesUnknownRow,
        Self::LateOpening,
        Self::ReliefOnOldLook,
        Self::JudgesByOldRead,
        Self::WithdrawalForgetsAnswer,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoReread => "no re-read under the lease",
            Self::UnconditionalWrite => "unconditional write",
            Self::UnconditionalRelease => "unconditional release",
            Self::FailureWithoutVersion => "failure mark without version",
            Self::LeaseShorterThanExchange => "lease shorter than the exchange",
            Self::ReliefWithoutJournalRule => "relief without the journal rule",
            Self::ExtrasInTokenRow => "extras in the token row",
            Self::TimeoutIsRefusal => "a time-out taken for a refusal",
            Self::ForgetsLostAnswer => "a lost answer not marked",
            Self::ReliefForgetsAnswer => "a relieved row not marked",
            Self::DropsWhatIsLate => "a late success dropped",
            Self::LeaseBeforeLifeboat => "a lease before the lifeboat is drained",
            Self::LifeboatThrownAway => "the lifeboat thrown away",
            Self::WaitsForEver => "a wait without end",
            Self::LeavesUnknownRow => "a row of unknown fate left open",
            Self::LateOpening => "a late opening not kept out",
            Self::ReliefOnOldLook => "relief on an old look at the owner",
            Self::JudgesByOldRead => "a refusal judged by an old read",
            Self::WithdrawalForgetsAnswer => "a withdrawal forgets the lost answer",
        }
    }

    /// The fault in the real decision functions, where it is one of those.
    pub fn in_core(self) -> Option<mutants::Mutant> {
        match self {
            Self::LeaseShorterThanExchange => Some(mutants::Mutant::SendsWithoutLease),
            Self::ReliefWithoutJournalRule => Some(mutants::Mutant::RelievesAnybody),
            Self::TimeoutIsRefusal => Some(mutants::Mutant::TimeoutIsRefusal),
            Self::ForgetsLostAnswer => Some(mutants::Mutant::ForgetsLostAnswer),
            _ => None,
        }
    }
}
