//! Statements: how they are run, and what differs between the two databases.

use chrono::{DateTime, SubsecRound, Utc};
use holdfast_core::ports::{Changed, StoreError};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, FromQueryResult, Statement, Value};

/// Values for `$1`, `$2`, ….
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(sea_orm::Value::from($value)),*] };
}
pub(crate) use values;

/// Moments as both databases keep them: PostgreSQL cuts to microseconds.
pub(crate) fn micros(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(6)
}

/// The database's clock, in milliseconds since 1970; not the transaction's start.
pub(crate) fn now_ms(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => "(extract(epoch from clock_timestamp())*1000)::bigint",
        _ => "CAST(unixepoch('subsec')*1000 AS INTEGER)",
    }
}

/// Ends a `SELECT` whose rows must not move until the transaction ends. On SQLite every writing transaction is alone.
pub(crate) fn for_update(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => " FOR UPDATE",
        _ => "",
    }
}

/// Like [`for_update`], and passes over what somebody else has: of many at once, each gets other rows.
pub(crate) fn for_update_of_the_free(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => " FOR UPDATE SKIP LOCKED",
        _ => "",
    }
}

/// Like [`for_update`], shared with others that only look.
pub(crate) fn for_share(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => " FOR SHARE",
        _ => "",
    }
}

/// Until the transaction ends, others that say the same name wait here. On SQLite every writing transaction is alone.
pub(crate) async fn alone(tx: &impl ConnectionTrait, doing: &'static str, name: &str) -> Result<(), StoreError> {
    if tx.get_database_backend() == DbBackend::Postgres {
        run(tx, doing, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", values![name]).await?;
    }
    Ok(())
}

/// `$1, $2, …` for `IN (…)`.
pub(crate) fn list(count: usize) -> String {
    (1..=count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// After a text that is sorted or compared by its bytes, whatever the database's own order of letters is.
pub(crate) fn by_bytes(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => " COLLATE \"C\"",
        _ => "",
    }
}

/// A random moment, another one for each row, within `secs` seconds from `from`; both are placeholders.
pub(crate) fn random_moment(backend: DbBackend, from: &str, secs: &str) -> String {
    if backend == DbBackend::Postgres {
        return format!("{from} + random() * {secs} * interval '1 second'");
    }
    let share = "abs(random() % 1000000) / 1000000.0";
    format!("strftime('%Y-%m-%dT%H:%M:%f', {from}, ({share} * {secs}) || ' seconds') || '+00:00'")
}

/// The day of a moment in UTC, as `2026-11-29`.
pub(crate) fn day_of(backend: DbBackend, column: &str) -> String {
    match backend {
        DbBackend::Postgres => format!("to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"),
        _ => format!("substr({column}, 1, 10)"),
    }
}

/// A pattern for `LIKE ... ESCAPE '\'` that finds this text anywhere.
pub(crate) fn anywhere(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// An error of ours from the database's.
pub(crate) fn failed(doing: &'static str) -> impl FnOnce(DbErr) -> StoreError {
    move |error| because(doing, error)
}

/// An error of ours with its cause.
pub(crate) fn because(
    doing: impl Into<String>,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError { doing: doing.into(), source: Some(cause.into()) }
}

/// A row that makes no sense.
pub(crate) fn nonsense(table: &str, column: &str, row: &str) -> StoreError {
    StoreError::new(format!("table {table}, column {column}, row {row} makes no sense"))
}

/// What a statement that changed so many rows did.
pub(crate) fn changed(rows: u64) -> Changed {
    if rows == 0 { Changed::No } else { Changed::Yes }
}

/// Runs it; answers how many rows it changed.
pub(crate) async fn run(
    db: &impl ConnectionTrait,
    doing: &'static str,
    sql: impl Into<String>,
    values: Vec<Value>,
) -> Result<u64, StoreError> {
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    Ok(db.execute_raw(statement).await.map_err(failed(doing))?.rows_affected())
}

/// Its first row.
pub(crate) async fn one<R: FromQueryResult>(
    db: &impl ConnectionTrait,
    doing: &'static str,
    sql: impl Into<String>,
    values: Vec<Value>,
) -> Result<Option<R>, StoreError> {
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    let row = db.query_one_raw(statement).await.map_err(failed(doing))?;
    row.map(|row| R::from_query_result(&row, "")).transpose().map_err(failed(doing))
}

/// All its rows.
pub(crate) async fn all<R: FromQueryResult>(
    db: &impl ConnectionTrait,
    doing: &'static str,
    sql: impl Into<String>,
    values: Vec<Value>,
) -> Result<Vec<R>, StoreError> {
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    let rows = db.query_all_raw(statement).await.map_err(failed(doing))?;
    rows.iter().map(|row| R::from_query_result(row, "")).collect::<Result<_, _>>().map_err(failed(doing))
}

/// One text column called `id`.
#[derive(FromQueryResult)]
pub(crate) struct Id {
    pub(crate) id: String,
}

/// One number called `number`.
#[derive(FromQueryResult)]
pub(crate) struct Number {
    pub(crate) number: i64,
}

impl Number {
    /// For counts, which are never negative.
    pub(crate) fn count(&self) -> u64 {
        self.number.unsigned_abs()
    }
}
