//! Tables `second_factors`, `second_factor_setups` and `recovery_codes`: what people prove beside their password. One for each
//! address, whichever orgs it is in. The secret leaves the store once, for the page where it is set up.

use chrono::{DateTime, Utc};
use holdfast_core::{
    OrgId, Role,
    ports::{Changed, StoreError},
    totp,
};
use sea_orm::{ConnectionTrait, DatabaseTransaction, FromQueryResult};
use secrecy::{SecretString, zeroize::Zeroizing};
use serde_json::{Value, json};

use crate::{
    audit::Change,
    mails::{MailKind, Tell},
    patience::Patient,
    sql::{self, because, failed, micros, values},
    store::Store,
    team::role_of,
};

/// A second factor that is on.
#[derive(Clone, Debug)]
pub struct SecondFactor {
    /// Since when.
    pub since: DateTime<Utc>,
    /// Recovery codes that were not used.
    pub recovery_left: u64,
}

/// What somebody proves themselves by.
#[derive(Clone, Copy, Debug)]
pub enum Proof<'a> {
    /// What their app shows, as it was typed.
    Code(&'a str),
    /// SHA-256 of a recovery code.
    Recovery(&'a [u8; 32]),
}

/// Whether they did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// They did; the code is spent.
    Yes,
    /// It is not the code.
    Wrong,
    /// It was, and it or a later one was used before: a code is good once.
    Used,
    /// Nothing is set up that it could be a code of.
    Nothing,
}

/// Somebody who changes their own second factor.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The row that they act as.
    pub user: &'a str,
    /// Its address, in lower case.
    pub email: &'a str,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    sealed_secret: Vec<u8>,
    last_step: i64,
    created_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct SetupRow {
    sealed_secret: Vec<u8>,
}

const SELECT: &str = "SELECT id, sealed_secret, last_step, created_at FROM second_factors WHERE email = $1";
const SETUP: &str = "SELECT sealed_secret FROM second_factor_setups WHERE session_id = $1 AND created_at > $2";

/// Where a sealed secret belongs: to a second factor, or to the session that sets one up.
fn field(owner: &str) -> String {
    format!("second-factor|{owner}")
}

impl Store {
    /// Makes a secret for whoever is signed in with this session to set up; the one before is forgotten.
    pub async fn begin_second_factor(&self, session: &str, at: DateTime<Utc>) -> Result<(), StoreError> {
        let mut secret = Zeroizing::new([0; totp::SECRET_BYTES]);
        self.inner.options.random.fill(secret.as_mut());
        let sealed = self.inner.sealer.seal_for_instance(&field(session), secret.as_ref());
        let sql = "INSERT INTO second_factor_setups (session_id, sealed_secret, created_at) VALUES ($1, $2, $3) \
                   ON CONFLICT (session_id) DO UPDATE SET sealed_secret = EXCLUDED.sealed_secret, \
                   created_at = EXCLUDED.created_at";
        let values = values![session, sealed, micros(at)];
        sql::run(self.db(), "begin to set up a second factor", sql, values).await.map(|_| ())
    }

    /// The secret that this session sets up, as an app takes it, if it was made after `after`.
    pub async fn second_factor_setup(
        &self,
        session: &str,
        after: DateTime<Utc>,
    ) -> Result<Option<SecretString>, StoreError> {
        let secret = self.setup_within(self.db(), "look what is being set up", session, after).await?;
        Ok(secret.map(|secret| SecretString::from(totp::base32(&secret))))
    }

    /// Turns it on, for whoever has shown the first code of the secret that their session sets up.
    pub async fn turn_on_second_factor(
        &self,
        owner: Owner<'_>,
        session: (&str, DateTime<Utc>),
        code: &str,
        recovery: &[[u8; 32]],
        tell: &Tell,
    ) -> Result<Proven, StoreError> {
        let doing = "turn a second factor on";
        let tx = self.transaction(doing).await?;
        let proven = self.turn_on_within(&tx, doing, owner, session, code, recovery, tell).await?;
        self.end(tx, doing, proven).await
    }

    #[expect(clippy::too_many_arguments, reason = "the two of a transaction, and what it is about")]
    async fn turn_on_within(
        &self,
        tx: &impl ConnectionTrait,
        doing: &'static str,
        owner: Owner<'_>,
        (session, after): (&str, DateTime<Utc>),
        code: &str,
        recovery: &[[u8; 32]],
        tell: &Tell,
    ) -> Result<Proven, StoreError> {
        sql::alone(tx, doing, &format!("second factor {}", owner.email)).await?;
        let before: Option<Row> = sql::one(tx, doing, SELECT, values![owner.email]).await?;
        let setup = self.setup_within(tx, doing, session, after).await?;
        let Some(secret) = setup.filter(|_| before.is_none()) else { return Ok(Proven::Nothing) };
        let Some(step) = totp::step_of(&secret, code, tell.at) else { return Ok(Proven::Wrong) };
        let id = self.id("sf");
        let sealed = self.inner.sealer.seal_for_instance(&field(&id), &secret);
        let sql = "INSERT INTO second_factors (id, email, sealed_secret, last_step, created_at) \
                   VALUES ($1, $2, $3, $4, $5)";
        sql::run(tx, doing, sql, values![id.as_str(), owner.email, sealed, step, micros(tell.at)]).await?;
        keep_recovery(tx, doing, &id, recovery).await?;
        let done = "DELETE FROM second_factor_setups WHERE session_id = $1";
        sql::run(tx, doing, done, values![session]).await?;
        self.tell_factor(tx, tell, owner, &json!({ "what": "on" }), ("second_factor.turned_on", true)).await?;
        Ok(Proven::Yes)
    }

    /// The second factor of this address, if it is on.
    pub async fn find_second_factor(&self, email: &str) -> Result<Option<SecondFactor>, StoreError> {
        let doing = "look for a second factor";
        let row: Option<Row> = sql::one(self.db(), doing, SELECT, values![email]).await?;
        let Some(row) = row else { return Ok(None) };
        let recovery_left = recovery_left(self.db(), doing, &row.id).await?;
        Ok(Some(SecondFactor { since: row.created_at, recovery_left }))
    }

    /// Whether this is the second factor of the address. It is spent by it, and of a recovery code they are told.
    pub async fn prove_second_factor(
        &self,
        owner: Owner<'_>,
        proof: Proof<'_>,
        tell: &Tell,
    ) -> Result<Proven, StoreError> {
        let doing = "check a second factor";
        let tx = self.transaction(doing).await?;
        let proven = self.prove_within(&tx, doing, owner, proof, tell).await?;
        self.end(tx, doing, proven.map_or_else(|not| not, |_| Proven::Yes)).await
    }

    /// Other recovery codes; those before are worth nothing.
    pub async fn renew_recovery_codes(
        &self,
        owner: Owner<'_>,
        proof: Proof<'_>,
        recovery: &[[u8; 32]],
        tell: &Tell,
    ) -> Result<Proven, StoreError> {
        let doing = "make recovery codes";
        let tx = self.transaction(doing).await?;
        let proven = match self.prove_within(&tx, doing, owner, proof, tell).await? {
            Ok(id) => {
                sql::run(&tx, doing, "DELETE FROM recovery_codes WHERE factor_id = $1", values![id.as_str()]).await?;
                keep_recovery(&tx, doing, &id, recovery).await?;
                self.tell_factor(&tx, tell, owner, &json!({ "what": "codes" }), ("second_factor.codes_renewed", true))
                    .await?;
                Proven::Yes
            }
            Err(not) => not,
        };
        self.end(tx, doing, proven).await
    }

    /// Turns it off.
    pub async fn turn_off_second_factor(
        &self,
        owner: Owner<'_>,
        proof: Proof<'_>,
        tell: &Tell,
    ) -> Result<Proven, StoreError> {
        let doing = "turn a second factor off";
        let tx = self.transaction(doing).await?;
        let proven = match self.prove_within(&tx, doing, owner, proof, tell).await? {
            Ok(id) => {
                sql::run(&tx, doing, "DELETE FROM second_factors WHERE id = $1", values![id]).await?;
                self.tell_factor(&tx, tell, owner, &json!({ "what": "off" }), ("second_factor.turned_off", true))
                    .await?;
                Proven::Yes
            }
            Err(not) => not,
        };
        self.end(tx, doing, proven).await
    }

    /// Turns it off for somebody who has lost it, by whoever runs the instance.
    pub async fn reset_second_factor(&self, owner: Owner<'_>, tell: &Tell) -> Result<Changed, StoreError> {
        let doing = "reset a second factor";
        let tx = self.transaction(doing).await?;
        let gone = sql::run(&tx, doing, "DELETE FROM second_factors WHERE email = $1", values![owner.email]).await?;
        if gone > 0 {
            self.tell_factor(&tx, tell, owner, &json!({ "what": "reset" }), ("second_factor.reset", false)).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(sql::changed(gone))
    }

    /// Tells somebody that codes of theirs are being guessed: whoever does that has their password.
    pub async fn tell_of_guesses(&self, user: &str, tell: &Tell) -> Result<(), StoreError> {
        let doing = "tell of guesses";
        let tx = self.transaction(doing).await?;
        self.tell_person(&tx, tell, user, MailKind::SecondFactor, &json!({ "what": "guessed" })).await?;
        tx.commit().await.map_err(failed(doing))
    }

    /// Whether people of this org have to have one. `by`: an owner, by their id. `No`: they are none, or not any more.
    pub async fn require_second_factor(&self, org: &OrgId, required: bool, by: &str) -> Result<Changed, StoreError> {
        let doing = "say who needs a second factor";
        let tx = self.transaction(doing).await?;
        let owner = role_of(&tx, doing, org, by).await? == Some(Role::Owner);
        if owner {
            let sql = "UPDATE orgs SET second_factor_required = $2 \
                       WHERE id = $1 AND second_factor_required <> $2 RETURNING name AS id";
            let changed: Option<sql::Id> = sql::one(&tx, doing, sql, values![org.as_str(), required]).await?;
            if let Some(sql::Id { id: name }) = changed {
                let line = Change::new(org, "organisation.changed", ("organisation", org.as_str(), &name));
                let field = |required: bool| json!({ "second_factor_required": required });
                self.audit(&tx, line.was(field(!required)).now(field(required))).await?;
            }
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(if owner { Changed::Yes } else { Changed::No })
    }

    async fn end(
        &self,
        tx: Patient<DatabaseTransaction>,
        doing: &'static str,
        proven: Proven,
    ) -> Result<Proven, StoreError> {
        match proven {
            Proven::Yes => tx.commit().await.map_err(failed(doing))?,
            _ => tx.rollback().await.map_err(failed(doing))?,
        }
        Ok(proven)
    }

    /// The id of what was proven, or why it was not.
    async fn prove_within(
        &self,
        tx: &impl ConnectionTrait,
        doing: &'static str,
        owner: Owner<'_>,
        proof: Proof<'_>,
        tell: &Tell,
    ) -> Result<Result<String, Proven>, StoreError> {
        // Of two who show the same code at once the second waits here, and finds it used.
        let locked = format!("{SELECT}{}", sql::for_update(self.backend()));
        let row: Option<Row> = sql::one(tx, doing, locked, values![owner.email]).await?;
        let Some(row) = row else { return Ok(Err(Proven::Nothing)) };
        match proof {
            Proof::Code(typed) => {
                let secret = self.open_factor(doing, &row.id, &row.sealed_secret)?;
                match totp::step_of(&secret, typed, tell.at) {
                    None => return Ok(Err(Proven::Wrong)),
                    Some(step) if step <= row.last_step => return Ok(Err(Proven::Used)),
                    Some(step) => {
                        let spend = "UPDATE second_factors SET last_step = $2 WHERE id = $1";
                        sql::run(tx, doing, spend, values![row.id.as_str(), step]).await?;
                    }
                }
            }
            Proof::Recovery(hash) => {
                let spend = "UPDATE recovery_codes SET used_at = $3 \
                             WHERE factor_id = $1 AND hash = $2 AND used_at IS NULL";
                let values = values![row.id.as_str(), hash.to_vec(), micros(tell.at)];
                if sql::run(tx, doing, spend, values).await? == 0 {
                    return Ok(Err(Proven::Wrong));
                }
                let left = recovery_left(tx, doing, &row.id).await?;
                self.tell_factor(
                    tx,
                    tell,
                    owner,
                    &json!({ "what": "recovery", "left": left }),
                    ("second_factor.recovery_used", true),
                )
                .await?;
            }
        }
        Ok(Ok(row.id))
    }

    async fn setup_within(
        &self,
        db: &impl ConnectionTrait,
        doing: &'static str,
        session: &str,
        after: DateTime<Utc>,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
        let row: Option<SetupRow> = sql::one(db, doing, SETUP, values![session, micros(after)]).await?;
        row.map(|row| self.open_factor(doing, session, &row.sealed_secret)).transpose()
    }

    fn open_factor(&self, doing: &'static str, owner: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, StoreError> {
        self.inner.sealer.open_for_instance(&field(owner), sealed).map_err(|error| because(doing, error))
    }

    /// What was done with a factor: by mail, and in the audit log as this action, by themselves or not.
    async fn tell_factor(
        &self,
        tx: &impl ConnectionTrait,
        tell: &Tell,
        owner: Owner<'_>,
        about: &Value,
        (action, themselves): (&'static str, bool),
    ) -> Result<(), StoreError> {
        self.tell_person(tx, tell, owner.user, MailKind::SecondFactor, about).await?;
        self.audit_address(tx, owner.email, action, themselves).await
    }
}

/// After somebody has left: an address that is nobody's any more keeps nothing.
pub(crate) async fn forget_of_nobody(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    user: &str,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM second_factors WHERE email = (SELECT email FROM users WHERE id = $1) AND NOT EXISTS \
               (SELECT 1 FROM users u WHERE u.email = second_factors.email AND u.removed_at IS NULL)";
    sql::run(tx, doing, sql, values![user]).await?;
    let sql = "DELETE FROM identities WHERE email = (SELECT email FROM users WHERE id = $1) AND NOT EXISTS \
               (SELECT 1 FROM users u WHERE u.email = identities.email AND u.removed_at IS NULL)";
    sql::run(tx, doing, sql, values![user]).await.map(|_| ())
}

async fn keep_recovery(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    factor: &str,
    hashes: &[[u8; 32]],
) -> Result<(), StoreError> {
    for hash in hashes {
        let sql = "INSERT INTO recovery_codes (factor_id, hash) VALUES ($1, $2)";
        sql::run(tx, doing, sql, values![factor, hash.to_vec()]).await?;
    }
    Ok(())
}

async fn recovery_left(db: &impl ConnectionTrait, doing: &'static str, factor: &str) -> Result<u64, StoreError> {
    let sql = "SELECT COUNT(*) AS number FROM recovery_codes WHERE factor_id = $1 AND used_at IS NULL";
    let row: Option<sql::Number> = sql::one(db, doing, sql, values![factor]).await?;
    Ok(row.map_or(0, |row| row.count()))
}
